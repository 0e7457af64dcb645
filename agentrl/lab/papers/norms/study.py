"""Norms study: what fines, imitation and scarcity do to scripted societies.

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured. A
seed is a pool, its agents and their luck, the same in every arm. Six agents
live for ROUNDS rounds at most, in a rich or a scarce world, begun with 80%
altruists (altruistic) or 30% (selfish). A claim holds in a society if the 95%
Student interval of the paired difference over seeds lies above 0.

  lasted    rounds before the pool collapsed
  harvest   what was caught, over what the level gives in ROUNDS rounds
  owned     the same, less prices and fines
  kept      takes that kept a norm which was voted, a share of ROUNDS: none are
            after a collapse
  rise      by how much more an agent asks for in the last round than at first
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.env.worlds import norms
from agentrl.env.worlds.norms import Norms
from agentrl.lab.papers.norms import society
from agentrl.lab.study import bounds
from agentrl.lab.study.bounds import Bound

FIRST_SEED, SEEDS, PLAYERS, ROUNDS = 2000, 200, 6, 60
WORLDS: Mapping[str, dict[str, bool]] = {
  'rich': {},
  'scarce': {'scarce': True},
}
STARTS: Mapping[str, float] = {'altruistic': 0.8, 'selfish': 0.3}  # altruists
NONE, SOCIAL, PUNISH, BOTH = 'neither', 'imitation', 'fines', 'both'
UNVOTED = 'both, no vote'
ARMS: Mapping[str, dict[str, bool]] = {
  NONE: {'punish': False, 'social': False},
  SOCIAL: {'punish': False},
  PUNISH: {'social': False},
  BOTH: {},
  UNVOTED: {'vote': False},
}
MEASURES = ('lasted', 'harvest', 'owned', 'kept', 'rise')
SOCIETIES = tuple(itertools.product(WORLDS, STARTS))
# (measure, arm above, arm below), in each society.
BY_SOCIETY: Mapping[str, tuple[str, str, str]] = {
  'With fines the pool lasts longer': ('lasted', PUNISH, NONE),
  'With fines it lasts longer, where agents imitate': ('lasted', BOTH, SOCIAL),
  'Imitation without fines spreads harvesting': ('rise', SOCIAL, NONE),
  'Imitation without fines ends the pool earlier': ('lasted', NONE, SOCIAL),
  'With fines, imitation lets it last longer': ('lasted', BOTH, PUNISH),
  'With fines agents own more': ('owned', PUNISH, NONE),
  'With a vote it lasts longer': ('lasted', BOTH, UNVOTED),
  'With a vote agents own more': ('owned', BOTH, UNVOTED),
}
# (society above, society below), how long the pool lasts, in each arm.
BY_ARM: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
  'Rich lasts longer than scarce, altruistic starts': (
    ('rich', 'altruistic'),
    ('scarce', 'altruistic'),
  ),
  'Rich lasts longer than scarce, selfish starts': (
    ('rich', 'selfish'),
    ('scarce', 'selfish'),
  ),
  'Altruistic starts last longer, rich': (
    ('rich', 'altruistic'),
    ('rich', 'selfish'),
  ),
  'Altruistic starts last longer, scarce': (
    ('scarce', 'altruistic'),
    ('scarce', 'selfish'),
  ),
}


def rules(world: str, arm: str) -> Norms:
  """Returns the rules by which an arm lives."""
  return Norms(players=PLAYERS, rounds=ROUNDS, **WORLDS[world], **ARMS[arm])


def run(world: str, begun: str, arm: str, seed: int) -> dict[str, float]:
  """Lets a society live: its measures."""
  lives_by = rules(world, arm)
  # Drawn by the rules of no arm, so that all have the same pool.
  (task, *_), *_ = rules(world, BOTH).tasks('train', 1, seed)
  luck = np.random.default_rng([seed, 1])
  agents = society.start(lives_by, STARTS[begun], luck)
  life = society.live(lives_by, task, agents, luck)
  unit = norms.level(task, PLAYERS, lives_by.most) * ROUNDS
  return {
    'lasted': float(life.lasted),
    'harvest': float(np.sum(life.took)) / PLAYERS / unit,
    'owned': float(np.mean(life.owned)) / unit,
    'kept': life.kept / PLAYERS / ROUNDS,
    'rise': float(np.mean(life.asked[-1]) - np.mean(life.asked[0])),
  }


def cell(where: tuple[str, str], arm: str) -> str:
  """Names a cell of the report."""
  return ' '.join((*where, arm))


def measure(seeds: int = SEEDS) -> dict[str, Any]:
  """Runs every arm in every society.

  Returns: {'seeds', 'cells': {'world start arm': {measure: [S]}}}
  """
  cells: dict[str, Any] = {}
  for where, arm in itertools.product(SOCIETIES, ARMS):
    each = [run(*where, arm, FIRST_SEED + i) for i in range(seeds)]
    cells[cell(where, arm)] = bounds.rounded(each)
  return {'seeds': seeds, 'cells': cells}


def _verdict(report: Mapping[str, Any], bound: Bound) -> str:
  x = bounds.gap(report, bound)
  found = 'yes' if x.low > 0 else 'no'
  return f'{found}, {x.mean:+.2f} [{x.low:+.2f}, {x.high:+.2f}]'


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims by society, claims by arm, and measures."""
  by_society = {
    claim: [
      _verdict(report, Bound(name, cell(where, a), cell(where, b)))
      for where in SOCIETIES
    ]
    for claim, (name, a, b) in BY_SOCIETY.items()
  }
  by_arm = {
    claim: [
      _verdict(report, Bound('lasted', cell(a, arm), cell(b, arm)))
      for arm in ARMS
    ]
    for claim, (a, b) in BY_ARM.items()
  }
  measures = {
    name: [bounds.mean(of[x]) for x in MEASURES]
    for name, of in report['cells'].items()
  }
  lines = bounds.table(('claim', *map(' '.join, SOCIETIES)), by_society)
  lines += bounds.table(('claim', *ARMS), by_arm)
  lines += bounds.table(('society and arm', *MEASURES), measures)
  return '\n'.join(lines).strip()
