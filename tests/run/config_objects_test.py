"""Runs of Python objects: what their configs say, and what they refuse."""

import dataclasses
import functools
import json
from typing import ClassVar

import pytest

from agentrl.configs import envs, grpo
from agentrl.env import task_sampling
from agentrl.env.base import Step
from agentrl.run import config_objects, workdir
from agentrl.run.check import env_checks, validate
from agentrl.runtime import objects
from tests import errors
from tests.env.files.jsonl_test import last_word, rows

HERE = __name__
TEXTS = 'tests.env.files.jsonl_test:last_word'


@dataclasses.dataclass(frozen=True)
class Guess:
  """Numbers below `span`, to be named at once."""

  span: int = 15
  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''
  worker: ClassVar[str] = 'thread'

  def name(self):
    return task_sampling.name('guess', self)

  def tasks(self, split, count, seed):
    def draw(rng):
      return [int(rng.integers(1000)), int(rng.integers(self.span))]

    def solve(task):
      return {'task': task}, (str(task[1]),)

    return task_sampling.drawn(draw, solve, split, count, seed)

  def env(self):
    return GuessEnv()


class GuessEnv:
  def reset(self, task, seed):
    self.number = task['task'][1]
    return 'A number?'

  def step(self, message):
    right = float(message == str(self.number))
    return Step('', reward=right, done=True, score=right)

  def close(self):
    pass


def short(x):
  return -x.turns.terms['tokens']


def made(given='grpo:tiny', changes=None, **given_objects):
  return config_objects.config(given, changes or {}, **given_objects)


def test_what_can_be_imported_is_named(tmp_path):
  c = made(
    changes={'data': str(tmp_path), 'env.info': 'words'},
    rows=rows(),
    verifier=last_word,
    reward=['env', short],
  )
  assert (c.env.name, c.env.verifier) == ('jsonl', TEXTS)
  assert c.reward == ('env', f'{HERE}:short')
  validate.config(c)
  with open(c.env.path, encoding='utf-8') as file:
    assert [json.loads(line) for line in file] == rows()


def test_a_name_is_taken_as_it_is():
  c = made(env='countdown', reward='env')
  assert (c.env.name, c.reward) == ('countdown', ('env',))
  assert made(verifier='exact').env.verifier == 'exact'


def test_the_file_of_rows_is_named_by_what_it_holds(tmp_path):
  changes = {'data': str(tmp_path)}
  paths = [
    made(changes=changes, rows=x, verifier='exact').env.path
    for x in (rows(), iter(rows()), rows()[:-1])
  ]
  assert paths[0] == paths[1] != paths[2]


def test_an_environment_is_a_class_or_an_instance():
  c = made(env=Guess)
  assert (c.env.name, c.env.span) == (f'{HERE}:Guess', 15)
  assert made(env=Guess(span=3)).env.span == 3
  validate.config(c)


def test_a_local_environment_stays_in_this_process():
  @dataclasses.dataclass(frozen=True)
  class Own(Guess):
    pass

  c = made(env=Own)
  assert objects.load(c.env.name) is Own
  validate.config(c)
  c.host.worker = 'process'
  config = validate.config(c)
  with errors.raises(ValueError, f'host.worker process {c.env.name}'):
    env_checks.family(config)


def test_a_change_may_be_a_function(tmp_path):
  c = made(
    'grpo:tiny,env=interview', {'service.user.function': lambda *x, **y: 'yes'}
  )
  assert objects.is_local(c.service.user.function)


@pytest.mark.parametrize(
  ('reward', 'names'),
  [
    (lambda x: 1.0, 'c.reward (2, 3) (2,) ()'),
    (lambda x: x.outcome[:1], 'c.reward (1,)'),
    (lambda x: x.turns.terms['tokenz'], 'c.reward tokenz tokens'),
    (lambda x: float(x.outcome[0]), 'c.reward'),
    (lambda: 0, 'c.reward'),
    ('no_module_is_so_called:f', 'c.reward no_module_is_so_called:f'),
    (f'{HERE}:HERE', f'c.reward {HERE}:HERE'),
    ('object:gone-00000000', 'c.reward object:gone-00000000'),
  ],
)
def test_a_reward_is_tried_before_anything_is_played(reward, names):
  c = made(reward=reward)
  with errors.raises(ValueError, names) as caught:
    validate.config(c)
  assert '\n' not in str(caught.value)


