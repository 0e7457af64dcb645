"""Weights of trajectories with shared prefixes, as of one tree.

Tree-structured training (KAT-Coder, arXiv:2510.18779): a tree stored as its
root-to-leaf paths repeats a turn once per leaf below it.
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
  """Divides weights by the number of trajectories that share the prefix.

    w_k ← max w_k / n_k^power,  n_k = |{trajectories with the same turns 0..k}|

  The maximum runs over these n_k trajectories of one task, since a branch may
  repeat turns that have weight only in their original trajectory. Every turn of
  a tree then weighs once; with power 0, once per leaf below it. Turns are equal
  if their contexts and messages are. With history 'turn' only the turn's own
  row is compared.
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
  """Returns one key per turn, equal if it and all earlier turns are."""
  out, before = [], b''
  for turn in x.turns:
    hashed = hashlib.sha256(before)
    for tokens in (turn.context, turn.message):
      hashed.update(len(tokens).to_bytes(8, 'big') + tokens.tobytes())
    out.append((x.task, x.history, hashed.digest()))
    before = b'' if x.history == 'turn' else hashed.digest()
  return out
