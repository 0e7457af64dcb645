"""Information of a turn's answer, and the links that it goes through."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.rollout import record as record_lib
from agentrl.signal import base, information
from agentrl.types import Attempts, Module, Outputs, TrainState
from tests import readings_cases


def apply(params, rows, needs):
  """Log-prob of a token: minus how far it is from the sum before, scaled."""
  del needs
  inside = jnp.where(rows.seg >= 0, rows.tokens, 0)
  before = jnp.cumsum(inside, axis=1) - inside
  return Outputs(logp=-params * jnp.abs(before - rows.tokens))


def score(record, null):
  """The signal of a record in the per-turn layout."""
  zero = jnp.zeros(record.valid.shape[0], jnp.int32)
  attempts = Attempts(zero, zero, zero, zero, zero)
  batch = record_lib.batch(
    record, record_lib.per_turn(record), attempts, version=0
  )
  rows = readings_cases.nulled(record, null)
  batch = batch.replace(readings={'nulled': rows})
  module = Module(specs={}, apply=apply)
  context = base.Context(modules={'policy': module}, rules={}, micro=4)
  none = {}
  state = TrainState(jnp.int32(0), {'policy': 0.01}, none, none, (), None)
  old = {'old_logp': apply(0.01, batch.rows, ()).logp}
  return information.information(context).score(state, batch, old)


def test_is_the_equation():
  r, null = readings_cases.made(), readings_cases.NULL
  fields, metrics = jax.jit(score)(r, null)
  want = np.zeros(r.valid.shape)
  for b, n in enumerate(readings_cases.TURNS):
    for k in range(n - 1):
      said = readings_cases.message(r, b, k + 1)
      seen = readings_cases.context(r, b, k + 1)
      means = []
      for begin in (seen, [*null.tokens]):
        past, out = sum(begin), []
        for token in said:
          out.append(-0.01 * abs(past - token))
          past += token
        means.append(np.mean(out))
      want[b, k] = means[0] - means[1]
  assert np.abs(want).max() > 0.1
  np.testing.assert_allclose(fields['information'], want, rtol=1e-5)
  total, count = metrics['information/mean']
  np.testing.assert_allclose(total, want.sum(), rtol=1e-5)
  assert count == sum(n - 1 for n in readings_cases.TURNS)


def test_nothing_new_is_no_information():
  """Every observation is the nulled one already."""
  r, null = readings_cases.made(), readings_cases.NULL
  size = len(null.tokens)
  width = jnp.zeros(r.context.shape[2], jnp.int32)
  width = width.at[:size].set(jnp.array(null.tokens))
  r = r.replace(
    context=jnp.broadcast_to(width, r.context.shape),
    context_len=jnp.full(r.context_len.shape, size, jnp.int32),
  )
  fields, _ = jax.jit(score)(r, null)
  np.testing.assert_array_equal(fields['information'], 0)
