"""Gymnasium environments of text as a family: each in its own process."""

import os
import sys

import pytest

from agentrl.configs import grpo
from agentrl.env import base, splits
from agentrl.env.external.gymnasium_text import GymnasiumText
from agentrl.rollout.workers import pool
from agentrl.rollout.workers.replies import EnvError
from agentrl.run.check import validate
from agentrl.run.play import host_env
from agentrl.text import tokenizer
from tests import errors

MAKE = 'tests.env.external.text_envs:make'
WAIT = 60


def test_tasks_are_seeds():
  family = GymnasiumText(make=MAKE)
  tasks = {s: list(family.tasks(s, 6, 0)) for s in splits.SPLITS}
  keys = [x.key for several in tasks.values() for x in several]
  assert len(set(keys)) == 12
  for split, several in tasks.items():
    assert all(splits.split_of(x.key) == split for x in several)
    assert all(set(x.task) == {'seed'} for x in several)
    assert list(family.tasks(split, 5, 0)) == several[:5]
  assert family.name() != GymnasiumText(make=MAKE, solved=2.0).name()


def test_it_lives_in_a_process():
  family = GymnasiumText(make=MAKE)
  assert isinstance(family, base.OwnProcess)
  assert isinstance(family, base.ChecksSettings)
  assert family.worker == 'process'


def answer(worker, message):
  return worker.step(message).result(WAIT)


def test_a_fault_costs_its_episode_alone():
  """And two at a time do not share a generator."""
  with pool.env_workers(GymnasiumText(make=MAKE), 2) as workers:
    first = [w.reset({'seed': 3}, i) for i, w in enumerate(workers)]
    texts = {x.result(WAIT) for x in first}
    assert len(texts) == 1
    pids = {answer(w, 'process').text for w in workers}
    assert len(pids) == 2
    assert str(os.getpid()) not in pids
    for message, kind in (
      ('raise', 'exception'),
      ('number', 'malformed'),
      ('die', 'crash'),
    ):
      workers[0].reset({'seed': 3}, 0).result(WAIT)
      with pytest.raises(EnvError) as error:
        answer(workers[0], message)
      assert error.value.kind == kind
    hung = workers[0].reset({'seed': 3}, 0).result(WAIT)
    assert hung in texts
    pending = workers[0].step('hang')
    workers[0].end()
    with pytest.raises(EnvError):
      pending.result(WAIT)
    assert answer(workers[1], 'x').text == 'no'
    assert workers[0].reset({'seed': 3}, 9).result(WAIT) in texts


def test_another_interpreter_plays_the_same(tmp_path):
  """With `-S` it has its own library alone, and finds the user's module."""
  python = tmp_path / 'python'
  python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
  python.chmod(0o755)
  there = GymnasiumText(make=MAKE, python=str(python))
  there.check()
  played = []
  for family in (GymnasiumText(make=MAKE), there):
    with pool.env_workers(family, 1) as workers:
      played.append(
        [workers[0].reset({'seed': 8}, 0).result(WAIT), answer(workers[0], 'x')]
      )
  assert played[0] == played[1]
  lost = GymnasiumText(make='numpy:zeros', python=str(python))
  with errors.raises(ValueError, 'numpy'):
    lost.check()


def test_settings_that_make_nothing_end_the_run():
  family = GymnasiumText(make=MAKE, settings='low=3')
  with (
    pool.env_workers(family, 1) as workers,
    errors.raises(ValueError, 'env.settings low 3 TypeError'),
  ):
    workers[0].reset({'seed': 8}, 0).result(WAIT)


@pytest.mark.parametrize(
  ('env', 'worker', 'words'),
  [
    ({}, '', 'env.make'),
    ({'make': MAKE, 'settings': '3'}, '', 'env.settings 3'),
    ({'make': 'lost:make'}, '', 'lost'),
    ({'make': MAKE, 'python': '/bin/no'}, '', 'env.python /bin/no'),
    ({'make': MAKE}, 'thread', 'host.worker thread'),
  ],
)
def test_mistakes_come_before_anything_is_made(env, worker, words):
  c = grpo.get_config('tiny,env=gymnasium_text')
  c.env.update(env)
  c.host.worker = worker
  with errors.raises(ValueError, words) as error:
    host_env.sized(c, tokenizer.Embedded(), None)
  assert '\n' not in str(error.value)


def test_a_right_config_is_sized():
  c = grpo.get_config('tiny,env=gymnasium_text')
  c.env.make = MAKE
  validate.config(c)
  assert host_env.sized(c, tokenizer.Embedded(), None).family.make == MAKE
