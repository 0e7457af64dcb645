"""Turn-based multi-agent environments (PettingZoo's AEC) as text.

Imports only the standard library; see gymnasium_env.
"""

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from agentrl.env.base import Step
from agentrl.env.external import keywords
from agentrl.env.external.gymnasium_env import seed_globals
from agentrl.env.seats import RefereedEnv, Ruling
from agentrl.service.base import load_function

SEATS = ('one', 'all', 'each')


@dataclasses.dataclass(frozen=True)
class AecMaker:
  """Settings that make an environment; see `base.EnvMaker`."""

  make: str
  id: str
  settings: str
  seats: str
  players: int
  show: str
  read: str
  solved: float

  columns: ClassVar[tuple[str, ...]] = ('seat', 'truncated')

  @property
  def seat_names(self) -> tuple[str, ...]:
    """Names of the seats that are conversations of their own; (): one is."""
    seats = range(self.players if self.seats == 'each' else 0)
    return tuple(f'seat {i}' for i in seats)

  def env(self) -> 'AecEnv | RefereedEnv':
    made = keywords.make(self.make, self.id, self.settings)
    if lacking := keywords.lacking(
      made, 'reset', 'step', 'last', 'possible_agents'
    ):
      raise ValueError(
        f'env.make={self.make!r} must make an AEC environment of PettingZoo,'
        f' got a {type(made).__name__} without {", ".join(lacking)}'
      )
    agents = list(made.possible_agents)
    if self.seats != 'all' and len(agents) != self.players:
      raise ValueError(
        f'env.players must be {len(agents)}, the agents of the environment,'
        f' got {self.players}'
      )
    show, read = (
      load_function(name, arguments) if name else default
      for name, arguments, default in (
        (self.show, '(observation, agent)', describe),
        (self.read, '(message, space)', parse),
      )
    )
    if self.seats == 'each':
      names = self.seat_names
      referee = AecReferee(made, agents, names, show, read, self.solved)
      return RefereedEnv(referee, names)
    return AecEnv(made, agents, self.seats == 'one', show, read, self.solved)


