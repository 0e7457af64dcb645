"""The grid, its learner, and programs of any kind."""

import re

import numpy as np
import pytest

from agentrl.lab import archive
from agentrl.lab.archive import Archive, Entry
from agentrl.lab.papers.auto_mc_reward import programs, study, world
from agentrl.lab.papers.auto_mc_reward.world import SIZE, World
from agentrl.tool.sandbox.sandbox import Sandbox


@pytest.fixture(scope='module')
def sandbox():
  return Sandbox(programs.LIMITS._replace(seconds=5.0))  # on a busy machine


def away(a, b):
  return sum(abs(x - y) for x, y in zip(a, b, strict=True))


def walk(w):
  """A policy of the shortest way: rows first."""
  out = np.zeros(2 * SIZE * SIZE, int)
  for s in range(len(out)):
    x, y, has = w.cell(s)
    to = w.door if has else w.key
    if x != to[0]:
      out[s] = 0 if to[0] < x else 1
    else:
      out[s] = 2 if to[1] < y else 3
  return out


def test_the_key_has_to_be_fetched():
  w = World(3)
  assert min(away(w.start, w.key), away(w.key, w.door)) >= world.APART
  for s, row in enumerate(w.next):
    x, y, has = w.cell(s)
    for (dx, dy), to in zip(world.MOVES, row, strict=True):
      at = [min(max(v, 0), SIZE - 1) for v in (x + dx, y + dy)]
      assert w.cell(to) == (*at, int(has or at == w.key))
  assert w.cell(w.won) == (*w.door, 1)
  assert w.cell(w.first) == (*w.start, 0)


def test_success_is_that_of_many_attempts():
  w = World(5)
  policy, rng, won = walk(w), np.random.default_rng(0), []
  policy[w.first] = 0  # a detour, that slips alone leave
  for _ in range(3000):
    s = w.first
    for _ in range(world.TURNS):
      slipped = rng.random() < world.SLIP
      s = w.next[s][rng.integers(4) if slipped else policy[s]]
      if s == w.won:
        break
    won.append(s == w.won)
  want = np.mean(won)
  assert world.success(w, policy) == pytest.approx(want, abs=0.035)
  assert world.success(w, walk(w)) > 0.95


def test_a_program_is_run_over_every_move(sandbox):
  w = World(1)
  program = programs.write({'key nearer': 0.5, 'key fetched': 2.0})
  got = programs.run(sandbox, program, w).reward
  for s, row in enumerate(w.next):
    *before, has = w.cell(s)
    for a, to in enumerate(row):
      *after, has_then = w.cell(to)
      want = 0.0
      if not has:
        want += 0.5 * (away(before, w.key) - away(after, w.key))
      want += 2.0 * (has_then > has)
      assert got[s, a] == pytest.approx(want)
  assert programs.parts_of(program) == {'key nearer': 0.5, 'key fetched': 2.0}


@pytest.mark.slow
@pytest.mark.parametrize('mistake', programs.MISTAKES)
def test_a_program_that_is_wrong_costs_itself(sandbox, mistake):
  w = World(1)
  program = programs.write({'key near': 0.1}, mistake)
  ran = programs.run(sandbox, program, w)
  assert ran.reward is None
  kind = 'time' if 'while' in mistake else '(error|rubbish)'
  assert re.match(kind, ran.fault)
  verdict = study.evaluator(w, sandbox, 60)(program, 0)
  assert verdict == (0.0, 1, f'refused: {ran.fault}')


@pytest.mark.parametrize(
  'program',
  [
    '',
    'print("[1, 2]")',
    'def reward(before, after):\n  return True\n',
    'def reward(before, after):\n  return [1]\n',
    'def reward(before, after):\n  raise SystemExit\n',
    'import sys\nprint([0.0] * 512)\nsys.exit(1)',
    'def reward(before, after):\n  return 10 ** 400\n',
    'def reward(before, after):\n  return 10 ** 9000\n',
    'def reward(before, after):\n  return float("inf")\n',
    # Without a reward, and with an exit status of 0.
    'print([10.0] * 512)\nraise SystemExit\n',
    'import os\nprint([10.0] * 512, flush=True)\nos._exit(0)\n',
    'print([10.0] * 512)\ndef reward(before, after):\n  raise SystemExit\n',
    'import atexit\natexit.register(print, [10.0] * 512)\nraise SystemExit\n',
    # With one that returns no number, and names that say otherwise.
    *(
      f'import builtins, json\n{change}\ndef reward(before, after):\n'
      '  return "x"\n'
      for change in (
        'json.dumps = lambda x: str([10.0] * 512)',
        'json.JSONEncoder.encode = lambda self, x: str([10.0] * 512)',
        'builtins.repr = lambda x: str([10.0] * 512)',
        'builtins.print = lambda *x: None',
        'builtins.type = lambda x: float',
        'builtins.float = builtins.str',
      )
    ),
  ],
)
def test_rubbish_is_refused(sandbox, program):
  assert programs.run(sandbox, program, World(1)).reward is None


def test_a_program_may_print_and_rebind_names(sandbox):
  w, plain = World(1), programs.write({'key near': 0.5})
  loud = 'print("[1.0]")\nimport builtins, json, sys\njson.dumps = str\n'
  loud += 'builtins.dict = builtins.repr = builtins.float = None\n'
  loud += 'sys.stdout = None\n'
  want = programs.run(sandbox, plain, w).reward
  np.testing.assert_array_equal(
    programs.run(sandbox, loud + plain, w).reward, want
  )
  assert want.any()


def entry(value, said, **parts):
  return Entry(programs.write(parts), value, 60, said)


def designed(*entries, seeds=40):
  asked = archive.messages(Archive(entries))
  texts = [programs.refine(asked, seed=n) for n in range(seeds)]
  return [programs.parts_of(x) for x in texts]


def test_a_designer_reads_where_attempts_fail():
  sparse = entry(0.0, 'key 0.00, won 0.00, shaped 0.00, revisits 0.90')
  for parts in designed(sparse):
    assert all(x.startswith('key') for x in parts)
  near = entry(0.0, 'key 0.30, won 0.00, shaped 9, revisits 0.80',
               **{'key near': 0.5})  # fmt: skip
  for parts in designed(sparse, near):  # it stayed near: coming nearer is paid
    assert parts == {'key nearer': 0.5}
  fetched = entry(0.0, 'key 0.90, won 0.00, shaped 1, revisits 0.20',
                  **{'key nearer': 0.1})  # fmt: skip
  for parts in designed(sparse, near, fetched):
    assert any(x.startswith('door') for x in parts)
    assert parts['key nearer'] == 0.1
  refused = Entry('x', 0.0, 1, 'refused: time: ')
  assert designed(sparse, refused) == designed(sparse)
