"""Environments inside jit of a config: tasks, words and sizes."""

import dataclasses
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from agentrl.configs import envs
from agentrl.dataset import jit_tasks
from agentrl.env.jit import (
  bifurcation,
  boxoban,
  frozen_lake,
  sokoban,
  sokoban_levels,
)
from agentrl.rollout import hierarchical
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout.record import Capacity
from agentrl.run import validate
from agentrl.text import (
  action_parsing,
  chat_template,
  jit_template,
  observation_tokens,
)
from agentrl.text.tokenizer import Tokenizer


class Sized(NamedTuple):
  """What is known before there are tasks."""

  source: Any  # of tasks
  world: jit_rollout.World  # with none
  plan: jit_rollout.Plan

  @property
  def capacity(self) -> Capacity:
    return jit_rollout.capacity(self.world, self.plan)


class Parts(NamedTuple):
  """What a run of an environment inside jit has."""

  world: jit_rollout.World
  train: jit_tasks.TaskSet
  test: jit_tasks.TaskSet


def sized(
  c: ConfigDict, words: Tokenizer, chat: chat_template.Chat | None
) -> Sized:
  """Checks what the config says of its environment."""
  source, env = environment(c)
  validate.terms(c, env.columns)
  spoken(c, words, env.actions)
  world = framed(c, without_tasks(c, words, env), chat)
  return Sized(source, world, make_plan(c))


def parts(c: ConfigDict, known: Sized) -> Parts:
  """Makes the tasks, or finds them."""
  train, test = task_sets(c, known.source)
  both = jax.tree.map(
    lambda a, b: jnp.asarray(np.concatenate([a, b])), train.tasks, test.tasks
  )
  return Parts(known.world.replace(tasks=both), train, test)


def make_plan(c: ConfigDict) -> jit_rollout.Plan:
  """Capacities of the config's rollouts."""
  return jit_rollout.Plan(
    **{f.name: c.rollout[f.name] for f in dataclasses.fields(jit_rollout.Plan)}
  )


def without_tasks(c: ConfigDict, words, env) -> jit_rollout.World:
  """The environment and its words, before there is anything to play."""
  return jit_rollout.World(
    pieces=observation_tokens.piece_table(words, env.pieces),
    actions=action_parsing.action_table(words, env.actions, tag=c.rollout.tag),
    tasks=None,
    env=env,
  )


def framed(
  c: ConfigDict, world: jit_rollout.World, chat: chat_template.Chat | None
) -> jit_rollout.World:
  """The world with a chat's frame around its turns."""
  if chat is None:
    return world
  validate.framed(c)
  env = world.env
  said = spoken(c, chat.words, env.actions)
  frame = jit_template.frame(chat, env.pieces, said, system=c.rollout.system)
  pieces = world.pieces.replace(suffix=frame.after)
  return world.replace(pieces=pieces, frame=frame)


def task_sets(c: ConfigDict, source) -> list[jit_tasks.TaskSet]:
  """The train and the test tasks; a level file has what it has."""
  count = {'train': c.env.train, 'test': c.env.test}
  if isinstance(source, boxoban.Boxoban):
    sizes = source.sizes()
    if not all(sizes.values()):
      raise ValueError(
        f'env.levels={c.env.levels!r} gives {sizes["train"]} levels to train'
        f' on and {sizes["test"]} held out, and both are needed; about one'
        ' level in five is held out, so add levels to the file'
      )
    count = {k: min(n, sizes[k]) for k, n in count.items()}
  return [
    jit_tasks.load(source, split, n, c.env.seed, folder=c.data)
    for split, n in count.items()
  ]


def for_evaluation(
  c: ConfigDict, levels: str | None, limit: int | None
) -> ConfigDict:
  """The config of a run, changed to other levels and another turn limit."""
  c = ConfigDict(c.to_dict())
  if limit:
    c.rollout.turns = limit
  # Nothing is trained: the row counts only have to divide.
  c.micro = c.sft.batch = c.rollout.batch
  if levels:
    if c.env.name != 'sokoban':
      raise ValueError(
        f'--levels={levels} is for runs of Sokoban; this one plays {c.env.name}'
      )
    c.env.levels = os.path.abspath(levels)
    c.env.train = c.env.test = sum(boxoban.Boxoban(levels).sizes().values())
  return c


REWARDS = {'dense': {}, 'sparse': sokoban.SPARSE}


def environment(c: ConfigDict):
  """(task source, environment) of c.env."""
  e = c.env
  if e.name == 'frozen_lake':
    source = frozen_lake.Lakes(
      height=e.height, width=e.width, intended=1 / 3 if e.slip else 1.0
    )
    return source, frozen_lake.env_for(source, invalid_reward=-e.invalid)
  if e.name == 'bifurcation':
    validate.length(c)
    source = bifurcation.Bifurcations(
      length=e.length, choices=e.choices, slip=e.slip, filler=e.filler
    )
    return source, bifurcation.env_for(source, invalid_reward=-e.invalid)
  if e.name != 'sokoban':
    known = ' or '.join(map(repr, envs.JITTED))
    raise ValueError(f'env.name={e.name!r} is unknown; choose {known}')
  if e.levels:
    source = boxoban.Boxoban(path=e.levels)
  else:
    source = sokoban_levels.Generated(
      height=e.height,
      width=e.width,
      boxes=e.boxes,
      min_moves=e.min_moves,
      max_moves=e.max_moves,
    )
  return source, sokoban_levels.env_for(
    source, coordinates=e.coordinates, **REWARDS[e.reward]
  )


def spoken(c: ConfigDict, words: Tokenizer, actions):
  """The tokens of the message that says each action, end of turn included.

  In three parts: those that keep the action as a subgoal, then the switches.
  """
  # Each by itself, as parse.action_table has them: together they may merge.
  tag = words.encode(c.rollout.tag, specials=True)
  said = [[*tag, *words.encode(a, specials=True), words.eot] for a in actions]
  if c.rollout_kind == 'options':
    o = c.hp.rollout.options
    said = [
      [hierarchical.token(words, o[name], f'hp.rollout.options.{name}'),
       *words.encode(subgoal), *rest]
      for name in ('keep', 'switch')
      for subgoal, rest in zip(actions, said, strict=True)
    ]  # fmt: skip
  longest = max(len(x) for x in said)
  if longest > c.rollout.message:
    raise ValueError(
      f'an action takes {longest} tokens with its end of turn and'
      f' rollout.message={c.rollout.message} allows fewer; set it to {longest}'
    )
  return said
