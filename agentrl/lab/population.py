"""Population of texts that improve without training, under one budget.

Texts are instructions, settings or programs; nothing is learned but which of
them to keep. With m_i the running mean reward of candidate i and n_i its
groups, an attempt group draws

    i ~ softmax(m / T),   or with a bonus c   argmax m_i + c √(ln Σn / n_i)

    m_i <- s m_i + (1 − s) mean reward of the group

Every so many groups a service proposes a text from what is there. It is
attempted `verify` times, and joins if its mean is above the population's
median; then the lowest leaves, but never the first one, if there are too many
("Agentic Policy Optimization via Instruction-Policy Co-Evolution", whose
constants are not published; these are ours). Proposals spend the budget too.

The state is written after every step, and random numbers come from (seed,
groups), so a search that is cut off ends as if it had not been. Texts that are
attempted once and all kept are an `archive`.
"""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from agentrl.lab import archive
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message

# (text, attempts, seed) -> the reward of each attempt
Score = Callable[[str, int, int], Sequence[float]]
REQUEST = (
  'Each line has a text, its mean reward and how often it was tried. Answer'
  ' with one new text that should be rewarded more, and nothing else.'
)


class Rules(NamedTuple):
  """How candidates are drawn, kept and replaced."""

  size: int = 8  # candidates at most
  group: int = 4  # attempts of a draw
  every: int = 4  # groups from one proposal to the next
  verify: int = 16  # attempts at a proposal
  smoothing: float = 0.9  # s
  temperature: float = 0.05  # T, of rewards
  bonus: float = 0.0  # c; 0: softmax


class Candidate(NamedTuple):
  """A text and what it was rewarded."""

  text: str
  mean: float  # m
  tried: int  # n, groups


class State(NamedTuple):
  """A search between two groups."""

  candidates: tuple[Candidate, ...]  # the first stays
  groups: int = 0
  spent: int = 0  # attempts
  proposed: int = 0
  faults: int = 0  # proposals that the service failed to make
  asked: int = 0  # groups before the last proposal


def check(rules: Rules) -> None:
  """Raises ValueError unless the rules can be followed."""
  for name, value in list(rules._asdict().items())[:4]:
    if value < 1:
      raise ValueError(f'{name} must be >= 1, got {value}')
  if not 0 <= rules.smoothing < 1:
    raise ValueError(f'smoothing must be in [0, 1), got {rules.smoothing}')
  if not rules.temperature > 0 or rules.bonus < 0:
    raise ValueError(
      'temperature must be > 0 and bonus >= 0, got'
      f' {rules.temperature} and {rules.bonus}'
    )


def probabilities(candidates: Sequence[Candidate], rules: Rules) -> np.ndarray:
  """Computes with which probability each candidate is drawn: [N] f64."""
  mean = np.array([x.mean for x in candidates])
  if not rules.bonus:
    p = np.exp((mean - mean.max()) / rules.temperature)
    return p / p.sum()
  n = np.array([x.tried for x in candidates], np.float64)
  log = np.log(max(n.sum(), 1))
  bound = mean + rules.bonus * np.sqrt(log / np.maximum(n, 1))
  bound[n == 0] = np.inf  # what was never tried comes first
  best = bound == bound.max()
  return best / best.sum()


def rewarded(x: Candidate, reward: float, rules: Rules) -> Candidate:
  """Moves a candidate's mean towards a group's; the first group sets it."""
  kept = rules.smoothing if x.tried else 0.0
  mean = kept * x.mean + (1 - kept) * reward
  return x._replace(mean=mean, tried=x.tried + 1)


def joined(
  candidates: Sequence[Candidate], new: Candidate, rules: Rules
) -> tuple[Candidate, ...]:
  """Returns the population with a proposal, if it is above the median.

  Where that is one too many, the lowest leaves, but never the first.
  """
  if new.mean <= np.median([x.mean for x in candidates]):
    return tuple(candidates)
  first, *others = (*candidates, new)
  if len(others) + 1 > rules.size:
    others.remove(min(others, key=lambda x: x.mean))
  return (first, *others)