DEEP = functools.reduce(lambda x, _: [x], range(100_000), [])


@pytest.mark.parametrize(
  ('arguments', 'names'),
  [
    ({'env': 3}, 'env 3 EnvFamily'),
    ({'env': object}, 'env object EnvFamily'),
    ({'env': GuessEnv}, 'env GuessEnv family'),
    ({'env': 'contdown'}, 'contdown countdown'),
    ({'verifier': 3}, 'verifier 3'),
    ({'verifier': last_word, 'env': 'countdown'}, 'verifier env.name'),
    ({'rows': [], 'verifier': last_word}, 'rows'),
    ({'rows': [{'prompt': {1, 2}}]}, 'rows[0]'),
    ({'rows': [{'prompt': 'a', 'x': float('nan')}]}, 'rows[0]'),
    ({'rows': [*rows(), 'a']}, 'rows[40]'),
    ({'rows': [{'prompt': DEEP}]}, 'rows[0]'),
    *(
      ({'rows': x, 'verifier': last_word}, 'rows list')
      for x in (5, 'abc', {'a': 1})
    ),
    ({'rows': rows(), 'env': Guess}, 'rows env.name'),
    ({'reward': 3}, 'reward 3'),
    ({'reward': lambda completions, **kwargs: 0}, 'reward verifier='),
    ({'reward': lambda completion, row: 0}, 'reward verifier='),
    ({'reward': ['env', None]}, 'reward None'),
  ],
)
def test_what_does_not_fit_is_one_sentence(arguments, names, tmp_path):
  with errors.raises(ValueError, names) as caught:
    made(changes={'data': str(tmp_path)}, **arguments)
  assert '\n' not in str(caught.value)


def test_nothing_is_set_twice():
  with errors.raises(ValueError, 'changes env.verifier'):
    made(changes={'env.verifier': 'exact'}, verifier=last_word)


def test_the_value_of_a_config_has_its_environment():
  assert made(grpo.get_config('env=jsonl'), verifier='exact')
  with errors.raises(ValueError, 'env= sokoban jsonl'):
    made(grpo.get_config(), verifier='exact')


@pytest.mark.parametrize(
  ('argument', 'one', 'other'),
  [
    ('verifier', lambda c, row: 0.0, lambda c, row: 1.0),
    ('reward', lambda x: x.outcome, lambda x: 2 * x.outcome),
  ],
)
def test_a_run_does_not_go_on_with_another_object(
  argument, one, other, tmp_path
):
  def config(f):
    given = {'verifier': 'exact', 'rows': rows()} | {argument: f}
    changes = {'data': str(tmp_path)}
    return validate.config(made(changes=changes, **given))

  workdir.keep_config(config(one), str(tmp_path))
  workdir.same_config(config(one), str(tmp_path))
  with errors.raises(ValueError, f'{argument} agentrl.Run {argument}='):
    workdir.same_config(config(other), str(tmp_path))
  with errors.raises(ValueError, f'{argument} agentrl.Run {argument}='):
    name = 'exact' if argument == 'verifier' else 'env'
    workdir.same_config(config(name), str(tmp_path))


def test_another_program_is_told_what_it_lacks(tmp_path, monkeypatch):
  c = made(
    changes={'data': str(tmp_path)}, rows=rows(), verifier=lambda c, r: 0.5
  )
  workdir.keep_config(validate.config(c), str(tmp_path))
  monkeypatch.setattr(objects, '_KEPT', {})
  there = workdir.read_config(str(tmp_path))
  with errors.raises(ValueError, f'{c.env.verifier} agentrl.Run'):
    validate.config(there)


def test_a_verifier_that_fails_is_named_before_the_run(tmp_path):
  """As one of a module is (tests/env/files/jsonl_test.py)."""
  for verifier in (lambda c, row: row['gone'], lambda c, row: 'good'):
    c = made(changes={'data': str(tmp_path)}, rows=rows(), verifier=verifier)
    family = envs.family(validate.config(c))
    with errors.raises(ValueError, f'env.verifier {c.env.verifier}'):
      list(family.tasks('train', 2, seed=0))
