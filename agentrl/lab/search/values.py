"""Values that need no environment: by likelihood, by chance, of ends alone.

All are in [0, 1) and rise with what they stand for: no value is that of a known
success, at which a search would stop.
"""

import zlib
from collections.abc import Sequence

import numpy as np

from agentrl.lab.search.run import Evaluator
from agentrl.rollout.forks import Forks, Played
from agentrl.rollout.record import Record

BELOW_1 = 1 - 1e-9


def of_ends(evaluate: Evaluator) -> Evaluator:
  """Returns an evaluator that knows nothing of trajectories that go on."""

  def evaluate_ends(played: Sequence[Played]) -> list[float | None]:
    known = iter(evaluate([x for x in played if x.ended]))
    return [next(known) if x.ended else None for x in played]

  return evaluate_ends


def likelihood(forks: Forks, *, mean: bool = False) -> Evaluator:
  """Values what was said by its log-prob under the policy that said it.

  1 / (1 - log p) of all sampled tokens together, which prefers short attempts;
  with mean exp(log p / tokens), which does not.
  """

  def evaluate(played: Sequence[Played]) -> list[float | None]:
    if not played:
      return []
    logp, tokens = said(forks.record([x.place for x in played]))
    value = np.exp(logp / np.maximum(tokens, 1)) if mean else 1 / (1 - logp)
    return (value * BELOW_1).tolist()

  return evaluate


def said(record: Record) -> tuple[np.ndarray, np.ndarray]:
  """Returns log-probs of all sampled tokens, nats, and their number: [B]."""
  size = np.where(record.valid, record.message_len, 0)[..., None]  # [B, K, 1]
  own = np.arange(record.message.shape[2]) < size
  logp = np.where(own, np.asarray(record.logp, np.float64), 0.0)
  return logp.sum(axis=(1, 2)), own.sum(axis=(1, 2))


def chance(forks: Forks, seed: int) -> Evaluator:
  """Draws a value for each trajectory, uniformly, by its messages alone."""

  def evaluate(played: Sequence[Played]) -> list[float | None]:
    if not played:
      return []
    record = forks.record([x.place for x in played])
    spoken = np.where(record.valid[..., None], record.message, -1)
    return [
      float(np.random.default_rng([seed, zlib.crc32(x.tobytes())]).random())
      for x in np.ascontiguousarray(spoken, np.int32)
    ]

  return evaluate
