"""A library of tools that grows with the tasks it was used for.

A batch of tasks is solved with the tools that are there. Of each right attempt
that is more than a call of one tool a service writes a tool. Then

  try out   kept is what is right on every pair that its task held back
  merge     of two tools that do the same the older stays; a more general one,
            which the service may write, replaces all whose work it does
  retire    out go tools that were wrong more often than right, or unused for
            `patience` tasks; and, beyond `room`, those unused the longest

A tool's work is its outputs over the inputs of the training tasks.
"""

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentrl.lab import archive
from agentrl.lab.archive import Verdict
from agentrl.lab.papers.tool_creation import scripted, world
from agentrl.lab.papers.tool_creation.programs import Bench, Table
from agentrl.lab.papers.tool_creation.scripted import Attempt, Used
from agentrl.lab.papers.tool_creation.world import Task
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message


class Rules(NamedTuple):
  """What is done with tools, and how much room and how many calls there are."""

  reuse: bool = True  # without, none is written
  tryout: bool = True
  merge: bool = True
  room: int = 8  # tools
  calls: int = 60  # chains that are tried at a task
  batch: int = 15  # tasks
  patience: int = 60  # tasks


class Tool(NamedTuple):
  """A tool, and what came of it."""

  source: str
  of: str
  last: int  # task at which it was written, or last part of a right answer
  right: int = 0
  wrong: int = 0  # answers with it


class State(NamedTuple):
  """A library between two batches."""

  tools: tuple[Tool, ...] = ()
  done: tuple[bool, ...] = ()  # whether each task was solved
  banks: tuple[tuple[str, ...], ...] = ()  # sort of every tool, by batch
  written: int = 0
  refused: int = 0


def grow(
  tasks: Sequence[Task],
  bench: Bench,
  writer: Service,
  rules: Rules = Rules(),  # noqa: B008  a tuple of numbers
  *,
  seed: int,
  path: str | os.PathLike[str] | None = None,
) -> State:
  """Solves tasks in their order, and keeps tools of what was right.

  Args:
    path: file of the library; one that it holds goes on

  Raises:
    ValueError: the file is of another library.
  """
  head: dict[str, Any] = {
    'name': 'tool_creation',
    'rules': list(rules),
    'seed': seed,
  }
  state = archive.loaded(path, head, _of_json) or State()
  while len(state.done) < len(tasks):
    begin = len(state.done)
    batch = tasks[begin : begin + rules.batch]
    state, attempts = _solved(state, batch, bench, rules, seed)
    state = _grown(state, attempts, bench, writer, rules, seed)
    if path:
      archive.saved(path, head, state)
  return state


def _of_json(held: list[Any]) -> State:
  tools, done, banks, *counts = held
  banks = tuple(tuple(x) for x in banks)
  return State(tuple(Tool(*x) for x in tools), tuple(done), banks, *counts)


def offered(
  tools: Sequence[Tool], of: str, bench: Bench
) -> tuple[list[int], list[Table]]:
  """Returns places and tables of the tools of a sort."""
  places = [i for i, x in enumerate(tools) if x.of == of]
  return places, [bench.run(tools[i].source, of).table for i in places]


def _solved(
  state: State, batch: Sequence[Task], bench: Bench, rules: Rules, seed: int
) -> tuple[State, list[tuple[Task, Attempt]]]:
  """Solves a batch, and counts what came of each tool."""
  tools, done = [*state.tools], [*state.done]
  banks = (*state.banks, tuple(x.of for x in tools))
  attempts = []
  for task in batch:
    places, tables = offered(tools, task.of, bench)
    draw = archive.draw_seed(seed, len(done), 0)
    tried = scripted.solve(task, tables, rules.calls, draw)
    steps = [
      x._replace(tool=places[x.tool]) if isinstance(x, Used) else x
      for x in tried.steps
    ]
    right = tried.answer == task.asked.output
    for i in {x.tool for x in steps if isinstance(x, Used)}:
      old = tools[i]
      tools[i] = old._replace(
        right=old.right + right,
        wrong=old.wrong + (not right),
        last=len(done) if right else old.last,
      )
    if right and len(steps) > 1:
      attempts.append((task, tried._replace(steps=tuple(steps))))
    done.append(right)
  state = state._replace(tools=tuple(tools), done=tuple(done), banks=banks)
  return state, attempts


