"""Pairs on levels of four or five moves, with networks of hardly any size."""

import functools

import jax
import pytest

from agentrl.lab.papers.planted_pairs import pairs, study
from agentrl.run import build
from agentrl.run.check import fields

TASKS = 8


@pytest.fixture(scope='session')
def bucket(tmp_path_factory):
  folder = tmp_path_factory.mktemp('data')
  c = study.config(100, str(folder))
  small = {'layers': 1, 'width': 16, 'heads': 1, 'kv_heads': 1, 'mlp': 16}
  changes = {f'model.{k}': v for k, v in small.items()}
  s = build.experiment(fields.changed(c, changes | {'role.prm.lr': 1e-2}))
  (one,) = pairs.buckets(s, 'test', TASKS, [(4, 5)])
  return one


@pytest.fixture(scope='session')
def batch(bucket):
  return jax.device_get(pairs.replayed(bucket))


@pytest.fixture(scope='session')
def by_task(bucket):
  return functools.partial(pairs.by_task, bucket)
