"""Programs as a family: their tasks, commands, graders and mistakes."""

import json

import pytest

from agentrl.env import base, splits
from agentrl.env.files import program
from agentrl.env.files.program import Program
from agentrl.env.files.program_run import CommandRun, FunctionRun
from agentrl.env.worlds import countdown
from tests import errors

PLAY = 'tests.gateway.players:play'


@pytest.fixture
def file(tmp_path):
  rows = [{'question': f'{i}?', 'n': i} for i in range(40)]
  path = tmp_path / 'tasks.jsonl'
  path.write_text(''.join(f'{json.dumps(x)}\n' for x in [*rows, rows[0]]))
  return str(path)


def test_tasks_of_a_file(file):
  family = Program(function=PLAY, path=file)
  sizes = base.sizes(family)
  assert sum(sizes.values()) == 40
  tasks = {s: list(family.tasks(s, n, 3)) for s, n in sizes.items()}
  for split, several in tasks.items():
    assert all(splits.split_of(x.key) == split for x in several)
    assert all(x.demonstration == () for x in several)
  seen = [x.task['n'] for several in tasks.values() for x in several]
  assert sorted(seen) == list(range(40))
  assert list(family.tasks('train', 5, 3)) == tasks['train'][:5]
  with errors.raises(ValueError, '99 train'):
    family.tasks('train', 99, 0)


def test_tasks_of_a_world():
  settings = 'numbers=2, largest=9'
  family = Program(function=PLAY, world='countdown', settings=settings)
  inner = countdown.Countdown(numbers=2, largest=9)
  for mine, own in zip(
    family.tasks('test', 3, 1), inner.tasks('test', 3, 1), strict=True
  ):
    assert mine.task['task'] == own.task
    assert mine.key == own.key
    env, text = program.world_of(mine.task | {'seed': 4})
    assert text == inner.env().reset(own.task, 4)
    env.close()
  assert base.sizes(family) == {}
  run = family.start({'task': {}}, 7, 'a', 'k')
  assert run.task == {'task': {}, 'seed': 7}


def test_a_program_is_a_function_or_a_command(file):
  made = Program(function=PLAY, path=file).start({'n': 1}, 7, 'a', 'k')
  assert isinstance(made, FunctionRun)
  assert made.task == {'n': 1}
  family = Program(command="sh -c 'echo {question}' {n}", path=file)
  made = family.start({'question': 'a b', 'n': 1}, 7, 'a', 'k')
  assert isinstance(made, CommandRun)
  assert made._words == ['sh', '-c', 'echo a b', '{n}']
  with errors.raises(ValueError, 'command'):
    Program(command="sh '", path=file).check()


@pytest.mark.parametrize(
  'command',
  [
    '/nope', 'no-such-program x', './nope', '~/nope', 'A=1 sh -c ls', '/',
    "''", '   ', '# nothing', '{} x', 'sh;ls', '/etc/passwd',
  ],
)  # fmt: skip
def test_a_command_that_is_not_there_is_refused(command, file, tmp_path):
  family = Program(command=command, path=file)
  with errors.raises(ValueError, 'env.command') as error:
    family.check()
  assert repr(command)[1:-1] in str(error.value)
  with errors.raises(ValueError, 'env.command'):
    next(family.tasks('train', 1, 0))


def test_a_command_that_is_there_is_taken(file, tmp_path, monkeypatch):
  own = tmp_path / 'a player'
  own.write_text('#!/bin/sh\n')
  with pytest.raises(ValueError):
    Program(command=f"'{own}'", path=file).check()  # not to be executed
  own.chmod(0o755)
  for command in ('sh', '/bin/sh -c ls', f"'{own}' x", '{agent} --x', '{a}/b'):
    Program(command=command, path=file).check()
  monkeypatch.chdir(tmp_path)
  Program(command="'./a player'", path=file).check()
  monkeypatch.setenv('PATH', str(tmp_path))
  Program(command="'a player'", path=file).check()
  with errors.raises(ValueError, 'sh'):
    Program(command='sh', path=file).check()


def test_graders():
  with errors.raises(ValueError, '2'):
    Program(grader=f'{__name__}:twice').grade({}, [])
  assert Program(grader=f'{__name__}:right').grade({}, []) == 1.0
  assert Program().grade({}, []) is None
  assert Program(unposted='zero').grade({}, []) == 0.0


def twice(task, messages):
  return 2


def right(task, messages):
  return True
