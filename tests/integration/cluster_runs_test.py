"""Training runs whose episodes are played in a cluster."""

import json

import numpy as np
import pytest

import agentrl as rl
from agentrl.env import base
from agentrl.run.check import env_checks, validate
from tests import errors
from tests.rollout import chatty
from tests.rollout.workers import rooms
from tests.run import small_configs

CHANGES = small_configs.SMALL | {
  'stages': ('rl',),
  'steps': 3,
  'rollout.group_size': 4,
  'rollout.max_turns': 3,
  'rollout.max_message_tokens': 4,
  'host.max_observation_tokens': 56,
}

OF_PLAY = 'rollout/', 'eval/', 'loss/', 'advantage/', 'policy/'


def rows(folder, **host):
  """Metrics of a run."""
  changes = CHANGES | {'data': str(folder / 'data')}
  changes |= {f'host.{name}': x for name, x in host.items()}
  with rl.Run(
    'grpo:tiny', workdir=str(folder), changes=changes, env=chatty.Chatty()
  ) as run:
    for _ in run:
      pass
  lines = (folder / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()
  return [json.loads(line) for line in lines]


@pytest.mark.slow
@rooms.DASK
def test_a_run_in_a_cluster_is_that_of_threads(tmp_path):
  """All that was sampled, rewarded and learned; and losses are counted."""
  expected = rows(tmp_path / 'thread', worker='thread')
  found = rows(tmp_path / 'dask', worker='dask', cluster=rooms.dask_address())
  assert len(found) == len(expected) > 3
  compared = set()
  for one, two in zip(found, expected, strict=True):
    lost = {name: x for name, x in one.items() if '/workers/' in name}
    assert one.keys() - lost.keys() == two.keys()
    assert set(lost.values()) <= {0}
    for name, x in two.items():
      if name.startswith(OF_PLAY) and '/engine/' not in name:
        np.testing.assert_allclose(one[name], x, rtol=1e-4, err_msg=name)
        compared.add(name)
  assert {'rollout/tokens', 'rollout/return', 'loss/total'} <= compared
  assert any('rollout/workers/resubmitted' in row for row in found)


def checked(**host):
  c = small_configs.countdown()
  c.host.update(host)
  env_checks.family(validate.config(c))


def test_addresses_are_those_of_clusters():
  for worker in ('', 'thread', 'process'):
    for name in ('cluster', 'callback'):
      with errors.raises(ValueError, f'host.{name} x host.worker dask ray'):
        checked(worker=worker, **{name: 'x'})
  for worker in base.CLUSTERS:
    checked(worker=worker, cluster='x', callback='y')
