"""Prompts of a file, each answered by one message that a verifier scores.

  {"prompt": "What is half of 7?", "answer": "3.5"}

The verifier is a function of the agent's message and of the whole row:

  def verifier(completion: str, row: dict) -> float: ...

It returns True, False or a number in [0, 1], or a tuple of that and a mapping
of numbers to log. A prompt is a text, or a chat: a user's message with or
without a system message before it. Of the rest of a row, "solution" is a
message that solves it, for the warm start; all else is the verifier's.
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
from agentrl.service.base import load_function

EXAMPLE = '{"prompt": "What is half of 7?", "answer": "3.5"}'
Verdict = tuple[float, dict[str, float]]  # the score, and numbers to log


@dataclasses.dataclass(frozen=True)
class Jsonl:
  """A task is a row of the file, and the text of its prompt."""

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
    """Distinct prompts by split; see `base.FiniteFamily`."""
    return task_sampling.sizes(
      self._tasks,
      f'env.path={self.path!r}',
      'add prompts, or set env.test_path to a file of held-out ones',
    )

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Prompts with their solutions, where they have one; see `EnvFamily`.

    The verifier scores an empty message first, so that one that cannot be
    used is refused here.
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
          f'env.verifier={self.verifier!r} cannot score an empty message to'
          f' {task.task["text"][:60]!r} ({type(error).__name__}: {error}); it'
          ' must score any message to any prompt of the file'
        ) from error
    return some

  def env(self) -> 'PromptEnv':
    return PromptEnv(self.grader())

  def _tasks(self, split: str) -> list[HostTask]:
    """The tasks of a split, ordered by their keys."""
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
        f'{len(twice)} prompts of env.{where}={self.test_path or self.path!r}'
        f' are held out and in env.path={self.path!r} too, where white space'
        f' does not count, such as line {held.lines[first.key]} in line'
        f' {file.lines[twin]}: {first.task["text"][:60]!r}; remove one of each'
      )
    return parts.get(split, [])

  def _file(self) -> 'PromptFile':
    if not self.path:
      raise ValueError(
        "env.path='' names no file of prompts; set it to a file with a line"
        f' such as {EXAMPLE} for each'
      )
    file = _read(self.path)
    if self.test_path and _read(self.test_path).system != file.system:
      raise ValueError(
        f'env.test_path={self.test_path!r} and env.path={self.path!r} differ in'
        ' their system message; give all prompts the same one'
      )
    return file

  def grader(self) -> Callable[[str, Mapping[str, Any]], Verdict]:
    """(message, row) -> its verdict. Raises ValueError without a verifier."""
    if not self.verifier:
      raise ValueError(
        "env.verifier='' scores no message; set it to 'module:function', of"
        f' (completion, row), or to one of {", ".join(verifiers.SHIPPED)}'
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
  """The verifier of a name. Raises ValueError where there is none."""
  if name in verifiers.SHIPPED:
    return verifiers.SHIPPED[name]
  try:
    return load_function(name, '(completion, row)')
  except ValueError as error:
    raise ValueError(
      f'env.verifier={error}, or one of {", ".join(verifiers.SHIPPED)}'
    ) from error


def _grade(
  name: str, columns: tuple[str, ...], completion: str, row: Mapping[str, Any]
) -> Verdict:
  """The verdict of a verifier, which gets a row of its own.

  Raises:
    ValueError: it is no score in [0, 1], or has numbers that are not logged.
  """
  verdict = verifier_of(name)(completion, copy.deepcopy(dict(row)))
  score, info = verdict if isinstance(verdict, tuple) else (verdict, {})
  try:
    score = float(score)
  except (TypeError, ValueError):
    score = math.nan
  if not 0 <= score <= 1:
    raise ValueError(
      f'{name} returned {verdict!r:.80}; a score is True, False or a number'
      ' from 0 to 1'
    )
  if unknown := sorted(set(info) - set(columns)):
    raise ValueError(
      f'{name} returned numbers called {unknown}, which are not logged; set'
      f' env.info to {" ".join([*columns, *unknown])!r}'
    )
  return score, dict(info)


class PromptFile(NamedTuple):
  """The prompts of a file."""

  system: str  # the message that each begins with; '': none
  tasks: dict[str, HostTask]  # by key
  lines: dict[str, int]  # where each is first


def _read(path: str) -> PromptFile:
  """The prompts of a file, each once.

  Raises:
    ValueError: a line cannot be used, system messages differ, or the same
      prompt has two rows that differ.
  """
  modified = os.path.getmtime(path) if os.path.isfile(path) else 0.0
  return _parsed(path, modified)


@functools.lru_cache(maxsize=4)
def _parsed(path: str, modified: float) -> PromptFile:
  """The file as it was when last modified."""
  del modified
  rows = task_sampling.numbered_lines(path, _row, EXAMPLE)
  (_, (system, _)), *_ = rows
  tasks, lines = {}, {}
  for number, (one, task) in rows:
    text = task.task['text']
    if one != system:
      raise ValueError(
        f'{path}: the prompt {text[:60]!r} begins with the system message'
        f' {one[:60]!r} and the first one with {system[:60]!r}; give all'
        ' prompts the same one'
      )
    if tasks.setdefault(task.key, task) != task:
      raise ValueError(
        f'{path}: the prompt {text[:60]!r} is there twice, with rows that'
        ' differ; keep one of them'
      )
    lines.setdefault(task.key, number)
  return PromptFile(system, tasks, lines)


def _normal(task: HostTask) -> str:
  """The prompt without what makes it no other question to a model."""
  text = unicodedata.normalize('NFC', task.task['text'])
  return ' '.join(text.split())


def _row(line: Mapping[str, Any]) -> tuple[str, HostTask]:
  """The system message and the task of a line."""
  prompt, solution = line['prompt'], line.get('solution')
  chat = [{'role': 'user', 'content': prompt}]
  if not isinstance(prompt, str):
    chat = prompt
  roles = [message['role'] for message in chat]
  texts = [message['content'] for message in chat]
  if roles not in (['user'], ['system', 'user']):
    raise ValueError('a prompt is one message')
  if not all(isinstance(x, str) and x.strip() for x in texts):
    raise ValueError('a message is no text')
  if not isinstance(solution, str | None):
    raise ValueError('a solution is no text')
  task = {'text': texts[-1], 'row': dict(line)}
  demo = () if solution is None else (solution,)
  system = texts[0] if len(texts) > 1 else ''
  return system, HostTask(task, demo, task_sampling.key(texts))
