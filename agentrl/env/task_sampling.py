"""Tasks of host families: names, keys and splits."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from agentrl.env import splits
from agentrl.env.base import EnvFamily, HostTask
from agentrl.runtime import text_files


def key(content: Any) -> str:
  """Hashes what JSON can hold to a content id."""
  return splits.content_key(json.dumps(content, sort_keys=True).encode())


def split(content: Any) -> str:
  """Returns the split that content alone would be in."""
  return splits.split_of(key(content))


def name(kind: str, family: EnvFamily, *files: str) -> str:
  """Returns <kind>-<hash of all settings, and of what the files hold>.

  Args:
    files: that the settings name; '' for none.

  Raises:
    ValueError: a file cannot be read.
  """
  held = [text_files.read(path) for path in files if path]
  content = '\0'.join([repr(family), *held])
  return f'{kind}-{splits.content_key(content.encode())[:8]}'


def drawn(
  draw: Callable[[np.random.Generator], Any],
  solve: Callable[[Any], tuple[dict[str, Any], tuple[str, ...]]],
  split: str,
  count: int,
  seed: int,
) -> Iterator[HostTask]:
  """Draws distinct random tasks of a split; see `EnvFamily.tasks`.

  Args:
    draw: -> what makes a task what it is, which JSON can hold and order does
      not matter to; None when this draw came to nothing.
    solve: that -> the task and a demonstration.
  """
  rng = splits.split_rng(split, seed)

  def keyed():
    content = draw(rng)
    return None if content is None else (key(content), content)

  return splits.distinct_tasks(
    keyed, lambda key, content: HostTask(*solve(content), key), split, count
  )


def seeds(
  split: str, count: int, seed: int, *, seats: int = 0
) -> Iterator[HostTask]:
  """Returns tasks {'seed'} of a package that keeps to itself what it draws.

  They are told apart by their seed alone, so where there are few positions,
  two tasks may be the same one.

  Args:
    seats: places at the table, of which each task has one as 'player'; 0: a
      task has none.
  """
  rng = splits.split_rng(split, seed)

  def draw() -> tuple[str, dict[str, int]]:
    task = {'seed': int(rng.integers(2**31))}
    if seats:
      task['player'] = int(rng.integers(seats))
    return splits.content_key(repr(task).encode()), task

  return splits.distinct_tasks(
    draw, lambda key, task: HostTask(task, (), key), split, count
  )


def of_split(tasks: Sequence[HostTask], split: str) -> list[HostTask]:
  """Returns the distinct tasks of a split, ordered by their keys.

  Args:
    tasks: all there are; of those with one key the first counts.
  """
  distinct = {task.key: task for task in reversed(tasks)}
  return [distinct[k] for k in sorted(distinct) if splits.split_of(k) == split]


def sizes(
  of_split: Callable[[str], Sequence], where: str, remedy: str
) -> dict[str, int]:
  """Returns tasks by split; see `base.FiniteFamily`.

  Args:
    of_split: the distinct tasks of a split.
    where: what holds the tasks, and `remedy`, for the error.

  Raises:
    ValueError: a split has none.
  """
  count = {split: len(of_split(split)) for split in splits.SPLITS}
  if not all(count.values()):
    raise ValueError(
      f'{where} has {count["train"]} tasks to train on and {count["test"]} held'
      f' out, and both are needed; {remedy}'
    )
  return count


def chosen(
  tasks: Sequence[HostTask], split: str, count: int, seed: int, where: str
) -> Iterator[HostTask]:
  """Returns the first `count` tasks of a split, in an order from the seed.

  Args:
    tasks: the distinct ones of the split (`of_split`).
    where: what holds the tasks, for the error.

  Raises:
    ValueError: unknown split, negative seed, or fewer tasks than asked for.
  """
  rng = splits.split_rng(split, seed)
  if count > len(tasks):
    raise ValueError(
      f'{count} {split} tasks are more than the {len(tasks)} distinct ones of'
      f' {where}; ask for fewer, or give it more'
    )
  return (tasks[i] for i in rng.permutation(len(tasks))[:count])


# Of a `parse` that does not understand a line.
_MISTAKES = (
  ValueError,
  LookupError,
  TypeError,
  AttributeError,
  ArithmeticError,
  RecursionError,
)


def lines(
  path: str, parse: Callable[[dict[str, Any]], Any], example: str
) -> list[Any]:
  """Parses each line of a file of JSON objects; see `numbered_lines`."""
  return [x for _, x in numbered_lines(path, parse, example)]


def numbered_lines(
  path: str, parse: Callable[[dict[str, Any]], Any], example: str
) -> list[tuple[int, Any]]:
  """Parses each line of a file of JSON objects: -> (number, result) of each.

  Raises:
    ValueError: a file that cannot be read or holds nothing, or a line that
      `parse` does not understand (it raises one of the errors of conversions
      and look-ups); `example` says how to write it.
  """
  out = []
  for number, line in text_files.lines(path):
    if line.strip():
      try:
        out.append((number, parse(text_files.parse(line))))
      except _MISTAKES as error:
        why = f' ({error})' if isinstance(error, ValueError) else ''
        raise ValueError(
          f'{path}:{number} cannot be used{why}: {line.strip()[:80]!r}; write'
          f' {example} on each line'
        ) from error
  if not out:
    raise ValueError(f'{path} is empty; write {example} on each line')
  return out
