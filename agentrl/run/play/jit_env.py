"""Jit environments of a config: tasks, tokens and sizes."""

import dataclasses
import os
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.configs import base, envs
from agentrl.configs.config import Config, to_dict
from agentrl.configs.sections import StalenessConfig
from agentrl.dataset import jit_tasks
from agentrl.env.jit import base as jit_env_base
from agentrl.env.jit import (
  bifurcation,
  boxoban,
  frozen_lake,
  planned,
  sokoban,
  sokoban_levels,
)
from agentrl.recall import base as recall_base
from agentrl.rollout import hierarchical, jit_sizes, registered
from agentrl.rollout.record import Capacity
from agentrl.run.check import (
  compaction_checks,
  env_checks,
  fields,
  service_checks,
)
from agentrl.run.play import jit_compacted, readings
from agentrl.text import (
  action_parsing,
  chat_template,
  jit_template,
  observation_tokens,
)
from agentrl.text.tokenizer import Tokenizer


class JitEnvSpec(NamedTuple):
  """Environment and sizes, before there are tasks."""

  source: Any  # of tasks
  world: jit_sizes.TokenizedEnv  # with none
  plan: jit_sizes.RolloutSizes
  system: str  # message; '': none

  @property
  def actions(self) -> tuple[str, ...]:
    """Texts of actions, by their index in demonstrations."""
    return self.world.env.actions

  @property
  def capacity(self) -> Capacity:
    return jit_sizes.capacity(self.world, self.plan)


def sized(
  c: Config, words: Tokenizer, chat: chat_template.Chat | None
) -> JitEnvSpec:
  """Checks the environment settings of the config."""
  source, env = environment(c)
  if c.env.name not in envs.JITTED:
    env_checks.family(c)
  told = (*env.columns, *envs.marks(c))
  env_checks.terms(c, told)
  service_checks.services(c, (), 'thread')
  service_checks.judges(c, told)
  spoken(c, words, env.actions)
  env_checks.seats(c, env)
  compaction_checks.seats(c, env)
  tag, r = c.rollout.action_prefix, c.rollout
  world = jit_sizes.TokenizedEnv(
    pieces=observation_tokens.piece_table(words, env.pieces),
    actions=action_parsing.action_table(words, env.actions, tag=tag),
    tasks=None,
    env=env,
  )
  notes = readings.tokens_of_notes(c)
  system = r.system
  if chat and c.env.name not in envs.JITTED:
    system = '\n'.join(filter(None, (system, source.system)))
  world, compaction = framed(c, world, chat, system), None
  if r.history == 'compact':
    shown = jit_compacted.shown_tokens(world)
    compaction_checks.environment(c, env.columns, writes=shown > 0)
    compaction_checks.demonstrated(c, shown)
    compacted = jit_compacted.compacted(c, words, chat, system, world, notes)
    world, compaction = compacted
    restart = compaction.restart
    compaction_checks.threshold(c, restart, 'compaction.tokens')
  plan = jit_sizes.RolloutSizes(
    slots=r.slots,
    turns=r.max_turns,
    message=r.max_message_tokens,
    history=r.history,
    window=r.window,
    context=r.context,
    anchor=r.state_hash_fraction,
    notes=notes,
    compaction=compaction,
  )
  return JitEnvSpec(source, world, plan, system)


def parts(c: Config, spec: JitEnvSpec, sets=None):
  """Returns the environment with all tasks, then those to train and to test.

  Args:
    sets: (train, test) where they are loaded already
  """
  train, test = sets or task_sets(c, spec.source)
  first = {name: x[0] for name, x in train.tasks.items()}
  jit_env_base.check(spec.world.env, first, train.actions)
  both = jax.tree.map(
    lambda a, b: jnp.asarray(np.concatenate([a, b])), train.tasks, test.tasks
  )
  return spec.world.replace(tasks=both), train, test


def framed(
  c: Config,
  world: jit_sizes.TokenizedEnv,
  chat: chat_template.Chat | None,
  system: str,
) -> jit_sizes.TokenizedEnv:
  """Returns the environment with a chat template around its turns."""
  if chat is None:
    return world
  env = world.env
  messages = spoken(c, chat.words, env.actions)
  frame = jit_template.jit_template(chat, env.pieces, messages, system=system)
  pieces = world.pieces.replace(suffix=frame.after)
  return world.replace(pieces=pieces, frame=frame)


def task_sets(c: Config, source) -> list[jit_tasks.JitTaskSet]:
  """Loads the train and the test tasks; a level file may have fewer."""
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


