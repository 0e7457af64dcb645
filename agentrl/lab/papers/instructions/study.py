"""Instruction study: what a population of instructions finds, and keeps.

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured.
An instruction is LENGTH words of WORDS; an attempt with it succeeds with
probability BASE plus the weights of its different words. Two words are planted
and help, two do harm, the first instruction has none of them. A scripted
service proposes: one word of the best instruction (or of any) is exchanged. In
the world `drift` the policy changes halfway, so that other words help; in
`nothing` none does. A claim holds if the 95% Student interval of the paired
difference over seeds lies above 0.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.lab import archive, population
from agentrl.lab.archive import Archive
from agentrl.lab.population import Rules
from agentrl.stats import intervals, paired
from agentrl.text.message import Message

FIRST_SEED, SEEDS, BUDGET = 1000, 64, 2000
WORDS = tuple(f'w{i}' for i in range(24))
LENGTH, BASE = 4, 0.2
WEIGHTS = (0.35, 0.25, -0.1, -0.1)  # of planted words; the others weigh nothing
FIRST = ' '.join(WORDS[-LENGTH:])  # never planted
GREEDY = 0.7  # probability that the best instruction is changed
WORLDS = ('steady', 'drift', 'nothing')
MEASURES = ('final', 'mean')

FORGETTING, REMEMBERING = 'population', 'population, slow mean'
UPPER, RANDOM = 'population, upper bound', 'random search'
STATIC, PLANTED = 'first one', 'best fixed one'  # which was the best at first
ARMS: Mapping[str, Rules] = {
  FORGETTING: Rules(),
  REMEMBERING: Rules(smoothing=0.99),
  UPPER: Rules(bonus=0.2),
  RANDOM: Rules(),
}
NAMES = (*ARMS, STATIC, PLANTED)


class Bound(NamedTuple):
  """Arm `a` is above `b` in a measure of a world."""

  world: str
  measure: str
  a: str
  b: str


CLAIMS: Mapping[str, tuple[Bound, ...]] = {
  'A population finds a better instruction than the first one': (
    Bound('steady', 'final', FORGETTING, STATIC),
  ),
  'It finds a better one than random search under the same budget': (
    Bound('steady', 'final', FORGETTING, RANDOM),
  ),
  'Its attempts on the way succeed more often than in random search': (
    Bound('steady', 'mean', FORGETTING, RANDOM),
  ),
  'After a change of the policy it has a better one than random search': (
    Bound('drift', 'final', FORGETTING, RANDOM),
  ),
  'After a change, means that forget have a better one than slow means': (
    Bound('drift', 'final', FORGETTING, REMEMBERING),
  ),
  'After a change it has a better one than the best that was there before': (
    Bound('drift', 'final', FORGETTING, PLANTED),
  ),
  'Over the whole time its attempts succeed more often than with the best that'
  ' was there before': (Bound('drift', 'mean', FORGETTING, PLANTED),),
  'Without a change, slow means are not worse: forgetting costs something': (
    Bound('steady', 'final', REMEMBERING, FORGETTING),
  ),
  'Drawing by an upper bound succeeds more often on the way than softmax': (
    Bound('steady', 'mean', UPPER, FORGETTING),
  ),
}


class World:
  """A scripted policy, whose success depends on the instruction's words."""

  def __init__(self, kind: str, budget: int, seed: int):
    rng = np.random.default_rng([seed, 9])
    planted = rng.permutation(len(WORDS) - LENGTH)[: 2 * len(WEIGHTS)]
    self._weights = np.zeros((2, len(WORDS)))  # before and after a change
    self.planted = ' '.join(WORDS[i] for i in planted[:2])
    if kind != 'nothing':
      half = len(WEIGHTS)
      self._weights[0, planted[:half]] = WEIGHTS
      after = planted[half:] if kind == 'drift' else planted[:half]
      self._weights[1, after] = WEIGHTS
    self._half = budget / 2
    self.attempts, self.total = 0, 0.0  # expected successes

  def success(self, text: str) -> float:
    """Returns the probability with which an attempt would succeed now."""
    now = self._weights[int(self.attempts >= self._half)]
    some = sorted({WORDS.index(word) for word in text.split()})
    return float(BASE + now[some].sum())

  def __call__(self, text: str, attempts: int, seed: int) -> list[float]:
    p = self.success(text)
    self.attempts += attempts
    self.total += attempts * p
    wins = np.random.default_rng(seed).random(attempts) < p
    return wins.astype(float).tolist()


