"""Tools: programs that are run in the sandbox, over the inputs of tasks.

A tool defines `tool(x, k)`, which returns a value. It is run once over all
inputs of a set of tasks, and over what one step makes of them, with each
argument; it sees no output. One that crashes, hangs, prints too much or does
not return values is refused, and so costs only itself; where it raises it has
no value.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from agentrl.lab.papers.tool_creation import world
from agentrl.lab.papers.tool_creation.world import Key, Task, Value
from agentrl.tool.sandbox.sandbox import Sandbox, SandboxLimits

LIMITS = SandboxLimits(seconds=4.0, output=2_000_000)
LONGEST, MOST = 200, 10**9  # characters or numbers of a value; a number
_HARNESS = """
def _main(text, ks):
  import json
  def value(x, k):
    try:
      return tool(x, k)
    except Exception:
      return None
  out = [[value(x, k) for k in ks] for x in json.loads(text)]
  print()
  print(json.dumps(out))
_main({text!r}, {ks})
"""


class Table(NamedTuple):
  """What a tool makes of inputs: an entry for each argument that matters.

  One entry says that all do the same; none, that the tool has no work.
  """

  made: tuple[dict[Key, Value | None], ...] = ()


class Ran(NamedTuple):
  """What a tool makes of every input, or why it is refused."""

  table: Table
  fault: str


class Bench:
  """Runs tools over a set of tasks, and each tool once."""

  def __init__(self, sandbox: Sandbox, tasks: Sequence[Task]):
    self._sandbox = sandbox
    self.inputs = {of: _inputs(of, tasks) for of in world.STEPS}
    self._ran: dict[tuple[str, str], Ran] = {}

  def run(self, source: str, of: str) -> Ran:
    """Runs a tool over the inputs of a sort."""
    if (source, of) not in self._ran:
      self._ran[source, of] = run(self._sandbox, source, self.inputs[of])
    return self._ran[source, of]


def _inputs(of: str, tasks: Sequence[Task]) -> list[Value]:
  found: dict[Key, Value] = {}
  for task in tasks:
    if task.of == of:
      for pair in world.pairs(task):
        found[world.key(pair.input)] = pair.input
      for step in world.singles(of):
        for pair in (task.shown, task.asked):
          x = world.apply(of, [step], pair.input)
          if x is not None:
            found[world.key(x)] = x
  return list(found.values())


def run(sandbox: Sandbox, source: str, inputs: Sequence[Value]) -> Ran:
  """Runs a tool over inputs, with each argument."""
  code = source + _HARNESS.format(
    text=json.dumps(inputs), ks=list(world.ARGUMENTS)
  )
  text, fault = sandbox.run(code)
  lines = text.strip().splitlines() or ['']
  if fault:
    return Ran(Table(), f'{fault}: {lines[-1][:80]}')
  return _read(lines[-1], inputs)


def _read(line: str, inputs: Sequence[Value]) -> Ran:
  """Reads what a tool printed, which may be anything."""
  try:
    said: Any = json.loads(line)
  except (ValueError, RecursionError):
    said = None
  ks = world.ARGUMENTS
  if not isinstance(said, list) or len(said) != len(inputs):
    return Ran(Table(), 'rubbish: tool(x, k) must return a value')
  made: list[dict[Key, Value | None]] = [{} for _ in ks]
  for x, row in zip(inputs, said, strict=True):
    if not isinstance(row, list) or len(row) != len(ks):
      return Ran(Table(), 'rubbish: tool(x, k) must return a value')
    for one, y in zip(made, row, strict=True):
      if not _right(y):
        return Ran(
          Table(), f'rubbish: a value must be text or numbers, got {y!r:.40}'
        )
      one[world.key(x)] = y
  same = all(x == made[0] for x in made)
  return Ran(Table(tuple(made[:1] if same else made)), '')


def _right(y: Any) -> bool:
  """Returns whether a value is in form; None: the tool has none."""
  if isinstance(y, list):
    right = all(type(n) is int and abs(n) <= MOST for n in y)
    return right and len(y) <= LONGEST
  return y is None or (isinstance(y, str) and len(y) <= LONGEST)
