"""Puzzles of the package reasoning-gym (arXiv 2505.24760): one turn each.

The answer is the text between the last <answer> and </answer>, else the whole
message; the package scores it in [0, 1].
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from agentrl.env import base, splits, task_sampling
from agentrl.runtime import text_files

_ANSWER = re.compile(r'.*<answer>(.*?)</answer>', re.DOTALL)


@dataclasses.dataclass(frozen=True)
class ReasoningGym:
  """A task is {'seed'}; its puzzle is the first of that seed's dataset."""

  dataset: str = 'chain_sum'  # the package's name
  settings: str = '{}'  # of the dataset, in JSON: '{"min_terms": 2}'

  columns: ClassVar[tuple[str, ...]] = ()
  system: ClassVar[str] = ''  # a question says what to answer
  worker: ClassVar[str] = 'process'  # to score evaluates, and may hang

  def __post_init__(self):
    try:
      settings = text_files.parse(self.settings)
    except ValueError:
      settings = None
    if not isinstance(settings, dict) or {'seed', 'size'} & set(settings):
      raise ValueError(
        "settings must be a JSON object of the dataset's settings without seed"
        f' and size, such as {{"min_terms": 2}}, got {self.settings!r}'
      )

  def name(self) -> str:
    """Returns reasoning_gym-<dataset>-<hash of all settings>."""
    return task_sampling.name(f'reasoning_gym-{self.dataset}', self)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[base.HostTask]:
    """Yields distinct questions, with the package's answer if it scores 1."""
    rng = splits.split_rng(split, seed)
    env = self.env()
    return splits.distinct_tasks(
      lambda: env.draw(int(rng.integers(2**31))), env.solve, split, count
    )

  def env(self) -> 'PuzzleEnv':
    try:
      import reasoning_gym
      from reasoning_gym.factory import DATASETS
    except ModuleNotFoundError as error:
      raise base.missing('reasoning-gym', 'games') from error
    if self.dataset not in DATASETS or self.dataset == 'composite':
      raise ValueError(
        'dataset must be one of reasoning-gym:'
        f' {sorted(set(DATASETS) - {"composite"})}, got {self.dataset!r}'
      )
    settings = text_files.parse(self.settings)

    def make(seed: int) -> Any:
      return reasoning_gym.create_dataset(
        self.dataset, size=1, seed=seed, **settings
      )

    try:
      make(0)
    except (AssertionError, TypeError, ValueError) as error:
      raise ValueError(
        f'settings={self.settings!r} do not fit dataset={self.dataset!r}'
        f' ({error}); see its configuration in reasoning-gym'
      ) from error
    return PuzzleEnv(make)


class PuzzleEnv:
  """Asks the puzzles of a dataset."""

  def __init__(self, make):
    self.make = make

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Returns the question; nothing is random."""
    del seed
    self.puzzles = self.make(task['seed'])
    self.item = self.puzzles[0]
    return self.item['question']

  def step(self, message: str) -> base.Step:
    """Scores an answer; one that breaks the scorer is invalid."""
    tagged = _ANSWER.match(message)
    answer = tagged[1] if tagged else message
    try:
      score = float(self.puzzles.score_answer(answer.strip(), self.item))
    except Exception:  # the scorers of a hundred puzzles, on any text
      return base.Step('', done=True, invalid=True)
    return base.Step('', score, done=True, score=score)

  def close(self) -> None:
    """Closes nothing."""

  def draw(self, seed: int) -> tuple[str, dict[str, int]]:
    """Draws a task; its key identifies the question."""
    question = self.reset({'seed': seed}, 0)
    return splits.content_key(question.encode()), {'seed': seed}

  def solve(self, key: str, task: dict[str, int]) -> base.HostTask:
    """Returns the task with its answer, if that scores 1."""
    answer = self.item['answer']  # of the puzzle that `draw` made
    if answer is None or self.step(answer).score != 1:
      return base.HostTask(task, (), key)
    return base.HostTask(task, (answer,), key)
