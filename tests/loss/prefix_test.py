"""The mixed loss of given and sampled tokens, against plain arithmetic."""

import math

import jax
import numpy as np

from agentrl import registry
from agentrl.loss import ppo, prefix
from agentrl.testing import batches
from agentrl.types import Credit, LossInputs, Outputs
from tests.curate.prefix_test import given

CLIPS = dict(
  clip_low=0.1, clip_high=0.2, prefix_clip_low=0.05, prefix_clip_high=0.4
)


def inputs():
  laid = batches.lay(batches.story(2), padding=1)
  b = laid.batch.outcome.size
  batch, said = given(laid.batch, np.arange(b) % 2 * 2)
  weight = np.where(said, 1.0, batch.rows.weight)
  token = np.where(weight > 0, laid.tokens['prm'], 0)
  credit = Credit(0 * batch.turns.reward, token, weight, {})
  out = Outputs(logp=laid.tokens['logp'])
  old = {'old_logp': laid.tokens['old_logp']}
  x = LossInputs(outputs=out, batch=batch, credit=credit, signals=old, key=None)
  return x, said


def test_each_token_has_the_clip_of_who_wrote_it():
  with jax.enable_x64(True):
    x, said = inputs()
    value, metrics = prefix.ppo_prefix(x, **CLIPS)
  seen = set()
  for n, t in zip(*np.nonzero(x.credit.weight), strict=True):
    rho = math.exp(x.outputs.logp[n, t] - x.signals['old_logp'][n, t])
    low, high = (0.05, 0.4) if said[n, t] else (0.1, 0.2)
    a = x.credit.token[n, t]
    bounded = min(max(rho, 1 - low), 1 + high)
    np.testing.assert_allclose(value[n, t], max(-a * rho, -a * bounded))
    seen.add((bool(said[n, t]), bounded != rho))
  assert len(seen) == 4
  rho = np.exp(x.outputs.logp - x.signals['old_logp'])
  own = x.batch.rows.sampled
  for name, where in (('ratio', own), ('prefix_ratio', said)):
    total, count = metrics[name]
    np.testing.assert_allclose(total / count, rho[where].mean())
  assert tuple(map(float, metrics['prefix'])) == (
    said.sum(),
    (own | said).sum(),
  )


def test_given_tokens_weigh_where_the_batch_says_so_only():
  x, said = inputs()
  np.testing.assert_array_equal(
    ppo.weights('ppo_prefix', x) > 0, x.batch.rows.sampled | said
  )
  bare = x.replace(credit=x.credit.replace(weight=x.batch.rows.weight))
  np.testing.assert_array_equal(
    ppo.weights('ppo_prefix', bare) > 0, x.batch.rows.sampled
  )
  assert 'weight:prefix' in registry.get('loss', 'ppo_prefix').needs
