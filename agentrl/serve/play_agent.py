"""The agent of a run in a terminal, where a person may move in its place.

It reads exactly what it read in training: in jit environments the rollout is
repeated with the messages so far, in host environments a person takes the
generator's place in the loop of rollout/host.py.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.configs.config import Config
from agentrl.learner import algorithm
from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.rollout.engine.generator import Generator
from agentrl.run import build, describe, weights, workdir
from agentrl.run.check import fields
from agentrl.run.play import collect, jit_env, sampler
from agentrl.serve.play import Frame, JitGame, Person, Quit, episode, show
from agentrl.types import Messages, Prefix, Status


class JitAgent:
  """The policy of a run in one episode of a jit environment."""

  def __init__(self, s: build.Experiment, params, temperature: float):
    self._s, self._params = s, params
    self._actions = s.world.env.actions
    # Behind subgoals, if there are any, stands the switch to a new one.
    spoken = jit_env.spoken(s.config, s.tokenizer, self._actions)
    self._messages = spoken[-len(self._actions) :]
    self._run = jax.jit(functools.partial(self._record, temperature))

  def begin(self, task: int, seed: int) -> None:
    """Begins an episode. Args: task: index into all tasks of the run."""
    plan = self._s.plan
    self._tokens = np.zeros((1, plan.turns, plan.message), np.int32)
    self._length = np.zeros((1, plan.turns), np.int32)
    self._turn, self._at = 0, (jnp.array([task]), jax.random.key(seed))

  def _record(self, temperature, params, task, key, tokens, length, turns):
    """Returns the rollout whose first `turns` i32[1] messages are given."""
    attempts = collect.attempts_at(np.zeros(1, np.int32), 1).replace(
      task=task,
      limit=turns + 1,
      temperature=jnp.full(1, temperature),
      prefix=Prefix(turns, Messages(tokens, length)),
    )
    return collect.play(self._s, params, attempts, key)

  def act(self) -> str:
    """Returns the agent's move: an action, or its message if that is none."""
    turn, turns = self._turn, jnp.full(1, self._turn, jnp.int32)
    args = self._params, *self._at, self._tokens, self._length, turns
    record = jax.device_get(self._run(*args))
    ids = record.message[0, turn, : record.message_len[0, turn]].tolist()
    self._put(ids)
    action = record.action[0, turn]
    return self._actions[action] if action >= 0 else self._text(ids)

  def watch(self, action: str) -> None:
    """Takes a move of a person for its own."""
    self._put(self._messages[self._actions.index(action)])

  def _put(self, ids: list[int]) -> None:
    self._tokens[0, self._turn, : len(ids)] = ids
    self._length[0, self._turn] = len(ids)
    self._turn += 1

  def _text(self, ids: list[int]) -> str:
    words = self._s.tokenizer
    return words.decode([x for x in ids if x != words.eot])


class PersonGenerator:
  """A generator of host episodes in whose place a person may write."""

  def __init__(
    self, engine: Generator, words, ask: Callable[[], str | None], show
  ):
    """Takes show: (text of new context or of a message, who wrote it)."""
    self._engine, self._words, self._ask, self._show = engine, words, ask, show
    self._ready: list[Completion] = []
    self._seen: list[int] = []

  @property
  def busy(self) -> bool:
    return bool(self._ready) or self._engine.busy

  def submit(
    self, line: int, context: Sequence[int], how: SamplingParams
  ) -> None:
    context, seen = list(context), self._seen
    new = context[len(seen) :] if context[: len(seen)] == seen else context
    self._seen = context
    self._show(self._words.decode(new), '')
    text = self._ask()
    if text is None:
      self._engine.submit(line, context, how)
      return
    ids = [*self._words.encode(text), self._words.eot][: how.budget]
    zero = [0.0] * len(ids)
    self._ready.append(Completion(line, ids, zero, zero, [0] * len(ids)))
    self._seen += ids

  def dispatch(self) -> None:
    self._engine.dispatch()

  def collect(self) -> list[Completion | GenerationFault]:
    spoken = self._engine.collect()
    for message in spoken:
      if isinstance(message, Completion):
        self._seen += message.ids
        self._show(self._words.decode(message.ids), 'agent')
    ready, self._ready = self._ready, []
    return [*ready, *spoken]

  def cancel(self, line: int) -> None:
    self._engine.cancel(line)


