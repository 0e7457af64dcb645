"""Episodes in a terminal: asks a person for moves and shows what they do."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.configs import envs
from agentrl.env import base as env_base
from agentrl.env import seats, splits
from agentrl.env.jit import base as jit_base
from agentrl.env.jit import boxoban
from agentrl.rollout import keys
from agentrl.run import config_file
from agentrl.run.play import collect, jit_env
from agentrl.service.base import Function

LETTERS = {'w': 'up', 'a': 'left', 's': 'down', 'd': 'right'}
AGENT, ON, QUIT = '', 'g', 'q'


class Frame(NamedTuple):
  """What is seen after a move; the first frame has none."""

  text: str  # the observation
  move: str = ''
  by: str = ''  # 'you' or 'agent'
  reward: float = 0.0
  done: bool = False
  score: float = 0.0  # the task's own; 1: solved


class Quit(Exception):
  """The person leaves the episode."""


class Person:
  """Asks for moves until one can be played."""

  def __init__(
    self, lines: Iterable[str], actions: Sequence[str] = (), agent: bool = False
  ):
    """Takes actions: all there are; none: any text is a move."""
    self._lines, self._actions, self._agent = iter(lines), actions, agent
    self._on = False  # the agent plays to the end

  @property
  def help(self) -> str:
    moves = ', '.join(self._actions) or 'any text'
    arrows = ' (w a s d, arrow keys)' if 'up' in self._actions else ''
    agent = '; Enter: the agent moves; g: it plays on' if self._agent else ''
    return f'{moves}{arrows}{agent}; q: quit'

  def ask(self) -> str | None:
    """Returns the next move; None: the agent's. Raises Quit."""
    if self._on:
      return None
    for line in self._lines:
      move = line.strip()
      if move in self._actions:
        return move
      word = LETTERS.get(move.lower(), move.lower())
      if word == QUIT:
        raise Quit
      if self._agent and word in (AGENT, ON):
        self._on = word == ON
        return None
      if word in self._actions:
        return word
      if move and not self._actions:
        return move
      print(f'unknown move {move!r}: {self.help}', flush=True)
    raise Quit


class JitGame:
  """A jit environment as a `HostEnv`, with the randomness of a rollout."""

  def __init__(self, env: jit_base.JitEnv):
    self._env, self._step, self._turn = env, jax.jit(env.step), 0

  def reset(self, task, seed: int) -> str:
    attempts = collect.attempts_at(np.zeros(1, np.int32), 1)
    self._keys, self._turn = keys.keys(attempts, jax.random.key(seed)), 0
    start = keys.start(self._keys, jnp.zeros(1, jnp.int32))[0]
    self._state, obs = self._env.reset(start, task)
    return jit_base.render_text(self._env, obs)

  def step(self, message: str) -> env_base.Step:
    actions, at = self._env.actions, jnp.zeros(1, jnp.int32)
    action = actions.index(message) if message in actions else -1
    _, key = keys.turn(self._keys, at, at + self._turn)
    self._turn += 1
    self._state, obs, reward, done = self._step(
      self._state, jnp.int32(action), key[0]
    )
    text = jit_base.render_text(self._env, obs)
    score = float(self._env.score(self._state))
    return env_base.Step(text, float(reward), bool(done), score, action < 0)

  def close(self) -> None:
    """Holds nothing."""