def repeated_task_sets(c: Config, source) -> list[jit_tasks.JitTaskSet]:
  """Makes task sets as large as the config's, of one task, unstored."""
  task = next(iter(source.tasks('train', 1, c.env.seed)))
  return [
    jit_tasks.JitTaskSet(
      tasks={
        name: np.repeat(np.asarray(x)[None], n, axis=0)
        for name, x in task.task.items()
      },
      actions=np.repeat(np.asarray(task.actions, np.int32)[None], n, axis=0),
      keys=[task.key] * n,
    )
    for n in (c.env.train, c.env.test)
  ]


def for_evaluation(c: Any, levels: str | None, limit: int | None) -> Config:
  """Returns the config of a run with other levels and another turn limit."""
  # Nothing is trained: the row counts only have to divide.
  rows = dict.fromkeys(('micro_batch', 'sft.batch'), c.rollout.batch)
  newest = dataclasses.asdict(StalenessConfig())  # whose policy is played
  changes: dict[str, Any] = {f'staleness.{k}': x for k, x in newest.items()}
  changes |= rows
  if limit:
    changes['rollout.max_turns'] = limit
  if levels:
    if recall_base.of(base.wiring(c)):
      raise ValueError(
        f'--levels must be left out for a run that reads a memory of texts'
        f' (recall={c.recall!r}), which knows its own tasks alone, got {levels}'
      )
    if c.env.name != 'sokoban':
      raise ValueError(
        f'--levels={levels} is for runs of Sokoban; this one plays {c.env.name}'
      )
    count = sum(boxoban.Boxoban(levels).sizes().values())
    changes |= {'env.train': count, 'env.test': count}
    changes['env.levels'] = os.path.abspath(levels)
  return fields.changed(c, changes)


REWARDS = {'dense': {}, 'sparse': sokoban.SPARSE}


def environment(c: Config):
  """Makes (task source, environment) of c.env."""
  source, env = _plain_environment(c)
  if not (oracle := to_dict(c.env).get('oracle')):
    return source, env
  env_checks.oracle(c)
  return source, planned.Planned(env, advises=oracle == 'plan')


def _plain_environment(c: Config):
  """Makes the same without an oracle."""
  e: Any = c.env
  if e.name not in envs.JITTED:
    family: Any = envs.of(c)
    return family, family.env()
  if e.name == 'frozen_lake':
    source = frozen_lake.Lakes(
      height=e.height, width=e.width, intended=1 / 3 if e.slip else 1.0
    )
    return source, frozen_lake.env_for(source, invalid_reward=-e.invalid)
  if e.name == 'bifurcation':
    env_checks.length(c, e.length)
    source = bifurcation.Bifurcations(
      length=e.length, choices=e.choices, slip=e.slip, filler=e.filler
    )
    return source, bifurcation.env_for(source, invalid_reward=-e.invalid)
  if e.levels:
    try:
      source = boxoban.Boxoban(path=e.levels)
    except ValueError as error:
      raise ValueError(f'env.levels={e.levels!r}: {error}') from error
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


def spoken(c: Config, words: Tokenizer, actions):
  """Returns the tokens of each action's message, end of turn included.

  In three parts: those that keep the action as a subgoal, then the switches.
  """
  # Each by itself, as in action_parsing.action_table: together they may merge.
  prefix = c.rollout.action_prefix
  tag = words.encode(prefix, specials=True)
  for action in actions if prefix else ():
    apart = [*tag, *words.encode(action, specials=True)]
    if words.encode(prefix + action, specials=True) != apart:
      raise ValueError(
        f'rollout.action_prefix={prefix!r} and the action {action!r} have other'
        ' tokens together than apart, so that what a model writes would name'
        ' no action; end it with a newline'
      )
  messages = [
    [*tag, *words.encode(a, specials=True), words.eot] for a in actions
  ]
  if decisions := registered.kind_of(base.wiring(c)).subgoal_words:
    messages = [
      [
        hierarchical.token(words, word, f'hp.rollout.options.{name}'),
        *words.encode(subgoal),
        *rest,
      ]
      for name, word in zip(('keep', 'switch'), decisions, strict=True)
      for subgoal, rest in zip(actions, messages, strict=True)
    ]
  longest = max(len(x) for x in messages)
  if longest > c.rollout.max_message_tokens:
    raise ValueError(
      f'an action behind rollout.action_prefix={c.rollout.action_prefix!r:.40}'
      f' takes {longest} tokens with its end of turn and'
      f' rollout.max_message_tokens={c.rollout.max_message_tokens} allows'
      f' fewer; set it to {longest}'
    )
  return messages
