"""What is done in a run's world: played, shown, laid in rows, rewarded."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from agentrl import registry
from agentrl.configs import base
from agentrl.dataset import jit_tasks
from agentrl.learner import algorithm, update
from agentrl.rollout import actor, counterfactual, hierarchical
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.run import jit_env, placement
from agentrl.run.build import Setup
from agentrl.task.fixed import attempts as make_attempts
from agentrl.text import jit_template
from agentrl.types import Attempts, Batch, Rows


def play(s: Setup, params, attempts: Attempts, key) -> record_lib.Record:
  """The policy at the attempts, inside jit."""
  r, plan, given = s.config.rollout, s.plan, None
  if attempts.prefix is not None:
    given = record_lib.given(attempts.prefix, plan.turns, plan.message)
  speaker = actor.model(
    s.shape,
    params,
    message=plan.message,
    eot=s.tokenizer.eot,
    top_k=r.top_k,
    top_p=r.top_p,
    given=given,
  )
  return jit_rollout.rollout(s.world, plan, speaker, attempts, key)


def score(s: Setup, batch: Batch) -> Batch:
  """The batch with what its turns earned."""
  w = base.wiring(s.config)
  pieces = [
    registry.bind('reward', n, w.values('reward', n), 'c.reward')
    for n in w.reward
  ]
  total = sum(f(batch.turns, batch.outcome, batch.status) for f in pieces)
  turns = batch.turns.replace(reward=total)
  return batch.replace(turns=turns)


def layout(s: Setup, record: record_lib.Record) -> record_lib.Layout:
  if s.plan.history == 'turn':
    return record_lib.per_turn(record)
  return record_lib.full_history(record, s.capacity.row)


def readings(s: Setup, record: record_lib.Record, version) -> dict[str, Rows]:
  """The record's messages in other contexts, as the config wants them."""
  text = s.config.rollout.nulled
  if not text:
    return {}
  null = jnp.asarray(s.tokenizer.encode(text), jnp.int32)
  if s.world.frame:
    null = jit_template.alone(s.world.frame, null)
  if s.plan.history == 'turn':
    return {'nulled': counterfactual.nulled_turns(record, null, version)}
  rows = counterfactual.nulled_history(record, null, version, s.capacity.row)
  return {'nulled': rows}


def collect(s: Setup, params, attempts: Attempts, key, version) -> Batch:
  """Rollout and rewards: one jitted program."""

  def sample(attempts, key):
    record = marked(s, play(s, params, attempts, key))
    batch = record_lib.batch(record, layout(s, record), attempts, version)
    return batch.replace(readings=readings(s, record, version))

  batch, _ = collector(s.config)(
    sample, functools.partial(score, s), attempts, memory=(), carry=(), key=key
  )
  return batch


def collector(c: ConfigDict):
  """The collect piece of the config."""
  values = base.wiring(c).values('collect', c.collect)
  return registry.bind('collect', c.collect, values, 'c.collect')


def attempted(c: ConfigDict) -> int:
  """Attempts that a batch is made of: more than it holds, if some are left out.

  The collect piece's hyper-parameters tell it: `times` as many groups, or
  groups `group_times` as large.
  """
  how = _collecting(c)
  return c.rollout.batch * how.get('times', 1) * how.get('group_times', 1)


def attempted_group(c: ConfigDict) -> int:
  """Attempts at one task, of which c.rollout.group are in the batch."""
  return c.rollout.group * _collecting(c).get('group_times', 1)


def _collecting(c: ConfigDict) -> dict[str, Any]:
  """The hyper-parameters of the collect piece."""
  values = base.wiring(c).values('collect', c.collect)
  return registry.settings(registry.get('collect', c.collect), values)


def marked(s: Setup, record: record_lib.Record) -> record_lib.Record:
  """The record with the spans of its messages, where they have parts."""
  c = s.config
  if c.rollout_kind != 'options':
    return record
  switch = hierarchical.token(
    s.tokenizer, c.hp.rollout.options.switch, 'hp.rollout.options.switch'
  )
  tag = hierarchical.token(s.tokenizer, c.rollout.tag, 'rollout.tag')
  return hierarchical.mark(record, switch, tag)


def demonstrate(s: Setup, attempts: Attempts, said, length, key) -> Batch:
  """Rows of the solver's own messages, replayed in the environment."""
  speaker = actor.script(said, length)
  record = jit_rollout.rollout(s.world, s.plan, speaker, attempts, key)
  batch = record_lib.batch(record, layout(s, record), attempts, 0)
  ids = {**batch.ids, 'source': batch.ids['source'] + 2}
  return batch.replace(ids=ids, sampled={})


def messages(s: Setup, taskset: jit_tasks.TaskSet):
  """The solver's actions as tokens: [n, K, M] and their lengths [n, K]."""
  n, k, m = len(taskset), s.plan.turns, s.plan.message
  said = jit_env.spoken(s.config, s.tokenizer, s.world.env.actions)
  table = np.zeros((len(said) + 1, m), np.int32)
  for i, x in enumerate(said):
    table[i, : len(x)] = x
  size = np.array([len(x) for x in said] + [0], np.int32)
  actions = np.full((n, k), -1)
  width = min(k, taskset.actions.shape[1])
  actions[:, :width] = taskset.actions[:, :width]
  if s.config.rollout_kind == 'options':
    actions += hierarchical.new_subgoals(actions) * len(s.world.env.actions)
  return table[actions], size[actions]


def forget(s: Setup, state):
  """The state with empty memories, of the shapes that collecting gives."""
  if not s.learner.wiring.memory:
    return state
  attempts = attempts_at(np.zeros(attempted(s.config), np.int32), 1)
  policy = algorithm.whole(s.learner.context, state.params)
  sample = functools.partial(collect, s)
  if s.config.rollout_kind == 'host':
    sample = functools.partial(_unplayed, s)
  batch = jax.eval_shape(
    placement.sharded(sample),
    policy,
    placement.replicated(attempts),
    state.key,
    state.step,
  )
  return update.forget(s.learner, state, batch)


def _unplayed(s: Setup, params, attempts: Attempts, key, version) -> Batch:
  """A batch of the shapes that host environments give."""
  limits, columns = s.plan, s.world.family.columns
  sizes = limits.turns, limits.width, limits.message
  record = record_lib.empty(attempts.task.shape[0], *sizes, columns)
  batch = record_lib.batch(record, layout(s, record), attempts, version)
  return score(s, batch)


def demo_attempts(s: Setup, index: np.ndarray) -> Attempts:
  """Attempts at tasks, each as long as its demonstration."""
  length = np.sum(s.train.actions[index] >= 0, axis=1)
  return attempts_at(index, np.minimum(length, s.plan.turns))


def attempts_at(index: np.ndarray, turns) -> Attempts:
  """Attempts at tasks, each of its own number of turns, at least one."""
  limit = np.broadcast_to(np.maximum(turns, 1), index.shape)
  return make_attempts(index, 1, 1, 1.0).replace(limit=limit.astype(np.int32))
