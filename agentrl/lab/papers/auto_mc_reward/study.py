"""Reward program study: do programs refined from failures ease exploration?

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured. A
grid is drawn, in which a key and then a door must be found within 40 turns. In
a round a designer proposes a reward program, the sandbox runs it, and a learner
begins anew with it for EPISODES; its exact success is the program's value. A
search has the episodes of ROUNDS rounds; a program that is refused costs one
episode. Arms without a designer learn once, for all episodes together. A claim
holds if the 95% Student interval of the paired difference over seeds lies above
0. `final` is the success of a learner of another seed, with the best program;
`rounds` the mean over rounds of the best success so far.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from agentrl.lab import archive
from agentrl.lab.archive import Archive, Verdict
from agentrl.lab.papers.auto_mc_reward import programs
from agentrl.lab.papers.auto_mc_reward import world as grid
from agentrl.lab.papers.auto_mc_reward.world import World
from agentrl.lab.study import bounds
from agentrl.lab.study.bounds import Bound
from agentrl.service.base import Service
from agentrl.tool.sandbox.sandbox import Sandbox

FIRST_SEED, SEEDS, ROUNDS, EPISODES = 1000, 16, 8, 60
MEASURES = ('final', 'rounds')
REFINED, GUESSED = 'refined', 'guessed'
DESIGNERS: Mapping[str, Service] = {
  REFINED: programs.refine,
  GUESSED: programs.guess,
}
SPARSE, FIXED, HAND = 'sparse', 'fixed dense', 'written by hand'
PROGRAMS: Mapping[str, str] = {  # of arms without a designer
  SPARSE: programs.SPARSE,
  FIXED: programs.write({'door nearer without the key': 0.1}),
  HAND: programs.write({'key nearer': 0.1, 'door nearer': 0.1}),
}
NAMES = (*DESIGNERS, *PROGRAMS)


CLAIMS: Mapping[str, Bound] = {
  'Refined programs make the door easier to find than the sparse reward': Bound(
    'final', REFINED, SPARSE
  ),
  'They do more than a fixed dense reward': Bound('final', REFINED, FIXED),
  'They do more than guessed programs under the same budget': Bound(
    'final', REFINED, GUESSED
  ),
  'Over the rounds they do too': Bound('rounds', REFINED, GUESSED),
  'They do more than a program written by hand': Bound('final', REFINED, HAND),
}


def evaluator(world: World, sandbox: Sandbox, episodes: int):
  """Returns what a program is worth, and what is seen of its attempts."""

  def evaluate(program: str, seed: int) -> Verdict:
    ran = programs.run(sandbox, program, world)
    if ran.reward is None:
      return Verdict(0.0, 1, f'refused: {ran.fault}')
    policy, seen = grid.learn(world, ran.reward, episodes, seed)
    said = ', '.join(f'{k} {v:.2f}' for k, v in seen._asdict().items())
    return Verdict(grid.success(world, policy), episodes, said)

  return evaluate


def design(
  designer: Service,
  world: World,
  sandbox: Sandbox,
  seed: int,
  rounds: int = ROUNDS,
  **fields: Any,
) -> Archive:
  """Searches for a reward program, from the sparse one on.

  Args:
    fields: of `archive.search`: `path`, and the `name` that goes with it
  """
  return archive.search(
    [programs.SPARSE],
    evaluator(world, sandbox, EPISODES),
    designer,
    budget=rounds * EPISODES,
    most=EPISODES,
    seed=seed,
    **fields,
  )


def by_round(found: Archive, rounds: int = ROUNDS) -> list[float]:
  """Returns the best success by the end of each round, which may be early."""
  out, best, spent = [0.0] * rounds, 0.0, 0
  for x in found.entries:
    best, spent = max(best, x.value), spent + x.cost
    for r in range(min((spent - 1) // EPISODES, rounds - 1), rounds):
      out[r] = best
  return out


def run(arm: str, sandbox: Sandbox, seed: int) -> dict[str, Any]:
  """Runs an arm: measures, 'each' round's success, programs 'refused'."""
  world = World(seed)
  again = evaluator(world, sandbox, EPISODES)
  if arm in PROGRAMS:
    whole = evaluator(world, sandbox, ROUNDS * EPISODES)
    value = whole(PROGRAMS[arm], archive.draw_seed(seed, ROUNDS, 0)).value
    return {'final': value, 'rounds': value, 'each': [], 'refused': 0}
  found = design(DESIGNERS[arm], world, sandbox, seed)
  text, each = archive.best(found).text, by_round(found)
  return {
    'final': again(text, archive.draw_seed(seed, ROUNDS, 0)).value,
    'rounds': float(np.mean(each)),
    'each': each,
    'refused': sum(x.said.startswith('refused') for x in found.entries),
  }


def measure(seeds: int = SEEDS) -> dict[str, Any]:
  """Runs every arm in every world.

  Returns: {'seeds', 'cells': {arm: {'final': [S], 'rounds': [S], 'each':
    [S][rounds], 'refused': [S]}}}
  """
  sandbox = Sandbox(programs.LIMITS)
  cells: dict[str, Any] = {}
  for arm in NAMES:
    each = [run(arm, sandbox, FIRST_SEED + i) for i in range(seeds)]
    cells[arm] = bounds.rounded(each)
  return {'seeds': seeds, 'cells': cells}


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, measures and success by round."""
  cells = report['cells']
  rows = {
    arm: [
      bounds.mean(cells[arm]['final']),
      f'{np.mean(cells[arm]["refused"]):.1f}',
    ]
    for arm in NAMES
  }
  rounds = [str(r + 1) for r in range(ROUNDS)]
  lines = bounds.claims(report, CLAIMS)
  lines += bounds.table(('success', 'final', 'refused'), rows)
  lines += bounds.by_index(report, [*DESIGNERS], ('best by round', *rounds))
  return '\n'.join(lines)
