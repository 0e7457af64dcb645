"""In-context regression: the slope of a line from a few noisy examples.

  3:8 1:5 9:17 4:
  8

A label is slope · x + noise. The slope of a task is one of all slopes, or of a
few that are fixed; which of the two it is, an example does not say, so that a
model has to infer it. Labels may be scaled, and the answer with them: the same
task, in a prompt that lies elsewhere (conjugate prompting, arXiv 2309.10105).
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, ClassVar

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.text.tool_calls.base import spoken

LARGEST = 9  # of an input
RULES = (
  'Labels are a slope times the input, up to a little noise. Give the label of'
  ' the last input without noise, as one whole number.'
)
LOST = 'Give one whole number.'
_NUMBER = re.compile(r'\s*(\d{1,5})\s*', re.ASCII)


@dataclasses.dataclass(frozen=True)
class InContextRegression:
  """A task is a slope, labelled inputs, and an input without a label."""

  slopes: Annotated[int, domain.Whole(2, 99)] = 12  # all are 1 to this
  few_slopes: str = '3 5'  # the few, with spaces between
  few: domain.Chance = 0.5  # share of tasks whose slope is one of the few
  examples: Annotated[int, domain.Whole(1, 8)] = 3  # that are labelled
  noise: Annotated[int, domain.Whole(0, 9)] = 4  # most that a label is off
  scale: Annotated[int, domain.Whole(1, 9)] = 1  # of labels and answers
  teach: bool = False  # the system text states the rules

  columns: ClassVar[tuple[str, ...]] = ('error', 'as_few', 'of_few')
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    domain.check_fields(self)
    words = self.few_slopes.split()
    listed = [int(x) for x in words if x.isascii() and x.isdecimal()]
    fit = all(1 <= x <= self.slopes for x in listed)
    if (
      len(listed) < max(len(words), 1)
      or len({*listed}) < len(listed)
      or not fit
    ):
      raise ValueError(
        f'few_slopes={self.few_slopes!r} must be slopes from 1 to'
        f" {self.slopes}, each once, with spaces between, such as '1 2'"
      )

  @property
  def system(self) -> str:
    return RULES if self.teach else ''

  @property
  def subset(self) -> tuple[int, ...]:
    return tuple(map(int, self.few_slopes.split()))

  def name(self) -> str:
    return task_sampling.name('in_context_regression', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Returns the label without noise; see `EnvFamily`."""
    return task_sampling.drawn(self._draw, self._solve, split, count, seed)

  def env(self) -> 'RegressionEnv':
    return RegressionEnv(self)

  def expert_value(self, task: Mapping[str, Any]) -> float:
    """Returns the chance that the likeliest slope is the task's, by Bayes.

    Over both kinds of tasks, in their shares; no policy does better.
    """
    return float(self.posterior(task, self.few).max())

  def posterior(self, task: Mapping[str, Any], few: float) -> np.ndarray:
    """Returns P(slope | examples) for the slopes 1 to `slopes`: [S] f64.

      P(w | x, y) ∝ P(w) Π_i [|y_i − w x_i| <= noise],
      P(w) = few [w is one of the few] / |few| + (1 − few) / S

    Noise is uniform. Examples that no slope explains leave P(w).

    Args:
      few: share of tasks of the few slopes
    """
    slopes = np.arange(1, self.slopes + 1)
    one = np.isin(slopes, self.subset)
    prior = few * one / one.sum() + (1 - few) / self.slopes
    x, y = np.array(task['inputs']), np.array(task['labels'])
    fits = np.all(abs(y - slopes[:, None] * x) <= self.noise, axis=1)
    joint = prior * fits
    return joint / joint.sum() if joint.any() else prior

  def nearest(self, task: Mapping[str, Any]) -> int:
    """Picks the one of few slopes with least squared error on the examples."""
    x, y = np.array(task['inputs']), np.array(task['labels'])
    few = np.array(self.subset)
    return int(few[np.argmin(np.sum((y - few[:, None] * x) ** 2, axis=1))])

  def _draw(self, rng: np.random.Generator) -> dict[str, Any]:
    slopes: Sequence[int] = range(1, self.slopes + 1)
    if rng.random() < self.few:
      slopes = self.subset
    slope = int(rng.choice(slopes))
    inputs = rng.integers(1, LARGEST + 1, self.examples + 1)
    noise = rng.integers(-self.noise, self.noise + 1, self.examples)
    labels = slope * inputs[:-1] + noise
    return {
      'slope': slope,
      'inputs': inputs[:-1].tolist(),
      'labels': labels.tolist(),
      'query': int(inputs[-1]),
    }

  def _solve(
    self, made: dict[str, Any]
  ) -> tuple[dict[str, Any], tuple[str, ...]]:
    return made, (str(self.scale * made['slope'] * made['query']),)


class RegressionEnv:
  """Grades one number; see `HostEnv`."""

  def __init__(self, family: InContextRegression):
    self._family = family

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # nothing is random
    self._task = task
    pairs = zip(task['inputs'], task['labels'], strict=True)
    examples = [f'{x}:{self._family.scale * y}' for x, y in pairs]
    return ' '.join([*examples, f'{task["query"]}:'])

  def step(self, message: str) -> Step:
    task, match = self._task, _NUMBER.fullmatch(spoken(message))
    few = float(task['slope'] in self._family.subset)
    info = {'error': 0.0, 'as_few': 0.0, 'of_few': few}
    if match is None:
      return Step(LOST, done=True, invalid=True, info=info)
    answer = int(match[1]) / self._family.scale
    right = task['slope'] * task['query']
    info['error'] = abs(answer - right)
    near = self._family.nearest(task) * task['query']
    info['as_few'] = float(answer == near)
    score = float(answer == right)
    return Step('', score, True, score, info=info)

  def close(self) -> None:
    """Closes nothing: nothing is held."""
