"""Rewards that programs post, checked."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentrl.gateway.request import RefusedError, field

MOST_REWARD = 1e12  # as of other environments


class Reward(NamedTuple):
  """What a trajectory earned, and whether it solved its task."""

  reward: float
  score: float  # in [0, 1]
  terms: Mapping[str, float] = {}


def reward_of(body: Mapping[str, Any]) -> Reward:
  """Returns a reward with its score; a reward in [0, 1] is a score by itself.

  Raises:
    RefusedError: no finite number, no score, or terms that are no numbers.
  """
  reward = _bounded('reward', body.get('reward'))
  given = reward if body.get('score') is None else body['score']
  score = _number(given)
  if score is None or not 0 <= score <= 1:
    raise RefusedError(
      f'score must be in [0, 1], got {str(given)[:40]}; send a score beside a'
      ' reward that is not'
    )
  terms = {
    name: _bounded(f'terms.{name[:40]}', value)
    for name, value in field(body, 'terms', dict, {}).items()
  }
  return Reward(reward, score, terms)


def _bounded(name: str, value: Any) -> float:
  number = _number(value)
  if number is None or not -MOST_REWARD <= number <= MOST_REWARD:
    raise RefusedError(
      f'{name} must be a number within ±{MOST_REWARD:g}, got {str(value)[:40]}'
    )
  return number


def _number(value: Any) -> float | None:
  if isinstance(value, bool) or not isinstance(value, int | float):
    return None
  return float(value) if abs(value) < 1e300 else None
