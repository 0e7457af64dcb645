"""Attribution study: who finds the sentence that made an agent act.

Protocol; seeds below FIRST_SEED chose sizes and claims, others were measured.
Policies of two layers are trained to act in conversations (conversations.py)
and then frozen. In each of the worlds, conversations are kept in which the last
action is right, so that its cause is the planted one. A method hits if the
sentence that it names is a cause, and in the turn if its turn has one. A claim
holds if the 95% Student intervals over policies lie on its side of each bound.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from agentrl.lab.papers.attribution import attribute
from agentrl.lab.papers.attribution import conversations as lib
from agentrl.stats import intervals

FIRST_SEED, POLICIES, CONVERSATIONS = 1000, 5, 500
TRAINING = lib.Training()
LEVELS = ('turn', 'sentence')
METHODS = (*attribute.LIKELIHOOD, attribute.ROLLOUT)


class Bound(NamedTuple):
  """A method hits in more sentences of a world than another: margin > 0."""

  world: str
  method: str
  other: str
  margin: float = 0.0


CLAIMS: Mapping[str, tuple[Bound, ...]] = {
  'Likelihood dynamics and drops find a cause that is stated once better than'
  ' recency and chance': (
    Bound('once', 'two stages', 'last turn', 0.5),
    Bound('once', 'two stages', 'random', 0.5),
  ),
  'They find it better than attention rollout': (
    Bound('once', 'two stages', attribute.ROLLOUT),
  ),
  'Where two sentences say the same, leaving one out finds neither as well': (
    Bound('twice', 'two stages', 'leave one out'),
  ),
  'Where a statement is withdrawn and made again, leaving one out finds it'
  ' better': (Bound('restored', 'leave one out', 'two stages'),),
  'Where the last turn has the cause, drops tell which of its sentences': (
    Bound('last', 'two stages', 'last turn'),
  ),
}


def hits(params, x: lib.Conversations) -> dict[str, dict[str, float]]:
  """Measures every method on conversations: {method: level: rate, 'passes'}."""
  out = {}
  for name in METHODS:
    read = attribute.Passes(attribute.reader(params, x.action[:, -1]))
    if name == attribute.ROLLOUT:
      named, passes = attribute.rollout(params, x.tokens), 1
    else:
      named = attribute.LIKELIHOOD[name](read, x.tokens)
      passes = read.count
    turn = named.sum(axis=2) * x.cause.any(axis=2)
    out[name] = {
      'turn': float(turn.sum(axis=1).mean()),
      'sentence': float((named * x.cause).sum(axis=(1, 2)).mean()),
      'passes': passes,
    }
  return out


def acts_right(params, x: lib.Conversations) -> np.ndarray:
  """Says of which conversations the policy's likeliest action is right: [n]."""
  every = [
    attribute.reader(params, np.full(len(x.tokens), a))(
      x.tokens, np.full(len(x.tokens), lib.T)
    )
    for a in range(lib.VALUES + 1)
  ]
  return np.argmax(every, axis=0) == x.action[:, -1]


def measure(
  policies: int = POLICIES,
  conversations: int = CONVERSATIONS,
  training: lib.Training = TRAINING,
) -> dict[str, Any]:
  """Trains the policies and measures all methods in all worlds.

  Returns: {'policies', 'conversations', 'right': {world: [P]}, 'cells':
    {world: {method: {level: [P], 'passes': rows read per conversation}}}}
  """
  cells: dict[str, Any] = {
    world: {m: {level: [] for level in LEVELS} for m in METHODS}
    for world in lib.WORLDS
  }
  right: dict[str, list[float]] = {world: [] for world in lib.WORLDS}
  for seed in range(FIRST_SEED, FIRST_SEED + policies):
    params, accuracy = lib.train(seed, training)
    logging.info('policy %d acts right at %.3f of goals', seed, accuracy)
    for i, world in enumerate(lib.WORLDS):
      rng = np.random.default_rng([seed, 1, i])
      x = lib.of_world(world, conversations, rng)
      keep = acts_right(params, x)
      right[world].append(round(float(keep.mean()), 4))
      x = lib.Conversations(*(column[keep] for column in x))
      for name, found in hits(params, x).items():
        cell = cells[world][name]
        cell['passes'] = found['passes']
        for level in LEVELS:
          cell[level].append(round(found[level], 4))
  sizes = {'policies': policies, 'conversations': conversations}
  return {**sizes, 'right': right, 'cells': cells}


def holds(report: Mapping[str, Any], claim: str) -> bool:
  """Says whether each interval of the claim lies above its margin."""

  def above(x: Bound) -> bool:
    a, b = (
      np.array(report['cells'][x.world][m]['sentence'])
      for m in (x.method, x.other)
    )
    return intervals.mean_interval((a - b).tolist())[0] > x.margin

  return all(above(x) for x in CLAIMS[claim])


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, then hit@1 by world, and rows read."""
  lines = ['| claim | found |', '|---|---|']
  for claim in CLAIMS:
    lines.append(f'| {claim} | {"yes" if holds(report, claim) else "no"} |')
  cells = report['cells']
  for level in LEVELS:
    lines += [
      '',
      f'| hit@1 of the {level} | passes | {" | ".join(cells)} |',
      f'|---|---|{"---|" * len(cells)}',
    ]
    for name in METHODS:
      rates = [_rate(cells[world][name][level]) for world in cells]
      passes = next(iter(cells.values()))[name]['passes']
      lines.append(f'| {name} | {passes} | {" | ".join(rates)} |')
  right = ' | '.join(_rate(x) for x in report['right'].values())
  return '\n'.join([*lines, f'| actions that are right | | {right} |'])


def _rate(x: list[float]) -> str:
  low, high = intervals.mean_interval(x)
  return f'{np.mean(x):.2f} [{low:.2f}, {high:.2f}]'