class SeatedGame:
  """A game of several seats as a `HostEnv`: one person plays them all.

  Each text names the seat that reads it. A step is worth the sum of what the
  seats earned, and scores what the least successful seat does.
  """

  def __init__(self, env: env_base.HostEnv, names: Sequence[str]):
    self._env, self._names = env, names

  def reset(self, task, seed: int) -> str:
    return self._told(json.loads(self._env.reset(task, seed)))

  def step(self, message: str) -> env_base.Step:
    step = self._env.step(message)
    ruling = json.loads(step.text)
    return step._replace(
      text=self._told(ruling),
      reward=sum(ruling['reward']),
      score=min(ruling['score']),
    )

  def close(self) -> None:
    self._env.close()

  def _told(self, ruling: Mapping[str, Any]) -> str:
    earned = zip(self._names, ruling['reward'], strict=True)
    lines = [f'{name} earns {x:g}' for name, x in earned if x]
    if ruling['seat'] is None:
      return '\n'.join(lines)
    return '\n'.join(
      [*lines, f'{self._names[ruling["seat"]]}: {ruling["text"]}']
    )


class Agent(Protocol):
  """A player that a person may move for."""

  def act(self) -> str:
    """Returns its next move."""

  def watch(self, action: str) -> None:
    """Takes a move of a person for its own."""


def episode(
  game: env_base.HostEnv,
  task,
  seed: int,
  ask: Callable[[], str | None],
  agent: Agent | None = None,
  limit: int | None = None,
) -> Iterator[Frame]:
  """Yields frames of an episode until it is done, out of turns, or left.

  Args:
    ask: the next move, None for the agent's; raises Quit
  """
  yield Frame(game.reset(task, seed))
  turn = 0
  while limit is None or turn < limit:
    try:
      move, by = ask(), 'you'
    except Quit:
      return
    if move is None:
      assert agent is not None
      move, by = agent.act(), 'agent'
    elif agent is not None:
      agent.watch(move)
    step, turn = game.step(move), turn + 1
    yield Frame(step.text, move, by, step.reward, step.done, step.score)
    if step.done:
      return


def show(frames: Iterable[Frame], best: int = 0) -> None:
  """Prints frames as they come, and how the episode ended.

  Args:
    best: moves of a shortest solution; 0: unknown
  """
  moves, last = -1, Frame('')
  for moves, last in enumerate(frames):
    if moves:
      print(f'{last.by}: {last.move}')
    print(last.text.rstrip('\n'))
    if moves:
      print(f'reward {last.reward:g}', flush=True)
  shortest = f'; the shortest solution has {best}' if best else ''
  if last.done:
    result = 'solved' if last.score > 0.5 else 'lost'
    print(f'{result} in {moves} moves{shortest}')
  else:
    print(f'left unsolved after {moves} moves{shortest}')


def play(
  name: str, seed: int, levels: str | None, lines: Iterable[str]
) -> None:
  """Lets a person play an environment alone; prints what happens.

  Raises: ValueError for an environment that is not there, or cannot start.
  """
  if levels and name != 'sokoban':
    raise ValueError(f'--levels={levels} is for --env=sokoban, not {name}')
  envs.check_name(name)
  c = config_file.load(f'grpo:env={name}')
  game: env_base.HostEnv
  if envs.in_jit(name):
    if levels:
      c.env.levels = levels
    source, env = jit_env.environment(c)
    split = 'train'
    if levels and not boxoban.Boxoban(levels).sizes()['train']:
      split = 'test'  # a file may hold one level
    (solved,) = source.tasks(split, 1, seed)
    game, task, best = JitGame(env), solved.task, len(solved.actions)
    person = Person(lines, env.actions)
    print(env.legend)
  else:
    services = {
      key: Function(x.function) for key, x in c.service.items() if x.function
    }
    family = env_base.with_services(envs.family(c), services)
    (solved,) = family.tasks(splits.SPLITS[0], 1, seed)
    game, task, best = family.env(), solved.task, len(solved.demonstration)
    person = Person(lines)
    if family.system:
      print(family.system)
    if isinstance(family, seats.SeatedFamily) and family.seat_names:
      game = SeatedGame(game, family.seat_names)
      for seat in family.seat_names:
        if text := family.seat_system(seat):
          print(f'{seat}: {text}')
  print(person.help, flush=True)
  try:
    show(episode(game, task, seed, person.ask), best)
  finally:
    game.close()
