"""Weights of trajectories that begin alike: those of the tree they are.

Tree-structured training (KAT-Coder, arXiv:2510.18779): a tree of turns stored
as its paths from root to leaf holds a turn as often as there are leaves below
it.
"""

import collections
import functools
import hashlib
from collections.abc import Sequence

import numpy as np

from agentrl.dataset import edits
from agentrl.dataset.trajectory import StoredTrajectory, StoredTurn


def share_prefixes(
  xs: Sequence[StoredTrajectory], power: float = 1.0
) -> list[StoredTrajectory]:
  """Weights divided by the number of trajectories that begin alike.

    w_k ← max w_k / n_k^power,  n_k = |{trajectories with the same turns 0..k}|

  The maximum is over these n_k, of one task, for a branch repeats what has
  weight in another trajectory alone. So of a tree, stored as its paths from
  root to leaf, every turn weighs once; with power 0, once for each leaf below
  it. Turns are the same where their contexts and messages are. With history
  'turn' a turn is what its row holds, whatever came before it.
  """
  keys = [_prefix_keys(x) for x in xs]
  count = collections.Counter(key for own in keys for key in set(own))
  most: dict[tuple, np.ndarray] = {}
  for x, own in zip(xs, keys, strict=True):
    for turn, key in zip(x.turns, own, strict=True):
      most[key] = np.maximum(most.get(key, 0), turn.weight)

  def weight(own, k: int, turn: StoredTurn) -> np.ndarray:
    return most[own[k]] / np.float32(count[own[k]] ** power)

  return [
    edits.weighted(x, functools.partial(weight, own))
    for x, own in zip(xs, keys, strict=True)
  ]


def _prefix_keys(x: StoredTrajectory) -> list[tuple]:
  """Of each turn, what is equal where it and all turns before it are."""
  out, before = [], b''
  for turn in x.turns:
    hashed = hashlib.sha256(before)
    for tokens in (turn.context, turn.message):
      hashed.update(len(tokens).to_bytes(8, 'big') + tokens.tobytes())
    out.append((x.task, x.history, hashed.digest()))
    before = b'' if x.history == 'turn' else hashed.digest()
  return out
