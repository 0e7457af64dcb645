"""A small record, made by hand, for the tests of readings."""

import jax.numpy as jnp
import numpy as np

from agentrl.rollout import counterfactual
from agentrl.rollout import record as record_lib

B, K, C, M = 3, 4, 5, 3
NULL = counterfactual.NullObservation((90, 91))
TURNS = (1, 4, 3)  # of each trajectory


def made(seed=0) -> record_lib.Record:
  """Ragged contexts and messages, every token of them different."""
  r = np.random.default_rng(seed)
  record = record_lib.empty(B, K, C, M, ())
  return record.replace(
    context=jnp.asarray(np.arange(B * K * C).reshape(B, K, C) + 100, jnp.int32),
    context_len=jnp.asarray(r.integers(1, C + 1, (B, K)), jnp.int32),
    message=jnp.asarray(np.arange(B * K * M).reshape(B, K, M) + 500, jnp.int32),
    message_len=jnp.asarray(r.integers(1, M + 1, (B, K)), jnp.int32),
    logp=jnp.asarray(-r.uniform(1, 2, (B, K, M)), jnp.float32),
    valid=jnp.arange(K)[None] < jnp.array(TURNS)[:, None],
  )


def context(r, b, k):
  return np.asarray(r.context[b, k])[: int(r.context_len[b, k])].tolist()


def message(r, b, k):
  return np.asarray(r.message[b, k])[: int(r.message_len[b, k])].tolist()


def nulled(r, null):
  return counterfactual.nulled_turns(r, null, 7)