def exchange(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes, as a service: exchanges a word of an instruction it reads."""
  rng = np.random.default_rng(seed)
  known = population.read(messages)
  best = rng.random() < GREEDY
  base = known[-1] if best else known[int(rng.integers(len(known)))]
  words = base.text.split()
  words[int(rng.integers(LENGTH))] = WORDS[int(rng.integers(len(WORDS)))]
  return ' '.join(words)


def rewrite(messages: Sequence[Message], *, seed: int) -> str:
  """Proposes, as a service: any words, whatever it reads."""
  del messages
  rng = np.random.default_rng(seed)
  return ' '.join(WORDS[int(i)] for i in rng.integers(len(WORDS), size=LENGTH))


def run(arm: str, kind: str, budget: int, seed: int) -> dict[str, float]:
  """Searches once.

  Returns: 'final', the true success of what is best at the end; 'mean', the
    expected success of an attempt on the way
  """
  world = World(kind, budget, seed)
  if arm in (STATIC, PLANTED):
    text = FIRST if arm == STATIC else world.planted
    before = world.success(text)
    world.attempts = budget
    after = world.success(text)
    return {'final': after, 'mean': (before + after) / 2}
  if arm == RANDOM:
    found = _search_at_random(world, ARMS[arm], budget, seed)
    text, spent = archive.best(found).text, found.spent
  else:
    state = population.search(
      FIRST, world, exchange, ARMS[arm], budget=budget, seed=seed
    )
    text, spent = population.best(state).text, state.spent
  world.attempts = budget  # a slow proposal may have been out of reach
  return {'final': world.success(text), 'mean': world.total / spent}


def _search_at_random(
  world: World, rules: Rules, budget: int, seed: int
) -> Archive:
  """Attempts new words each time, `verify` times; nothing is improved."""

  def evaluate(text: str, seed: int) -> archive.Verdict:
    rewards = world(text, rules.verify, seed)
    return archive.Verdict(float(np.mean(rewards)), rules.verify)

  return archive.search(
    (FIRST,),
    evaluate,
    rewrite,
    lambda found: (),  # of what it found it reads nothing
    budget=budget,
    most=rules.verify,
    seed=seed,
  )


def measure(seeds: int = SEEDS, budget: int = BUDGET) -> dict[str, Any]:
  """Runs every arm in every world.

  Returns: {'seeds', 'budget', 'cells': {world: {arm: {measure: [S]}}}}
  """
  cells: dict[str, Any] = {}
  for kind in WORLDS:
    cells[kind] = {}
    for arm in NAMES:
      each = [
        run(arm, kind, budget, s) for s in range(FIRST_SEED, FIRST_SEED + seeds)
      ]
      cells[kind][arm] = {m: [round(x[m], 4) for x in each] for m in MEASURES}
  return {'seeds': seeds, 'budget': budget, 'cells': cells}


def holds(report: Mapping[str, Any], claim: str) -> bool:
  """Says whether every interval of the claim lies above 0."""
  return all(gap(report, x).low > 0 for x in CLAIMS[claim])


def gap(report: Mapping[str, Any], x: Bound) -> paired.Paired:
  """Compares two arms over seeds."""
  cell = report['cells'][x.world]
  return paired.compare(cell[x.a][x.measure], cell[x.b][x.measure])


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims with their differences, then success by world."""
  lines = ['| claim | found | difference |', '|---|---|---|']
  for claim, bounds in CLAIMS.items():
    told = '; '.join(
      f'{x.mean:+.3f} [{x.low:+.3f}, {x.high:+.3f}]'
      for x in (gap(report, b) for b in bounds)
    )
    found = 'yes' if holds(report, claim) else 'no'
    lines.append(f'| {claim} | {found} | {told} |')
  for name in MEASURES:
    lines += [
      '',
      f'| {name} success | {" | ".join(WORLDS)} |',
      f'|---|{"---|" * len(WORLDS)}',
    ]
    for arm in NAMES:
      cells = []
      for kind in WORLDS:
        x = report['cells'][kind][arm][name]
        low, high = intervals.mean_interval(x)
        cells.append(f'{np.mean(x):.3f} [{low:.3f}, {high:.3f}]')
      lines.append(f'| {arm} | {" | ".join(cells)} |')
  return '\n'.join(lines)
