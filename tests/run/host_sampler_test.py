"""Episodes on hosts as batches: services in them, and judges that fail."""

import jax
import numpy as np
import pytest

from agentrl.learner import algorithm, update
from agentrl.rollout.engine.service import EngineService
from agentrl.run import build, sampler
from agentrl.task.base import make_attempts
from agentrl.types import Status
from tests.run.small_configs import interview as config


def collected(c):
  """A batch, and its metrics."""
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(np.arange(4) // 2, 2, 2, 1.0)
  policy = algorithm.full_params(s.algorithm.context, state.params)
  with sampler.open_sampler(s) as playing:
    playing.update_service_params(state.params)
    batch = playing.collect(policy, attempts, jax.random.key(1), 0)
    told = {k: float(v[0]) for k, v in playing.observe(batch).items()}
  return s, batch, told


@pytest.mark.nightly
def test_what_a_model_says_is_context(tmp_path, monkeypatch):
  """Said by the policy itself, and yet not trained on."""
  said = []
  ask = EngineService.__call__

  def heard(self, *args, **fields):
    said.append(ask(self, *args, **fields))
    return said[-1]

  monkeypatch.setattr(EngineService, '__call__', heard)
  s, batch, told = collected(config(tmp_path, role='policy'))
  rows = batch.rows
  sampled = np.asarray(rows.sampled)
  assert not np.asarray(rows.weight)[~sampled].any()
  assert not np.asarray(rows.logp)[~sampled].any()
  assert sampled.sum() == float(np.sum(batch.turns.terms['tokens']))
  assert len(said) == told['rollout/service/user/calls'] >= 4
  second = []
  for b in range(4):
    inside = ~sampled[b] & (np.asarray(rows.turn[b]) == 0)
    second.append(s.tokenizer.decode(np.asarray(rows.tokens[b])[inside]))
  for text in second:
    assert text in [x if x.endswith('\n') else f'{x}\n' for x in said]


@pytest.mark.nightly
def test_a_judge_that_fails_is_no_zero(tmp_path):
  """Its trajectories count as faults and carry no weight."""
  c = config(tmp_path, 'tiny,env=interview,judge')
  c.service.user.function = f'{__name__}:broken'
  c.service.judge.function = f'{__name__}:numbered'
  _, batch, told = collected(c)
  assert (np.asarray(batch.status) == Status.ENV_ERROR).all()
  assert not np.asarray(batch.turns.scored).any()
  assert not np.asarray(batch.rows.weight).any()
  assert told['rollout/service/user/failed'] == 4
  assert told['rollout/fault/raise'] == 4
