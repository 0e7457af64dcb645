"""Prompts of a file, each answered in one message and scored by a verifier.

  {"prompt": "What is half of 7?", "answer": "3.5"}

The verifier is a function of the agent's message and of the whole row:

  def verifier(completion: str, row: dict) -> float: ...

It returns True, False or a number in [0, 1], or a tuple of that and a mapping
of numbers to log. A prompt is a string or a chat: a user message, optionally
after a system message. "solution" is a message that solves the row, for the
warm start; all other fields are left to the verifier.
"""

import copy
import dataclasses
import functools
import math
import os
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from agentrl import domain
from agentrl.env import splits, task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.env.files import verifiers
from agentrl.runtime import objects
from agentrl.service.base import load_function

EXAMPLE = '{"prompt": "What is half of 7?", "answer": "3.5"}'
Verdict = tuple[float, dict[str, float]]  # the score, and numbers to log


@dataclasses.dataclass(frozen=True)
class Jsonl:
  """A task is a row of the file and the text of its prompt."""

  path: domain.Place = ''  # file of prompts, a JSON object a line
  verifier: str = (
    ''  # 'module:function', or a name of agentrl/env/files/verifiers.py
  )
  test_path: domain.Place = ''  # file of held-out prompts; '': a fifth of path
  info: str = ''  # names of the numbers that the verifier returns to be logged

  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    if self.verifier:
      verifier_of(self.verifier)

  @property
  def columns(self) -> tuple[str, ...]:
    return tuple(self.info.split())

  @property
  def system(self) -> str:
    return self._file().system if self.path else ''

  def name(self) -> str:
    return task_sampling.name('jsonl', self, self.path, self.test_path)

  def sizes(self) -> dict[str, int]:
    """Counts distinct prompts by split; see `base.FiniteFamily`."""
    return task_sampling.sizes(
      self._tasks,
      f'env.path={self.path!r}',
      'add prompts, or set env.test_path to a file of held-out prompts',
    )

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields prompts with their solutions, if any; see `EnvFamily`.

    The verifier first scores an empty message, so that a broken one is
    rejected here.
    """
    tasks = self._tasks(split)
    where = f'env.path={self.path!r}'
    some = task_sampling.chosen(tasks, split, count, seed, where)
    grade = self.grader()
    every = self.verifier in verifiers.SHIPPED  # they are fast
    for task in tasks if every else tasks[:1]:
      try:
        grade('', task.task['row'])
      except Exception as error:
        raise ValueError(
          f'env.verifier={self.verifier!r} must score any message to any'
          ' prompt of the file, and failed on an empty message to'
          f' {task.task["text"][:60]!r} ({type(error).__name__}: {error})'
        ) from error
    return some

  def describe(self, task: Mapping[str, Any]) -> str:
    return task['text']

  def env(self) -> 'PromptEnv':
    return PromptEnv(self.grader())

  def _tasks(self, split: str) -> list[HostTask]:
    """Returns the tasks of a split, ordered by key."""
    file = self._file()
    if self.test_path:
      held = _read(self.test_path)
      both = {'train': file, 'test': held}
      parts = {
        x: [y.tasks[key] for key in sorted(y.tasks)] for x, y in both.items()
      }
    else:
      held, every = file, [*file.tasks.values()]
      parts = {x: task_sampling.of_split(every, x) for x in splits.SPLITS}
    trained = {_normal(x): x.key for x in parts['train']}
    if twice := [x for x in parts['test'] if _normal(x) in trained]:
      first, twin = twice[0], trained[_normal(twice[0])]
      where = 'test_path' if self.test_path else 'path'
      raise ValueError(
        f'env.{where}={self.test_path or self.path!r} and'
        f' env.path={self.path!r} must not share prompts (white space aside),'
        f' got {len(twice)} in both, such as lines {held.lines[first.key]} and'
        f' {file.lines[twin]}: {first.task["text"][:60]!r}; remove one of each'
      )
    return parts.get(split, [])

  def _file(self) -> 'PromptFile':
    if not self.path:
      raise ValueError(
        'env.path must be a file of prompts, one line each such as'
        f" {EXAMPLE}, got ''"
      )
    file = _read(self.path)
    if self.test_path and _read(self.test_path).system != file.system:
      raise ValueError(
        f'env.test_path={self.test_path!r} and env.path={self.path!r} must have'
        ' the same system message'
      )
    return file

  def grader(self) -> Callable[[str, Mapping[str, Any]], Verdict]:
    """Returns (message, row) -> verdict; ValueError without a verifier."""
    if not self.verifier:
      raise ValueError(
        "env.verifier must be a 'module:function' of (completion, row), or one"
        f" of {', '.join(verifiers.SHIPPED)}, got ''"
      )
    return functools.partial(_grade, self.verifier, self.columns)


class PromptEnv:
  """Shows a prompt and scores the answer to it."""

  def __init__(self, grade: Callable[[str, Mapping[str, Any]], Verdict]):
    self._grade = grade

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed  # nothing is random
    self._row = task['row']
    return task['text']

  def step(self, message: str) -> Step:
    score, info = self._grade(message, self._row)
    return Step('', score, True, score, info=info)

  def close(self) -> None:
    pass


def verifier_of(name: str) -> Callable[[str, dict[str, Any]], Any]:
  """Finds a verifier by name; ValueError if it does not exist."""
  if name in verifiers.SHIPPED:
    return verifiers.SHIPPED[name]
  try:
    return load_function(name, '(completion, row)')
  except objects.MissingError as error:
    raise ValueError(f'env.verifier={error}') from error
  except ValueError as error:
    raise ValueError(
      f'env.verifier={error}, or one of {", ".join(verifiers.SHIPPED)}'
    ) from error


def _grade(
  name: str, columns: tuple[str, ...], completion: str, row: Mapping[str, Any]
) -> Verdict:
  """Calls a verifier with its own copy of the row.

  Raises:
    ValueError: a score outside [0, 1], or numbers that env.info lacks.
  """
  verdict = verifier_of(name)(completion, copy.deepcopy(dict(row)))
  score, info = verdict if isinstance(verdict, tuple) else (verdict, {})
  try:
    score = float(score)
  except (TypeError, ValueError):
    score = math.nan
  if not 0 <= score <= 1:
    raise ValueError(
      f'{name} must return True, False or a number from 0 to 1, got'
      f' {verdict!r:.80}'
    )
  if unknown := sorted(set(info) - set(columns)):
    raise ValueError(
      f'{name} returned numbers {unknown} that env.info does not name; set it'
      f' to {" ".join([*columns, *unknown])!r}'
    )
  return score, dict(info)


class PromptFile(NamedTuple):
  """Prompts of a file."""

  system: str  # the message that each begins with; '': none
  tasks: dict[str, HostTask]  # by key
  lines: dict[str, int]  # where each is first


def _read(path: str) -> PromptFile:
  """Reads the prompts of a file, each once.

  Raises:
    ValueError: a line cannot be used, system messages differ, or the same
      prompt has two rows that differ.
  """
  modified = os.path.getmtime(path) if os.path.isfile(path) else 0.0
  return _parsed(path, modified)


@functools.lru_cache(maxsize=4)
def _parsed(path: str, modified: float) -> PromptFile:
  """Parses the file, cached by its modification time."""
  del modified
  rows = task_sampling.numbered_lines(path, _row, EXAMPLE)
  (_, (system, _)), *_ = rows
  tasks, lines = {}, {}
  for number, (one, task) in rows:
    text = task.task['text']
    if one != system:
      raise ValueError(
        f'{path}: all prompts must have the system message {system[:60]!r} of'
        f' the first, got {one[:60]!r} for the prompt {text[:60]!r}'
      )
    if tasks.setdefault(task.key, task) != task:
      raise ValueError(
        f'{path}: the prompt {text[:60]!r} appears in two different rows; keep'
        ' one of them'
      )
    lines.setdefault(task.key, number)
  return PromptFile(system, tasks, lines)


def _normal(task: HostTask) -> str:
  """Normalizes white space, which does not make another question."""
  text = unicodedata.normalize('NFC', task.task['text'])
  return ' '.join(text.split())


def _row(line: Mapping[str, Any]) -> tuple[str, HostTask]:
  """Parses a line into its system message and task."""
  prompt, solution = line['prompt'], line.get('solution')
  chat = [{'role': 'user', 'content': prompt}]
  if not isinstance(prompt, str):
    chat = prompt
  roles = [message['role'] for message in chat]
  texts = [message['content'] for message in chat]
  if roles not in (['user'], ['system', 'user']):
    raise ValueError('a prompt must be one message')
  if not all(isinstance(x, str) and x.strip() for x in texts):
    raise ValueError('a message must be a string')
  if not isinstance(solution, str | None):
    raise ValueError('a solution must be a string')
  task = {'text': texts[-1], 'row': dict(line)}
  demo = () if solution is None else (solution,)
  system = texts[0] if len(texts) > 1 else ''
  return system, HostTask(task, demo, task_sampling.key(texts))
