"""A library of tools: what is kept, merged and retired, and what that gains."""

import json

import numpy as np
import pytest

from agentrl.lab.papers.tool_creation import library as lib
from agentrl.lab.papers.tool_creation import scripted, study, world
from agentrl.lab.papers.tool_creation.library import Rules, Tool
from agentrl.lab.papers.tool_creation.programs import Bench
from agentrl.lab.papers.tool_creation.scripted import Attempt, Used
from agentrl.lab.papers.tool_creation.world import Step
from agentrl.service.base import ServiceFault
from tests import errors
from tests.lab.papers.tool_creation.in_process import InProcess

S = world.STRING
REVERSED_TURN = (Step('reverse'), Step('turn', 1))


def tool(*steps, last=0, of=S, **fields):
  return Tool(scripted.written(steps, of), of, last, **fields)


def bench_of(chain=REVERSED_TURN, count=4):
  tasks = world.draw([(S, chain)], count, 0)
  return tasks, Bench(InProcess(), tasks)


def right(messages, *, seed):
  """Writes without mistakes."""
  while True:
    source = scripted.write(messages, seed=seed)
    done = [x for x in scripted.mistakes('') if x in source]
    asked = json.loads(messages[-1].content.splitlines()[0])
    steps = sum(len(scripted.steps_of(x['source'])) if 'source' in x else 1
                for x in asked.get('steps', ()))  # fmt: skip
    if not done and 'return x\n' in source and (
      not steps or len(scripted.steps_of(source)) == steps
    ):  # fmt: skip
      return source
    if not source:
      return ''
    seed += 1


def test_what_is_right_on_held_back_pairs_alone_is_kept():
  tasks, bench = bench_of()
  task, chain = tasks[0], [('reverse', ''), ('turn', '1')]
  assert lib.try_out(scripted.written(chain, S), task, bench).value == 1
  general = scripted.written([('reverse', ''), ('turn', 'k')], S)
  assert lib.try_out(general, task, bench).value == 1
  lazy = f'def tool(x, k):\n  return {task.shown.output!r}\n'
  assert lib.try_out(lazy, task, bench).value == 0
  assert lib.try_out(scripted.written(chain[:1], S), task, bench).value == 0
  for end in scripted.mistakes(task.shown.output):
    assert lib.try_out(scripted.written(chain, S, end), task, bench).value == 0


def test_tools_that_do_the_same_become_one():
  _, bench = bench_of()
  a = tool(('reverse', ''), ('reverse', ''), ('turn', '1'), last=3, right=2)
  b = tool(('turn', '1'), last=5, right=1, wrong=1)
  other = tool(('turn', '2'), last=1)
  got = lib.merged([a, b, other], bench)
  assert got == [a._replace(last=5, right=3, wrong=1), other]


def test_a_more_general_tool_replaces_several():
  _, bench = bench_of()
  a, b = tool(('turn', '1'), right=2), tool(('turn', '2'), right=3)
  general, apart = tool(('turn', 'k')), tool(('drop', '1'))
  got = lib.merged([a, b, apart, general], bench)
  assert got == [apart, general._replace(right=5)]
  assert lib.merged([general, a], bench) == [general._replace(right=2)]
  faulty = Tool('def tool(x, k):\n  return x +\n', S, 0)
  assert lib.merged([faulty, faulty, a], bench) == [faulty, faulty, a]


def test_tools_of_other_sorts_are_not_merged():
  tasks = world.draw(
    [(S, REVERSED_TURN), (world.NUMBERS, (Step('add'), Step('add')))], 4, 0
  )
  bench = Bench(InProcess(), tasks)
  a, b = tool(('turn', '1')), tool(('turn', '1'), of=world.NUMBERS)
  assert lib.merged([a, b], bench) == [a, b]


def test_wrong_and_unused_tools_retire_and_the_room_is_kept():
  rules = Rules(room=3, patience=10)
  tools = [
    tool(('turn', '1'), last=19),
    tool(('turn', '2'), last=10),  # 10 tasks ago
    tool(('turn', '3'), last=20, right=1, wrong=2),
    tool(('drop', '1'), last=11),
    tool(('drop', '2'), last=20, right=1, wrong=1),
    tool(('drop', '3'), last=20),
  ]
  got = lib.retire(tools, 20, rules)
  assert got == [tools[0], tools[4], tools[5]]


def test_the_solver_tries_tools_first_and_counts_every_call():
  tasks, bench = bench_of()
  own = tool(('reverse', ''), ('turn', 'k'))
  tables = [bench.run(own.source, S).table]
  got = scripted.solve(tasks[0], tables, 3, 0)
  assert got.steps == (Used(0, 1),)
  assert got.answer == tasks[0].asked.output
  assert got.calls <= 3
  assert scripted.solve(tasks[0], tables, 0, 0) == Attempt((), None, 0)
  nothing = scripted.solve(tasks[0], [], 3, 0)
  assert nothing == Attempt((), None, 3)
  alone = scripted.solve(tasks[0], [], 400, 0)
  assert alone.answer == tasks[0].asked.output
  faulty = bench.run('def tool(x, k):\n  return x +\n', S).table
  assert scripted.solve(tasks[0], [faulty], 400, 0) == alone


def test_a_tool_of_a_tool_has_all_its_steps():
  tasks, _ = bench_of()
  own = tool(('reverse', ''), ('turn', 'k'))
  attempt = Attempt((Used(0, 2), Step('sort')), 'x', 1)
  source = right(lib.request(tasks[0], attempt, [own]), seed=0)
  want = [('reverse', ''), ('turn', '2'), ('sort', '')]
  assert scripted.steps_of(source) == want


@pytest.mark.parametrize('seed', [0, 3])
def test_reuse_solves_what_steps_alone_do_not(seed):
  split = study.draw(seed)
  bench = Bench(InProcess(), split.train)
  late = {}
  for reuse in (True, False):
    got = lib.grow(split.train, bench, right, Rules(reuse=reuse), seed=seed)
    late[reuse] = np.mean(got.done[60:])
  assert late[True] > late[False] + 0.08


def test_without_a_try_out_faulty_tools_get_in():
  split = study.draw(1)
  bench = Bench(InProcess(), split.train)
  faulty = {}
  for tryout in (True, False):
    rules = Rules(tryout=tryout, patience=1000, room=100)
    got = lib.grow(split.train, bench, scripted.write, rules, seed=1)
    solve = [
      any(lib.try_out(x.source, t, bench).value == 1 for t in split.train)
      for x in got.tools
    ]
    faulty[tryout] = len(solve) - sum(solve)
    assert solve
    assert got.refused == 0 or tryout
  assert faulty[True] == 0
  assert faulty[False] >= 3


def test_a_library_that_was_cut_off_ends_the_same(tmp_path):
  split, path = study.draw(2), tmp_path / 'library.json'
  bench = Bench(InProcess(), split.train)
  lib.grow(split.train[:45], bench, scripted.write, seed=2, path=path)
  got = lib.grow(split.train[:90], bench, scripted.write, seed=2, path=path)
  assert got == lib.grow(split.train[:90], bench, scripted.write, seed=2)
  with errors.raises(ValueError, 'seed'):
    lib.grow(split.train[:90], bench, scripted.write, seed=3, path=path)


def test_a_writer_that_fails_costs_its_tool():
  def fails(messages, *, seed):
    raise ServiceFault('busy')

  tasks, bench = bench_of((Step('sort'), Step('evens')), 30)
  got = lib.grow(tasks, bench, fails, seed=0)
  assert len(got.done) == 30
  assert got.tools == ()