def play(
  run: str,
  seed: int,
  levels: str | None,
  temperature: float,
  lines: Iterable[str],
) -> None:
  """Plays an episode on a held-out task of the run; prints what happens."""
  s, roles = open_run(run, levels)
  params = algorithm.full_params(s.algorithm.context, roles)
  index = len(s.train) + seed % len(s.test)
  print(f'{describe.title(s)}, held-out task {index - len(s.train)}')
  if s.on_host:
    _converse(s, roles, index, seed, temperature, lines)
    return
  print(s.world.env.legend)
  person = Person(lines, s.world.env.actions, agent=True)
  print(person.help, flush=True)
  agent = JitAgent(s, params, temperature)
  best = int(np.sum(s.test.actions[index - len(s.train)] >= 0))
  show(frames(s, agent, index, seed, person.ask), best)


def frames(s: build.Experiment, agent: JitAgent, index: int, seed: int, ask):
  """Plays the frames of an episode on task `index` of all tasks."""
  agent.begin(index, seed)
  task = jax.tree.map(lambda x: x[index], s.world.tasks)
  game = JitGame(s.world.env)
  return episode(game, task, seed, ask, agent, s.plan.turns)


def solved_episode(
  run: str, seed: int, levels: str | None, temperature: float, tries: int = 100
) -> tuple[str, list[Frame]]:
  """Returns title and frames of the agent's first solved held-out episode.

  Raises: ValueError for a host environment, or where none of `tries` is solved.
  """
  s, roles = open_run(run, levels)
  if s.on_host:
    raise ValueError(
      f'--gif draws boards, and {s.config.env.name} is a world of text; look at'
      f' its episodes with experiments.view {run}'
    )
  params = algorithm.full_params(s.algorithm.context, roles)
  agent = JitAgent(s, params, temperature)
  for i in range(min(tries, len(s.test))):
    index = len(s.train) + (seed + i) % len(s.test)
    played = list(frames(s, agent, index, seed, lambda: None))
    if played[-1].score > 0.5:
      return describe.title(s), played
  raise ValueError(
    f'the agent of {run} solved none of {i + 1} held-out tasks; train it'
    ' longer, or choose another --seed'
  )


def open_run(run: str, levels: str | None) -> tuple[build.Experiment, dict]:
  """Opens the experiment of a run, sized for an episode; parameters by role."""
  c = one_episode(workdir.read_config(run), levels)
  s = build.experiment(c)
  _, state = weights.load(c, s.shape, run)
  return s, state.params


def one_episode(c: Any, levels: str | None) -> Config:
  """Returns the config on one device, with room for one conversation."""
  c = jit_env.for_evaluation(c, levels, None)
  changes = {f'mesh.{x}': 1 for x in mesh.AXES} | {'rollout.slots': 1}
  if c.host:
    changes['host.num_envs'] = 1
  return fields.changed(c, changes)


def _converse(s, roles, index: int, seed: int, temperature: float, lines):
  """Returns an episode in a world of text."""
  person = Person(lines, agent=True)
  print(person.help, flush=True)

  def tell(text: str, by: str) -> None:
    print(f'{by}: {text}' if by else text, flush=True)

  wrap = functools.partial(
    PersonGenerator, words=s.tokenizer, ask=person.ask, show=tell
  )
  attempts = collect.attempts_at(np.array([index]), s.plan.turns).replace(
    temperature=np.full(1, temperature, np.float32)
  )
  params = algorithm.full_params(s.algorithm.context, roles)
  with sampler.open_host_sampler(s) as player:
    player.update_service_params(roles)
    try:
      (ended,) = player.play_with(wrap, params, attempts, jax.random.key(seed))
    except Quit:
      print('left unsolved')
      return
  moves, result = len(ended.turns), Status(ended.status).name.lower()
  print(
    f'{result.replace("_", " ")} in {moves} messages, score {ended.score:g}'
  )
