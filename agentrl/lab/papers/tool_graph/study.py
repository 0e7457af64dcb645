"""Tool graph study: which memory of calls tells a frozen policy the next one.

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured.
Of TOOLS tools, half lead on to one tool whatever is wanted, the others to one
tool for each of INTENTS. A conversation has LENGTH calls and an intent, which a
state shows with noise; RECORDED conversations are remembered, an expert's with
any call in place of the right one in 1 of 20. `steady` keeps the intent, in
`switching` it changes before a call with probability 0.4, in `blurred` states
have more noise as well, in `stateless` no tool depends on it. The policy is
scripted: alone it is right with probability ALONE, and it follows advice. A
conversation succeeds if every call is right. A claim holds if the 95% Student
interval of the paired difference over seeds lies above 0.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.lab.papers.tool_graph import graph as lib
from agentrl.lab.papers.tool_graph.graph import START, Advice, Call, Graph
from agentrl.stats import intervals, paired

FIRST_SEED, SEEDS, TESTED = 1000, 48, 100
TOOLS, INTENTS, LENGTH, RECORDED = 12, 4, 8, 60
DIMENSIONS = 8  # of a state
SLIPS, ALONE, NEAREST = 0.05, 0.5, 5
WORLDS = {  # probability of a change, and the noise of a state's coordinates
  'steady': (0.0, 0.25),
  'switching': (0.4, 0.25),
  'blurred': (0.4, 0.6),
  'stateless': (0.4, 0.25),
}
MEASURES = ('right', 'success', 'recalls')
BOTH, RECALL, STATELESS = 'routine and recall', 'recall', 'no states'
WHOLE, ALONE_ARM = 'whole conversations', 'no memory'


class Claim(NamedTuple):
  """Arm `a` has more right calls than `b`."""

  world: str
  a: str
  b: str


CLAIMS: Mapping[str, Claim] = {
  'Where intents change, a graph with states is right more often than one'
  ' without': Claim('switching', BOTH, STATELESS),
  'Where intents change, it is right more often than the next call of the most'
  ' similar conversation': Claim('switching', BOTH, WHOLE),
  'Where intents stay, it is too': Claim('steady', BOTH, WHOLE),
  'Where intents matter to no tool, it is right more often than a graph without'
  ' states': Claim('stateless', BOTH, STATELESS),
  'Routine adds to recall': Claim('switching', BOTH, RECALL),
  'Where states are blurred, it does': Claim('blurred', BOTH, RECALL),
}


class World:
  """Tools that lead on to others, and who calls them."""

  def __init__(self, kind: str, seed: int):
    self.rng = np.random.default_rng([seed, 0])
    self._switching, self._noise = WORLDS[kind]
    to = self.rng.integers(0, TOOLS, (TOOLS + 1, INTENTS))
    same = self.rng.permutation(TOOLS + 1) < TOOLS / 2
    if kind == 'stateless':
      same[:] = True
    self.next = np.where(same[:, None], to[:, :1], to)  # [TOOLS + 1, INTENTS]
    axes = np.linalg.qr(self.rng.normal(size=(DIMENSIONS, DIMENSIONS)))[0]
    self._meaning = axes[:INTENTS]

  def conversation(self, slips: float) -> tuple[list[Call], list[int]]:
    """Records a conversation.

    Args:
      slips: probability of any tool in place of the right one

    Returns: calls, and the tool that was right at each
    """
    calls: list[Call] = []
    right = []
    intent, u = int(self.rng.integers(INTENTS)), START
    for _ in range(LENGTH):
      if self.rng.random() < self._switching:
        intent = int(self.rng.integers(INTENTS))
      noise = self._noise * self.rng.normal(size=DIMENSIONS)
      right.append(int(self.next[u, intent]))
      u = right[-1]
      if self.rng.random() < slips:
        u = int(self.rng.integers(TOOLS))
      calls.append(Call(u, self._meaning[intent] + noise))
    return calls, right


Recorded = Sequence[Sequence[Call]]
Arm = Callable[[Graph, Recorded, Sequence[Call], int], Advice]


def _whole(
  graph: Graph, recorded: Recorded, calls: Sequence[Call], i: int
) -> Advice:
  """Takes call i of the conversation that began in the most similar state."""
  del graph
  first = np.array([x[0].state for x in recorded])
  near = first @ calls[0].state / np.linalg.norm(first, axis=1)
  return Advice(recorded[int(np.argmax(near))][i].tool, recalled=True)


def _before(calls: Sequence[Call], i: int) -> int:
  return calls[i - 1].tool if i else START


ARMS: Mapping[str, Arm] = {
  BOTH: lambda g, _, x, i: lib.advise(g, _before(x, i), x[i].state, k=NEAREST),
  RECALL: lambda g, _, x, i: Advice(
    lib.recall(g, _before(x, i), x[i].state, NEAREST), recalled=True
  ),
  STATELESS: lambda g, _, x, i: Advice(
    lib.routine(g, _before(x, i)), recalled=False
  ),
  WHOLE: _whole,
  ALONE_ARM: lambda *_: Advice(None, recalled=False),
}


def run(kind: str, seed: int, tested: int = TESTED) -> dict[str, dict]:
  """Measures every arm on new conversations.

  An expert makes the calls up to the one that is asked for; a conversation
  ends in failure at the first wrong one, so what comes after does not matter.

  Returns: {arm: {measure: mean}}; success is an expectation over what the
    policy chooses alone
  """
  world = World(kind, seed)
  recorded = [world.conversation(SLIPS)[0] for _ in range(RECORDED)]
  graph = lib.build(recorded, TOOLS)
  new = [world.conversation(0.0) for _ in range(tested)]
  out = {}
  for name, arm in ARMS.items():
    p, recalls = np.zeros((2, tested, LENGTH))
    for t, (calls, right) in enumerate(new):
      for i, wanted in enumerate(right):
        advice = arm(graph, recorded, calls, i)
        p[t, i] = ALONE if advice.tool is None else advice.tool == wanted
        recalls[t, i] = advice.recalled
    out[name] = {
      'right': float(p.mean()),
      'success': float(p.prod(axis=1).mean()),
      'recalls': float(recalls.mean()),
    }
  return out


def measure(seeds: int = SEEDS) -> dict[str, Any]:
  """Runs all worlds: {'seeds', 'cells': {world: {arm: {measure: [S]}}}}."""
  cells = {}
  for kind in WORLDS:
    each = [run(kind, s) for s in range(FIRST_SEED, FIRST_SEED + seeds)]
    cells[kind] = {
      arm: {m: [round(x[arm][m], 4) for x in each] for m in MEASURES}
      for arm in ARMS
    }
  return {'seeds': seeds, 'cells': cells}


def gap(report: Mapping[str, Any], x: Claim) -> paired.Paired:
  """Compares right calls of two arms over seeds."""
  cell = report['cells'][x.world]
  return paired.compare(cell[x.a]['right'], cell[x.b]['right'])


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims with differences, then each measure by world."""
  lines = ['| claim | found | difference of right calls |', '|---|---|---|']
  for claim, bound in CLAIMS.items():
    x = gap(report, bound)
    told = f'{x.mean:+.4f} [{x.low:+.4f}, {x.high:+.4f}]'
    lines.append(f'| {claim} | {"yes" if x.low > 0 else "no"} | {told} |')
  titles = {
    'right': 'right calls',
    'success': 'conversations without a wrong call',
    'recalls': 'calls for which states were read',
  }
  for name in MEASURES:
    worlds = ' | '.join(WORLDS)
    lines += [
      '',
      f'| {titles[name]} | {worlds} |',
      f'|---|{"---|" * len(WORLDS)}',
    ]
    for arm in ARMS:
      cells = []
      for kind in WORLDS:
        values = report['cells'][kind][arm][name]
        low, high = intervals.mean_interval(values)
        cells.append(f'{np.mean(values):.2f} [{low:.2f}, {high:.2f}]')
      lines.append(f'| {arm} | {" | ".join(cells)} |')
  return '\n'.join(lines)
