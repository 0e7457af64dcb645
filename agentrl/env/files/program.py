"""Programs that play tasks by calling the policy over HTTP.

A program is a command or a Python function. It gets the address of a session
and a key, calls the policy there like any other model (docs: GATEWAY.md), and
posts the reward of its task, unless a grader computes it:

  command   python my_agent.py     the task as JSON on its standard input;
            OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_BASE_URL,
            ANTHROPIC_API_KEY, AGENTRL_ADDRESS (+ '/reward' takes the reward)
  function  my_agent:play          play(address, key, task)

Tasks are lines of a file, or tasks of another family, whose environment the
program plays itself with `world_of(task)`.
"""

import dataclasses
import math
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from agentrl import domain
from agentrl.env import base, task_sampling
from agentrl.env.base import HostEnv, HostTask
from agentrl.env.external import keywords
from agentrl.env.files.program_family import ProgramFamily
from agentrl.env.files.program_run import CommandRun, FunctionRun, confinement
from agentrl.service.base import load_function

EXAMPLE = '{"question": "What is half of 7?", "answer": "3.5"}'


@dataclasses.dataclass(frozen=True)
class Program(ProgramFamily):
  """A task is an object of the file or a task of the world."""

  command: str = ''  # line of a program; {name} is a text of the task
  function: str = ''  # 'module:name' of (address, key, task)
  path: domain.Place = ''  # file of tasks, a JSON object a line
  world: str = ''  # a family whose tasks are played
  settings: str = ''  # of the world, as in 'numbers=2, largest=30'
  grader: str = (
    ''  # 'module:name' of (task, messages); '': the reward is posted
  )
  # Whether the command writes into a folder of its own alone, and connects to
  # the policy alone.
  sandbox: bool = False
  # What a program that posts none has earned: a fault costs its trajectory, 0
  # is right where judges of the config (c.judge) say it.
  unposted: Annotated[str, domain.OneOf('fault', 'zero')] = 'fault'

  terms: Annotated[
    tuple[str, ...], domain.Tuple(domain.Name('a term'))
  ] = ()  # numbers that are posted beside the reward, as in ('format',)

  @property
  def columns(self) -> tuple[str, ...]:
    return (*super().columns, *self.terms)

  def check(self) -> None:
    if bool(self.command) == bool(self.function):
      raise ValueError(
        'exactly one of env.command and env.function must be set, got'
        f' {self.command!r} and {self.function!r}'
      )
    if bool(self.path) == bool(self.world):
      raise ValueError(
        'exactly one of env.path (a file of tasks) and env.world (a family)'
        f' must be set, got {self.path!r} and {self.world!r}'
      )
    for name in ('function', 'grader'):
      if value := vars(self)[name]:
        try:
          load_function(value, _ARGUMENTS[name])
        except ValueError as error:
          raise ValueError(f'env.{name}={error}') from error
    if self.grader and self.unposted != 'fault':
      raise ValueError(
        'only one of env.unposted and env.grader may be set, got'
        f' {self.unposted!r} and {self.grader!r}'
      )
    if self.sandbox and not self.command:
      raise ValueError(
        'env.sandbox=True needs env.command, got'
        f' env.function={self.function!r}, which runs in this process'
      )
    if self.sandbox and (why := confinement()):
      raise ValueError(
        f'env.sandbox=True needs Linux 6.12 or later with Landlock ({why})'
      )
    if self.command:
      self._check_command()
    if self.world:
      self._family()

  def name(self) -> str:
    return task_sampling.name('program', self, self.path)

  def sizes(self) -> Mapping[str, int]:
    """Counts tasks by split; see `base.FiniteFamily`."""
    if self.world:
      return base.sizes(self._family())
    return task_sampling.sizes(
      self._lines,
      f'env.path={self.path!r}',
      'add tasks, a fifth of which is held out by their content',
    )

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks without demonstrations; see `EnvFamily`."""
    self.check()
    if not self.world:
      where = f'env.path={self.path!r}'
      tasks = self._lines(split)
      return task_sampling.chosen(tasks, split, count, seed, where)
    world = {'name': self.world} | keywords.parse(self.settings)
    return (
      HostTask({'world': world, 'task': x.task}, (), x.key)
      for x in self._family().tasks(split, count, seed)
    )

  def start(
    self, task: Mapping[str, Any], seed: int, address: str, key: str
  ) -> base.ProgramRun:
    task = {**task, 'seed': seed} if self.world else dict(task)
    if self.function:
      return FunctionRun(
        load_function(self.function, _ARGUMENTS['function']), address, key, task
      )
    words = self._words(task)
    return CommandRun(words, address, key, task, sandbox=self.sandbox)

  def grade(
    self, task: Mapping[str, Any], messages: Sequence[Mapping[str, str]]
  ) -> float | None:
    """Returns the grader's score; None: the program had to post it.

    Raises ValueError for an invalid score.
    """
    if not self.grader:
      return 0.0 if self.unposted == 'zero' else None
    grader = load_function(self.grader, _ARGUMENTS['grader'])
    score = grader(dict(task), [dict(x) for x in messages])
    number = isinstance(score, int | float) and math.isfinite(score)
    if not number or not 0 <= score <= 1:
      raise ValueError(
        f'{self.grader} must return True, False or a number from 0 to 1, got'
        f' {score!r:.80}'
      )
    return float(score)

  def _check_command(self) -> None:
    """Checks that the program exists, unless a task names it."""
    first = next(iter(self._words({})), '')
    if re.search(r'\{[^{}]+\}', first):
      return
    if shutil.which(first) is None:
      raise ValueError(
        f'env.command={self.command!r} must begin with an executable program,'
        f' got {first!r}; write its path, or put its folder on the PATH'
      )

  def _words(self, task: Mapping[str, Any]) -> list[str]:
    """Splits the command and fills in the strings of a task."""
    try:
      words = shlex.split(self.command)
    except ValueError as error:
      raise ValueError(
        f'env.command must be a command line, got {self.command!r} ({error})'
      ) from error
    for name, text in task.items():
      if isinstance(text, str):
        words = [x.replace(f'{{{name}}}', text) for x in words]
    return words

  def _family(self) -> base.EnvFamily:
    own = keywords.parse(self.settings)
    family = base.find(self.world)
    if unknown := sorted(own.keys() - base.settings(family).keys()):
      raise ValueError(
        f'env.settings must be among {sorted(base.settings(family))} of'
        f' env.world={self.world!r}, got {unknown[0]!r} in {self.settings!r}'
      )
    return family(**own)

  def _lines(self, split: str) -> list[HostTask]:
    every = task_sampling.lines(self.path, _line, EXAMPLE)
    return task_sampling.of_split(every, split)


_ARGUMENTS = {'function': '(address, key, task)', 'grader': '(task, messages)'}


def _line(row: Mapping[str, Any]) -> HostTask:
  task = {**row}
  return HostTask(task, (), task_sampling.key(task))


def world_of(task: Mapping[str, Any]) -> tuple[HostEnv, str]:
  """Begins a task of another family; returns environment and first text."""
  env = base.of(task['world']).env()
  return env, env.reset(task['task'], task['seed'])
