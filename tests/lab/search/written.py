"""Complete trees with written values: every path can be enumerated."""

import collections
import itertools

import numpy as np

from agentrl.rollout.forks import Played


class WrittenForks:
  """A trees of `depth` turns with `actions` moves each.

  Each end has a drawn score, and each other place the best score below it. At
  a place the moves come one after another, in an order of its own, or as
  `samples` has them; `malformed` ones are not understood, and lead on.
  """

  def __init__(
    self, *, actions: int, depth: int, seed: int = 0, samples=(), malformed=()
  ):
    self.actions, self.depth, self.seed = actions, depth, seed
    self.samples, self.malformed = samples, malformed
    self.counts: collections.Counter[str] = collections.Counter()

  def begin(self, tasks):
    rngs = [np.random.default_rng((self.seed, t)) for t in tasks]
    paths = list(itertools.product(range(self.actions), repeat=self.depth))
    self.scores = [
      dict(zip(paths, rng.permutation(len(paths)) / len(paths), strict=True))
      for rng in rngs
    ]
    self.places = [(tree, ()) for tree in range(len(tasks))]
    self.tried = collections.Counter()
    self.counts = collections.Counter()
    return list(range(len(tasks)))

  def below(self, tree, path):
    """Scores of all ends that a path leads to."""
    n = len(path)
    return [x for way, x in self.scores[tree].items() if way[:n] == path]

  def play(self, asks):
    played = []
    for ask in asks:
      tree, path = self.places[ask.place]
      order = np.random.default_rng(len(path)).permutation(self.actions)
      order = self.samples or order
      move = int(order[self.tried[tree, path] % len(order)])
      self.tried[tree, path] += 1
      self.counts['calls'] += 1
      path = (*path, move)
      ended = len(path) == self.depth
      best = max(self.below(tree, path))
      played.append(
        Played(
          place=len(self.places),
          message=(move,),
          logp=-1.0,
          reward=0.0,
          ended=ended,
          score=best if ended else 0.0,
          state=b'',
          value=best,
          parsed=None if move in self.malformed else str(move),
        )
      )
      self.places.append((tree, path))
    return played
