"""CUDA graphs of a compiled program, from the text of its thunks.

A graph (command buffer) is launched as one; what is outside of one is launched
by the host, kernel by kernel. The text comes of XLA's dump, after code has been
generated: `*.thunk_sequence_after_thunk_passes.txt`.
"""

import dataclasses
import re
from collections.abc import Iterator

_THUNK = re.compile(r'^(?P<indent> *)\d+: k(?P<kind>\w+)')


@dataclasses.dataclass
class Thunk:
  """A line of the text, with the lines below it."""

  kind: str
  indent: int
  branch: int = 0  # of the conditional that it is below
  parts: list['Thunk'] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Graphs:
  """Launches of the program outside of loops, or of a trip of one."""

  graphs: int = 0
  captured: int = 0  # kernels in them, by the longest branches
  alone: int = 0  # kernels outside

  def __add__(self, other: 'Graphs') -> 'Graphs':
    return Graphs(
      self.graphs + other.graphs,
      self.captured + other.captured,
      self.alone + other.alone,
    )


def of(text: str) -> list[Graphs]:
  """Lists graphs of the program, then of a trip of each loop, in order."""
  root = _tree(text)
  return [_count(x.parts, False) for x in (root, *_loops(root))]


def _tree(text: str) -> Thunk:
  """Returns the lines as a tree, by their indents."""
  root = Thunk('Program', -1)
  stack, branch = [root], 0
  for line in text.splitlines():
    if match := _THUNK.match(line):
      thunk = Thunk(match['kind'], len(match['indent']), branch)
      while stack[-1].indent >= thunk.indent:
        stack.pop()
      stack[-1].parts.append(thunk)
      stack.append(thunk)
    elif re.match(r' *(branch_\d+|true_branch|false_branch):', line):
      branch += 1
  return root


def _loops(thunk: Thunk) -> Iterator[Thunk]:
  for x in thunk.parts:
    if x.kind == 'While':
      yield x
    yield from _loops(x)


def _count(parts: list[Thunk], captured: bool) -> Graphs:
  total = Graphs()
  for x in parts:
    if x.kind == 'CommandBuffer':
      total += Graphs(graphs=1) + _count(x.parts, True)
    elif x.kind == 'Conditional':
      ways: dict[int, list[Thunk]] = {}
      for y in x.parts:
        ways.setdefault(y.branch, []).append(y)
      each = [_count(way, captured) for way in ways.values()]
      total += max(each, key=lambda y: y.captured + y.alone, default=Graphs())
    elif x.parts and x.kind != 'While':  # a sequence
      total += _count(x.parts, captured)
    elif x.kind != 'While' and not x.kind.endswith('Done'):
      total += Graphs(captured=captured, alone=not captured)
  return total
