"""Gymnasium environments of text, as they are played in their own process.

Imports the standard library and what stands on it, so that the interpreter of
another virtual environment can run it.
"""

import dataclasses
import random
import sys
from collections.abc import Mapping
from typing import Any, ClassVar

from agentrl.env.base import Step
from agentrl.env.external import keywords


@dataclasses.dataclass(frozen=True)
class GymnasiumMaker:
  """Settings that make an environment; see `base.EnvMaker`."""

  make: str
  id: str
  settings: str
  solved: float

  columns: ClassVar[tuple[str, ...]] = ('truncated',)

  def env(self) -> 'GymnasiumEnv':
    env = keywords.make(self.make, self.id, self.settings)
    if lacking := keywords.lacking(env, 'reset', 'step'):
      raise ValueError(
        f'env.make={self.make!r} made a {type(env).__name__} without'
        f' {" and ".join(lacking)}; name a function that makes a Gymnasium'
        ' environment'
      )
    return GymnasiumEnv(env, self.solved)


class GymnasiumEnv:
  """Plays `reset(seed=...)` and `step(text)` of an environment."""

  def __init__(self, env: Any, solved: float):
    """Takes `solved`, the return from which an episode has the score 1."""
    self._env, self._solved = env, solved

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins the episode of a task's seed, which all randomness follows from.

    The global generators are seeded as well, for what draws from them.
    """
    del seed
    seed_globals(task['seed'])
    self._return = 0.0
    match self._env.reset(seed=task['seed']):
      case (str(text), _):
        return text
      case other:
        raise TypeError(
          f'reset returned {other!r:.80}, not an observation that is a text,'
          ' and info'
        )

  def step(self, message: str) -> Step:
    """Plays one action -> the answer; the score is of the sum of rewards."""
    match self._env.step(message):
      case (text, reward, terminated, truncated, _):
        pass
      case other:
        raise TypeError(
          f'step returned {other!r:.80}, not an observation, a reward,'
          ' terminated, truncated and info'
        )
    reward = float(reward)
    self._return += reward
    done = bool(terminated or truncated)
    score = float(done and self._return >= self._solved)
    info = {'truncated': float(truncated)}
    return Step(text, reward, done, score, info=info)

  def close(self) -> None:
    keywords.close(self._env)


def seed_globals(seed: int) -> None:
  """Seeds the generators that a whole process shares.

  NumPy's too, where the environment has imported it.
  """
  random.seed(seed)
  if 'numpy' in sys.modules:
    sys.modules['numpy'].random.seed(seed)