def _grown(
  state: State,
  attempts: Sequence[tuple[Task, Attempt]],
  bench: Bench,
  writer: Service,
  rules: Rules,
  seed: int,
) -> State:
  """Writes, tries out, merges and retires."""
  if not rules.reuse:
    return state
  now = len(state.done)
  tools, written, refused = [*state.tools], state.written, state.refused
  for n, (task, attempt) in enumerate(attempts):
    asked = request(task, attempt, state.tools)
    source = _ask(writer, asked, archive.draw_seed(seed, now, 10 + n))
    if not source:
      continue
    written += 1
    if rules.tryout and try_out(source, task, bench).value < 1:
      refused += 1
    else:
      tools.append(Tool(source, task.of, now))
  if rules.merge:
    for of in world.STEPS:
      tools = _generalised(tools, of, bench, writer, now, seed)
  tools = retire(tools, now, rules)
  return state._replace(tools=tuple(tools), written=written, refused=refused)


def _ask(writer: Service, asked: Sequence[Message], seed: int) -> str:
  try:
    return writer(asked, seed=seed)
  except ServiceFault:
    return ''


def request(
  task: Task, attempt: Attempt, tools: Sequence[Tool]
) -> list[Message]:
  """Asks for a tool of a right attempt."""
  steps = [
    {'source': tools[x.tool].source, 'k': x.k}
    if isinstance(x, Used)
    else x._asdict()
    for x in attempt.steps
  ]
  line = {'of': task.of, **task.shown._asdict(), 'steps': steps}
  text = json.dumps(line)
  return [Message('system', scripted.WRITE), Message('user', text)]


def try_out(source: str, task: Task, bench: Bench) -> Verdict:
  """Returns the share of held-back pairs that a tool has right, with its best
  argument.
  """
  ran = bench.run(source, task.of)
  if ran.fault:
    return Verdict(0.0, 1, f'refused: {ran.fault}')
  right = max(
    sum(made[world.key(x.input)] == x.output for x in task.held)
    for made in ran.table.made
  )
  return Verdict(right / len(task.held), 1, f'{right} of {len(task.held)}')


def covers(a: Table, b: Table) -> bool:
  """Returns whether a does all that b does, perhaps by another argument."""
  return bool(b.made) and all(x in a.made for x in b.made)


def merged(tools: Sequence[Tool], bench: Bench) -> list[Tool]:
  """Leaves out tools whose work another does; of equals the first stays."""
  kept: list[Tool | None] = [*tools]
  work = [bench.run(x.source, x.of).table for x in tools]
  for i in reversed(range(len(tools))):
    x = kept[i]
    for j, other in enumerate(kept):
      if x is None or other is None or i == j or other.of != x.of:
        continue
      if covers(work[j], work[i]):
        kept[j] = other._replace(
          last=max(other.last, x.last),
          right=other.right + x.right,
          wrong=other.wrong + x.wrong,
        )
        kept[i] = None
        break
  return [x for x in kept if x is not None]


def _generalised(
  tools: list[Tool],
  of: str,
  bench: Bench,
  writer: Service,
  now: int,
  seed: int,
) -> list[Tool]:
  """Merges, and asks for more general tools until none comes of it."""
  while True:
    tools = merged(tools, bench)
    some = [x for x in tools if x.of == of]
    if len(some) < 2:
      return tools
    lines = [json.dumps({'of': of, 'source': x.source}) for x in some]
    asked = [
      Message('system', scripted.MERGE),
      Message('user', '\n'.join(lines)),
    ]
    draw = archive.draw_seed(seed, now, 1000 + len(some))
    source = _ask(writer, asked, draw)
    new = Tool(source, of, now)
    if not source or len(merged([*tools, new], bench)) >= len(tools):
      return tools
    # Whatever it replaces by now has done its work.
    tools = [*tools, new]


def retire(tools: Sequence[Tool], now: int, rules: Rules) -> list[Tool]:
  """Leaves out what was wrong or unused, and the oldest beyond the room."""
  kept = [
    x for x in tools if x.wrong <= x.right and now - x.last < rules.patience
  ]
  recent = sorted(range(len(kept)), key=lambda i: (-kept[i].last, i))
  return [kept[i] for i in sorted(recent[: rules.room])]
