"""Records of groups whose outcomes are chosen, and batches of them."""

import jax
import numpy as np

from agentrl.rollout import record as record_lib
from agentrl.task.base import make_attempts
from agentrl.types import CollectInputs

B, G, K, C, M = 16, 4, 3, 3, 2

# Outcomes of the four groups; the second case has one that differs.
CASES = {
  'enough': ([0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [1, 0, 1, 1]),
  'too_few': ([0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 1]),
}


def attempts():
  """Of tasks 5 to 8, a group each."""
  return make_attempts(np.repeat(np.arange(4) + 5, G), G, K, 1.0)


def make_record(outcome):
  """Trajectories of one to K turns, all numbers different."""
  r = np.random.default_rng(0)
  turns = 1 + np.arange(B) % K
  valid = np.arange(K)[None] < turns[:, None]
  number = lambda *shape: r.normal(size=shape).astype(np.float32)  # noqa: E731
  token = lambda *shape: r.integers(1, 99, shape, dtype=np.int32)  # noqa: E731
  return record_lib.Record(
    context=token(B, K, C),
    context_len=r.integers(1, C + 1, (B, K), dtype=np.int32),
    message=token(B, K, M),
    message_len=r.integers(1, M + 1, (B, K), dtype=np.int32),
    span=np.zeros((B, K, M), np.int8),
    logp=-1 - np.abs(number(B, K, M)),
    entropy=number(B, K),
    action=r.integers(-1, 3, (B, K), dtype=np.int32),
    reward=number(B, K),
    columns={'progress': number(B, K)},
    state=token(B, K),
    valid=valid,
    status=r.integers(0, 3, B, dtype=np.int32),
    outcome=np.asarray(outcome, np.float32).reshape(B),
  )


def make_batch(record, attempts, history):
  layout = record_lib.per_turn(record)
  if history == 'full':
    layout = record_lib.full_history(record, K * (C + M))
  return record_lib.batch(record, layout, attempts, 7)


def score(batch):
  turns = batch.turns.replace(reward=batch.turns.terms['env'])
  return batch.replace(turns=turns)


def inputs(sample, attempts) -> CollectInputs:
  """Inputs of a collector that scores by the environment's own reward."""
  return CollectInputs(
    sample=sample, score=score, attempts=attempts, key=jax.random.key(0)
  )