def best(state: State) -> Candidate:
  """Returns the candidate of the highest mean; of equals the oldest."""
  return max(state.candidates, key=lambda x: x.mean)


def messages(candidates: Sequence[Candidate]) -> list[Message]:
  """Returns what the proposer reads: the lowest first, the best last."""
  lines = [
    json.dumps({'text': x.text, 'mean': round(x.mean, 4), 'groups': x.tried})
    for x in sorted(candidates, key=lambda x: x.mean)
  ]
  return [Message('system', REQUEST), Message('user', '\n'.join(lines))]


def read(asked: Sequence[Message]) -> list[Candidate]:
  """Reads the candidates of a request: what scripted proposers begin with."""
  lines = [json.loads(line) for line in asked[-1].content.splitlines()]
  return [Candidate(x['text'], x['mean'], x['groups']) for x in lines]


def search(
  first: str,
  score: Score,
  propose: Service,
  rules: Rules,
  *,
  budget: int,
  seed: int,
  path: str | os.PathLike[str] | None = None,
  name: str = '',
) -> State:
  """Improves the first text until the next step would exceed the budget.

  A step is a group of attempts, or a proposal with the attempts at it.

  Args:
    budget: attempts, those at proposals included
    path: file of the state; a search that it holds goes on
    name: what tells the search from others of this text and this seed, of
      another proposer or score: study and arm; needed with `path`

  Raises:
    ValueError: the rules cannot be followed, or the file is damaged or of
      another search.
  """
  check(rules)
  head = {'name': name, 'first': first, 'rules': rules._asdict(), 'seed': seed}
  begun = archive.loaded(path, head, _of_json)
  state = begun or State((Candidate(first, 0.0, 0),))
  while True:
    due = state.groups % rules.every == 0 and state.asked < state.groups
    if state.spent + (rules.verify if due else rules.group) > budget:
      return state
    if due:
      state = _propose(state, score, propose, rules, seed)
    else:
      state = _group(state, score, rules, seed)
    if path:
      archive.saved(path, head, state)


def _of_json(held: list[Any]) -> State:
  some = [archive.restored(Candidate, x, (str, float, int)) for x in held[0]]
  state = archive.restored(State, held, (list, *[int] * 5))
  if not some:
    raise ValueError('a population has 1 candidate or more')
  return state._replace(candidates=tuple(some))


def _group(state: State, score: Score, rules: Rules, seed: int) -> State:
  rng = np.random.default_rng([seed, state.groups])
  i = int(
    rng.choice(len(state.candidates), p=probabilities(state.candidates, rules))
  )
  x = state.candidates[i]
  rewards = score(x.text, rules.group, archive.draw_seed(seed, state.groups, 0))
  new = rewarded(x, float(np.mean(rewards)), rules)
  return state._replace(
    candidates=(*state.candidates[:i], new, *state.candidates[i + 1 :]),
    groups=state.groups + 1,
    spent=state.spent + rules.group,
  )


def _propose(
  state: State, score: Score, propose: Service, rules: Rules, seed: int
) -> State:
  """Asks for a text and tries it; what is there already costs nothing."""
  state = state._replace(asked=state.groups)
  asked = messages(state.candidates)
  try:
    text = propose(asked, seed=archive.draw_seed(seed, state.groups, 1))
  except ServiceFault as fault:
    logging.warning('no proposal after %d groups: %s', state.groups, fault)
    return state._replace(faults=state.faults + 1)
  if text in {x.text for x in state.candidates}:
    return state._replace(proposed=state.proposed + 1)
  new = _tried(text, score, rules, archive.draw_seed(seed, state.groups, 2))
  return state._replace(
    candidates=joined(state.candidates, new, rules),
    spent=state.spent + rules.verify,
    proposed=state.proposed + 1,
  )


def _tried(text: str, score: Score, rules: Rules, seed: int) -> Candidate:
  return Candidate(text, float(np.mean(score(text, rules.verify, seed))), 1)
