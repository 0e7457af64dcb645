"""The table of compiled programs, with a compiler that answers at once."""

import pytest

from agentrl.lab.bench import compiled_programs
from agentrl.lab.capacity.compiled import compiler, hlo, table
from tests import errors


@pytest.fixture
def jobs(monkeypatch):
  """What was compiled; the second is refused."""
  seen: list[compiler.CompileJob] = []

  def answer(job):
    seen.append(job)
    sent = hlo.Collective('all-reduce', 'f32[8]', 8, 1, 3e9)
    refused = 'too large' if len(seen) == 2 else ''
    return compiler.CompiledProgram(2e9, 1e9, (sent,), (), refused)

  monkeypatch.setattr(compiler, 'compiled', answer)
  monkeypatch.setattr(compiler, 'check_available', lambda: None)
  return seen


def test_a_row_for_each_cell(jobs):
  cells = [
    '7B v5e-64 fsdp=16 tensor=4 update',
    '0.5B v5e-8 fsdp=8 update',
    '0.5B v5e-8 fsdp=8 decode',
  ]
  _, _, first, second, third = compiled_programs.rows(cells)
  start = (
    '| 7B | v5e-64 | fsdp=16 tensor=4 | update | 1.00 | 2.00 | 0.0 | 3.0 |'
  )
  assert first.startswith(start)
  assert 0 < float(first.split('|')[-2]) < 0.75
  assert '2.0 (refused)' in second
  assert third.split('|')[-2].strip() == ''  # of decoding nothing is said
  assert [x.torus for x in jobs] == ['v5e:8x8', 'v5e:2x4', 'v5e:2x4']
  assert jobs[0].work.rows == 16 * compiled_programs.MICRO  # tensor has no rows
  assert jobs[0].config['mesh']['tensor'] == 4


@pytest.mark.parametrize(
  ('cell', 'words'),
  [
    ('0.5 v5e-8 fsdp=8 update', '0.5 0.5B'),
    ('0.5B v5e-8 fsdp=8 roll', 'roll'),
  ],
)
def test_a_wrong_cell_is_refused_before_any_is_compiled(jobs, cell, words):
  cells = ['0.5B v5e-8 fsdp=8 update', cell]
  with errors.raises(ValueError, words):
    list(compiled_programs.rows(cells))
  assert not jobs


def test_bounds_are_of_known_reductions():
  assert set(table.REDUCED) < set(hlo.KINDS)
