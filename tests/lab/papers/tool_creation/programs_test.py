"""Tools in the sandbox: each fault costs its tool and nothing else."""

import pytest

from agentrl.lab.papers.tool_creation import programs, scripted, world
from agentrl.lab.papers.tool_creation.world import Step
from agentrl.tool.sandbox.sandbox import Sandbox

INPUTS = ['abc', 'zyx']


@pytest.fixture(scope='module')
def sandbox():
  return Sandbox(programs.LIMITS._replace(seconds=5.0))  # on a busy machine


@pytest.mark.slow
@pytest.mark.parametrize(
  ('body', 'fault'),
  [
    ('return x +', 'error'),
    ('while True: pass', 'time'),
    ('print("x" * 10**7)', 'output'),
    ('return {"a": 1}', 'rubbish'),
    ('return 1.5', 'rubbish'),
    ('return [True]', 'rubbish'),
    ('return [10**10]', 'rubbish'),
    ('return "x" * 201', 'rubbish'),
    ('return {x}', 'error'),
    ('import os; os._exit(0)', 'rubbish'),
    ('import sys; print("[[1]]"); sys.exit()', 'rubbish'),
    ('import socket; socket.socket()', ''),  # raises, and so has no value
  ],
)
def test_a_faulty_tool_is_refused(sandbox, body, fault):
  got = programs.run(sandbox, f'def tool(x, k):\n  {body}\n', INPUTS)
  assert got.fault.split(':')[0] == fault
  if fault:
    assert got.table == programs.Table()
  else:
    assert got.table.made == ({'abc': None, 'zyx': None},)


def test_a_tool_is_run_with_each_argument(sandbox):
  turned = scripted.written([('reverse', ''), ('turn', 'k')], world.STRING)
  made = programs.run(sandbox, turned, INPUTS).table.made
  assert [x['abc'] for x in made] == ['bac', 'acb', 'cba']
  plain = scripted.written([('less', ''), ('times', '')], world.NUMBERS)
  got = programs.run(sandbox, plain, [[5, 3, 4], [1, 2]])
  assert got.table.made == ({(5, 3, 4): [8], (1, 2): None},)  # all k the same


def test_what_is_written_does_what_the_steps_do():
  for of in world.STEPS:
    x = 'hello' if of == world.STRING else [17, 50, 31]
    for step in world.singles(of):
      local = {}
      exec(scripted.written([(step.name, str(step.k or ''))], of), local)
      assert local['tool'](x, 9) == world.apply(of, [step], x)
      assert scripted.steps_of(
        scripted.written([(step.name, str(step.k or ''))], of)
      ) == [(step.name, str(step.k or ''))]
  assert world.apply(world.NUMBERS, [Step('add')] * 3, [1, 2, 3]) is None