class AecEnv:
  """Plays one seat against random players, or all seats in turn."""

  def __init__(
    self,
    env: Any,
    agents: Sequence[Any],
    alone: bool,
    show: Callable[[Any, Any], str],
    read: Callable[[str, Any], Any],
    solved: float,
  ):
    """Keeps the environment and how it is rendered as text.

    Args:
      alone: the policy plays the seat of the task, random players the rest
      show: (observation, agent) -> text
      read: (message, action space) -> action; raises ValueError
      solved: lowest return of an episode that scores 1
    """
    self._env, self._agents, self._alone = env, agents, alone
    self._show, self._read, self._solved = show, read, solved

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins the task's episode; `seed` draws the random players' moves."""
    seed_globals(task['seed'])
    self._env.reset(seed=task['seed'])
    self._chance = random.Random(seed)
    self._mine = set(self._agents)
    if self._alone:
      self._mine = {self._agents[task['player']]}
    self._return, self._cut = 0.0, False
    self._owed, done = self._advance()
    if done:
      raise RuntimeError(
        'the episode ended before the first turn of the policy'
      )
    return self._text()

  def step(self, message: str) -> Step:
    """Plays the current agent's action, then others until the policy's turn.

    The reward sums what the policy's seats receive until then.
    """
    agent = self._env.agent_selection
    info = {'seat': float(self._agents.index(agent)), 'truncated': 0.0}
    try:
      action = read_action(self._env, self._read, message, self._allowed)
    except ValueError as error:
      why = f'Invalid action: {error}.'
      return Step(f'{why}\n{self._text()}', invalid=True, info=info)
    self._env.step(action)
    reward, done = self._advance()
    reward, self._owed = reward + self._owed, 0.0
    self._return += reward
    score = float(done and self._return >= self._solved)
    info['truncated'] = float(done and self._cut)
    return Step('' if done else self._text(), reward, done, score, info=info)

  def close(self) -> None:
    keywords.close(self._env)

  def _advance(self) -> tuple[float, bool]:
    """Advances to the policy's next turn; returns rewards and whether done.

    An agent receives the rewards since its last turn when its next one comes;
    an agent whose episode has ended gets a last turn without an action.
    """
    total = 0.0
    while self._env.agents:
      agent = self._env.agent_selection
      observation, reward, terminated, truncated, info = self._env.last()
      if agent in self._mine:
        total += float(reward)
        self._cut |= bool(truncated)
      if terminated or truncated:
        if self._alone and agent in self._mine:
          return total, True
        self._env.step(None)
        continue
      allowed = mask_of(observation, info)
      if agent in self._mine:
        self._observation, self._allowed = observation, allowed
        return total, False
      self._env.step(self._random_action(agent, allowed))
    return total, True

  def _random_action(self, agent: Any, allowed: list[int] | None) -> Any:
    """Draws an action uniformly among the allowed ones."""
    if allowed is not None:
      return self._chance.choice(allowed)
    space = self._env.action_space(agent)
    space.seed(self._chance.randrange(2**31))
    return space.sample()

  def _text(self) -> str:
    agent = self._env.agent_selection
    text = self._show(self._observation, agent)
    return text if self._alone else f'{agent}:\n{text}'


class AecReferee:
  """Asks each agent in its turn, and tells it what it sees; see `Referee`."""

  def __init__(
    self,
    env: Any,
    agents: Sequence[Any],
    names: Sequence[str],
    show: Callable[[Any, Any], str],
    read: Callable[[str, Any], Any],
    solved: float,
  ):
    """Keeps the environment; see `AecEnv`.

    Args:
      names: of the agents' seats, in their order
    """
    self._env, self._seat = env, dict(zip(agents, names, strict=True))
    self._show, self._read, self._solved = show, read, solved

  def reset(self, task: Mapping[str, Any], seed: int) -> Ruling:
    """Begins the task's match; nothing else is random."""
    del seed
    seed_globals(task['seed'])
    self._env.reset(seed=task['seed'])
    self._return = dict.fromkeys(self._seat.values(), 0.0)
    ruling = self._advance()
    if not ruling.seat:
      raise RuntimeError('the match ended before its first turn')
    return ruling

  def step(self, message: str) -> Ruling:
    """Plays the action of the agent that was asked."""
    mover = self._seat[self._env.agent_selection]
    at = float(list(self._return).index(mover))
    info = {mover: {'seat': at}}
    try:
      action = read_action(self._env, self._read, message, self._allowed)
    except ValueError as error:
      text = f'Invalid action: {error}.\n{self._text}'
      return Ruling(mover, text, invalid=True, info=info)
    self._env.step(action)
    ruling = self._advance()
    both = {
      seat: {**info.get(seat, {}), **ruling.info.get(seat, {})}
      for seat in self._return
    }
    return ruling._replace(info=both)

  def close(self) -> None:
    keywords.close(self._env)

  def _advance(self) -> Ruling:
    """Goes on to the next turn; pays whose turn comes, the last one too."""
    earned, cut = dict.fromkeys(self._return, 0.0), set[str]()
    while self._env.agents:
      agent = self._env.agent_selection
      seat = self._seat[agent]
      observation, reward, terminated, truncated, info = self._env.last()
      earned[seat] += float(reward)
      self._return[seat] += float(reward)
      if not (terminated or truncated):
        self._allowed = mask_of(observation, info)
        self._text = self._show(observation, agent)
        return Ruling(seat, self._text, reward=earned)
      cut |= {seat} if truncated else set()
      self._env.step(None)
    score = {s: float(x >= self._solved) for s, x in self._return.items()}
    truncated = {seat: {'truncated': 1.0} for seat in cut}
    return Ruling('', reward=earned, score=score, info=truncated)


def read_action(
  env: Any,
  read: Callable[[str, Any], Any],
  message: str,
  allowed: Sequence[int] | None,
) -> Any:
  """Reads the action of the agent to move.

  Raises:
    ValueError: the message names none, or one that is not allowed.
  """
  action = read(message, env.action_space(env.agent_selection))
  if allowed is not None and action not in allowed:
    raise ValueError('it is not allowed here')
  return action


def mask_of(observation: Any, info: Mapping[str, Any]) -> list[int] | None:
  """Returns the actions that the action mask allows; None: any.

  PettingZoo's classic games put the mask in the observation or in info.
  """
  for holder in (observation, info):
    if isinstance(holder, Mapping) and 'action_mask' in holder:
      return [i for i, x in enumerate(holder['action_mask']) if x]
  return None


def describe(observation: Any, agent: Any) -> str:
  """Renders an observation: text as is, else its repr without the mask."""
  del agent
  allowed = mask_of(observation, {})
  if allowed is None:
    return str(observation)
  inner = observation.get('observation', '')
  return f'{inner}\nActions: {" ".join(map(str, allowed))}'


def parse(message: str, space: Any) -> Any:
  """Parses an action of a discrete space; else returns the message.

  Raises:
    ValueError: it is not an action of the space.
  """
  if keywords.lacking(space, 'n'):
    return message
  start = 0 if keywords.lacking(space, 'start') else int(space.start)
  try:
    action = int(message)
  except ValueError:
    action = start - 1
  if not start <= action < start + int(space.n):
    raise ValueError(
      f'it must be a whole number from {start} to {start + int(space.n) - 1}'
    )
  return action
