"""The table of compiled programs, with a compiler that answers at once."""

import pytest

from agentrl.lab.bench import compiled_programs
from agentrl.lab.capacity.compiled import compiler, hlo, table, targets
from agentrl.lab.capacity.compiled.counts import Counts, Loop
from tests import errors


@pytest.fixture
def jobs(monkeypatch):
  """What was compiled; the second is refused."""
  seen: list[compiler.CompileJob] = []

  def answer(job):
    seen.append(job)
    sent = hlo.Collective('all-reduce', 'f32[8]', tuple(range(8)), 1, 3e9)
    refused = 'too large' if len(seen) == 2 else ''
    loops = [
      Loop('', 0, None, Counts(most=most, conditionals=most - 8), 'body')
      for most in (8, 9, 10)
    ]
    return compiler.CompiledProgram(
      hbm=2e9,
      arguments=1e9,
      collectives=(sent,),
      largest=(),
      refused=refused,
      counts=Counts(cast_bytes=4e9),
      loops=tuple(loops),
      layers=(0, 24, 84),
    )

  monkeypatch.setattr(compiler, 'compiled', answer)
  monkeypatch.setattr(targets, 'check_available', lambda platform: None)
  return seen


def cell(row: str, column: str) -> str:
  at = compiled_programs.COLUMNS.index(column)
  return row.split('|')[at + 1].strip()


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
  assert 0 < float(cell(first, 'bound of utilisation')) < 0.75
  assert cell(first, 'kernels of a layer') == '24 + 84'
  assert cell(first, 'conditions of a trip') == '1 + 2'
  assert cell(first, 'casts GB') == '4.0'
  assert '2.0 (refused)' in second
  assert second.count('|') == first.count('|')
  assert cell(third, 'bound of utilisation') == ''  # of decoding none is known
  names = ['v5e:8x8', 'v5e:2x4', 'v5e:2x4']
  assert [x.target.name for x in jobs] == names
  assert jobs[0].work.rows == 16 * 4  # micro-batches; tensor has no rows
  assert jobs[0].config['mesh']['tensor'] == 4


def test_a_card_gets_the_sizes_that_were_measured(jobs):
  *_, row = compiled_programs.rows(['0.5B h100-1 update'])
  assert (jobs[0].work.rows, jobs[0].work.tokens) == (8, 4096)
  assert cell(row, 'bound of utilisation') == ''  # that is of a TPU's schedule


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
