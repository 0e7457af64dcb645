"""Rounds of samples and fits to pairs, played by a script: one run of each."""

import itertools

import jax
import numpy as np
import pytest

from agentrl import Run
from agentrl.log import metrics
from agentrl.run import config_file, weights
from tests.integration import half_good, same
from tests.integration.staged_methods_test import SMALL

UPDATES = 2  # of a fit
SETTINGS = {'sft.steps': 0, 'checkpoint.every': 1, 'role.policy.lr': 1e-2}


def shorten(c, folder, **changes):
  """Makes a sample one step and a fit two, without a warm start."""
  data = {'data': str(folder / 'data')}
  config_file.change(c, SMALL | SETTINGS | data | changes)
  for name, stage in c.stage.items():
    stage.steps = UPDATES if name.startswith('fit') else 1
    if stage.kind == 'sft':
      stage.sft.lr, stage.sft.warmup = 1e-2, 0
  c.stages = tuple(x for x in c.stages if x != 'sft')
  return c


def played(c, folder, ways):
  """(folder of the run, parameters behind each sample, those at the end)."""
  sampled = []
  with pytest.MonkeyPatch.context() as patch:
    half_good.plays(patch, ways)
    with Run(c, workdir=str(folder / 'run')) as run:
      for _, state, _ in run:
        sampled.append(jax.device_get(state.params))
      shape = run.experiment.shape
    _, state = weights.load(c, shape, str(folder / 'run'))
  return folder / 'run', sampled, jax.device_get(state.params)


def is_same(one, other):
  return all(np.array_equal(a, b) for a, b in same.pairs(one, other))


def check_learning(run, rounds, positive):
  """Only the policy learns, and its reference is the round before.

  Args:
    positive: metrics of every update that are above 0
  """
  folder, sampled, end = run
  assert len(sampled) == rounds
  every = [*sampled, end]
  assert all(set(x) == {'policy', 'reference'} for x in every)
  for before, after in itertools.pairwise(every):
    assert not is_same(before['policy'], after['policy'])
  # Behind the last fit it is what sampled its pairs.
  assert is_same(end['reference'], sampled[-1]['policy'])
  rows = metrics.read(str(folder / 'metrics.jsonl'))
  fits = [x for x in rows if x['phase'] == 'sft']
  assert len(fits) == rounds * UPDATES
  for first, second in zip(fits[::2], fits[1::2], strict=True):
    assert first['dpo/margin'] == 0
    assert second['dpo/margin'] != 0
    for x in (first, second):
      assert all(x[name] > 0 for name in positive)
      assert np.isfinite(x['loss/total'])
      assert not x['policy/nonfinite_skips']
