"""Gymnasium environments of text as a family: each in its own process."""

import os
import sys

import pytest

from agentrl.env.external.gymnasium_text import GymnasiumText
from agentrl.rollout.workers import pool
from agentrl.rollout.workers.replies import EnvError
from tests import errors
from tests.env.external import configured
from tests.rollout.workers import rooms

MAKE = 'tests.env.external.text_envs:make'
WAIT = 60


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


@pytest.mark.parametrize('cluster', [False, True])
def test_another_interpreter_plays_the_same(tmp_path, cluster):
  """With `-S` it has its own library alone, and finds the user's module."""
  python = tmp_path / 'python'
  python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
  python.chmod(0o755)
  there = GymnasiumText(make=MAKE, python=str(python))
  there.check()
  played = []
  for family in (GymnasiumText(make=MAKE), there):
    with (
      pool.cluster_workers(family, 1, rooms.threads(1))
      if cluster
      else pool.env_workers(family, 1)
    ) as workers:
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


def test_mistakes_come_before_anything_is_made():
  for words, env in (
    ('env.make', {}),
    ('env.settings 3', {'make': MAKE, 'settings': '3'}),
    ('lost', {'make': 'lost:make'}),
    ('env.python /bin/no', {'make': MAKE, 'python': '/bin/no'}),
    ('host.worker thread', {'make': MAKE, 'worker': 'thread'}),
  ):
    configured.refuses('gymnasium_text', words, **env)
  right = configured.sized('gymnasium_text', make=MAKE)
  assert right.family == GymnasiumText(make=MAKE)
  assert right.family.worker == 'process'
