"""Scripted societies that live by the rules of the world `norms`.

An agent has three traits: what it takes, the norm it believes in and proposes,
and how often it fines one whom it hears to have taken more than the norm. After
each round

  imitate   with chance LOOK it looks at j, the seat that the world shows it,
            and copies its traits with chance
            1 / (1 + exp(-BETA (own_j - own_i)))
  learn     where it was fined it takes no more than the norm; without a vote,
            which tells the norm, one less than before
  err       with chance ERR each, what it takes or proposes changes by one, and
            how often it fines to anything from 0 to 1

Without a vote it fines by the norm that it believes in itself. What is taken,
fined, voted, owned, and whom a seat hears of: agentrl/env/worlds/norms.py.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl.env.worlds import norms
from agentrl.env.worlds.norms import Norms, State

LOOK, BETA, ERR = 0.1, 0.3, 0.01


class Traits(NamedTuple):
  """What an agent is like."""

  take: int  # that it asks for
  norm: int  # that it believes in
  fine: float  # how often it fines who broke the norm, a probability


class Life(NamedTuple):
  """What came of a society, round by round."""

  lasted: int  # rounds before the pool collapsed
  owned: tuple[int, ...]  # [S] in the end
  took: tuple[tuple[int, ...], ...]  # [rounds][S]
  asked: tuple[tuple[int, ...], ...]  # the same, also of what there was not
  kept: int  # takes that kept a norm which was voted


def start(
  rules: Norms, altruists: float, luck: np.random.Generator
) -> list[Traits]:
  """Draws agents: altruists with that chance, else selfish ones.

  Altruists take 1 or 2, believe in 1 or 2 and mostly fine; selfish ones take
  nearly all they can, believe in any norm and seldom fine.
  """
  out = []
  for _ in range(rules.players):
    if luck.random() < altruists:
      take, norm = luck.integers(1, 3, 2)
      fine = 0.8
    else:
      take, norm = (
        rules.most - luck.integers(2),
        luck.integers(1, rules.most + 1),
      )
      fine = 0.2
    out.append(Traits(int(take), int(norm), fine))
  return out


def live(
  rules: Norms,
  task: Mapping[str, Any],
  agents: Sequence[Traits],
  luck: np.random.Generator,
) -> Life:
  """Lives until the pool collapses or the rounds are over.

  As much luck is drawn in every round whatever happens in it, so that societies
  of one seed differ by their rules alone.
  """
  now, state, kept = list(agents), norms.begin(rules, task), 0
  took, asked = list[tuple[int, ...]](), list[tuple[int, ...]]()
  while True:
    u = luck.random((8, rules.players))
    asked.append(tuple(x.take for x in now))
    state = norms.harvest(task, state, asked[-1])
    took.append(state.took)
    if rules.vote and state.round:
      kept += sum(x <= state.norm for x in state.took)
    if not state.pool:
      break
    fines = fined_by(rules, task, state, now, u[0])
    state = norms.judge(rules, state, fines, [x.norm for x in now])
    if state.round + 1 == rules.rounds:
      break
    state = norms.regrow(task, state)
    now = imitate(rules, task, state, now, u[1:3])
    now = [learn(rules, state, x, i) for i, x in enumerate(now)]
    now = [err(rules, x, u[3:, i]) for i, x in enumerate(now)]
  lasted = state.round + bool(state.pool)
  return Life(lasted, state.own, tuple(took), tuple(asked), kept)


def fined_by(
  rules: Norms,
  task: Mapping[str, Any],
  state: State,
  agents: Sequence[Traits],
  u: np.ndarray,
) -> list[int | None]:
  """Returns the seat that each agent fines, or None; u is [S], uniform."""
  out: list[int | None] = []
  for i, x in enumerate(agents):
    other = norms.heard_of(task, 'watched', state.round, i, len(agents))
    broke = state.took[other] > (state.norm if rules.vote else x.norm)
    out.append(other if rules.punish and broke and u[i] < x.fine else None)
  return out


def imitate(
  rules: Norms,
  task: Mapping[str, Any],
  state: State,
  agents: Sequence[Traits],
  u: np.ndarray,
) -> list[Traits]:
  """Copies who owns more, mostly; u is [2, S], uniform."""
  if not rules.social:
    return list(agents)
  out = []
  for i, x in enumerate(agents):
    j = norms.heard_of(task, 'model', state.round, i, len(agents))
    more = state.own[j] - state.own[i]
    copies = u[0, i] < LOOK and u[1, i] < 1 / (1 + np.exp(-BETA * more))
    out.append(agents[j] if copies else x)
  return out


def learn(rules: Norms, state: State, agent: Traits, seat: int) -> Traits:
  """Takes less where it was fined."""
  if not state.fined[seat]:
    return agent
  less = state.norm if rules.vote else state.took[seat] - 1
  return agent._replace(take=max(0, min(agent.take, less)))


def err(rules: Norms, agent: Traits, u: np.ndarray) -> Traits:
  """Changes traits now and then; u is [5], uniform."""

  def moved(x: int, chance: float, side: float) -> int:
    if chance >= ERR:
      return x
    return min(max(x + (1 if side < 0.5 else -1), 0), rules.most)

  return Traits(
    moved(agent.take, u[0], u[1]),
    moved(agent.norm, u[2], u[3]),
    float(u[4] / ERR) if u[4] < ERR else agent.fine,
  )
