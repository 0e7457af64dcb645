"""Collects batches: rollouts, layout in rows, rewards, demonstrations."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import registry
from agentrl.env.jit import base as env_base
from agentrl.judge import late
from agentrl.learner import algorithm, policies, update
from agentrl.model import microbatch, pieces
from agentrl.prefix import lengths
from agentrl.recall import base as recall_base
from agentrl.reward import trajectory
from agentrl.rollout import (
  actor,
  counterfactual,
  hierarchical,
  registered,
  seats,
  team,
)
from agentrl.rollout import record as record_lib
from agentrl.run import placement
from agentrl.run.experiment import Experiment
from agentrl.run.play import jit_compacted, seating
from agentrl.run.play import readings as readings_lib
from agentrl.task.base import make_attempts
from agentrl.types import (
  Array,
  AttemptPlan,
  Attempts,
  Batch,
  CollectInputs,
  Messages,
  NewestPolicy,
  Prefix,
  RewardInputs,
  Rows,
)


def play(
  s: Experiment, params, attempts: Attempts, key, group: int = 1
) -> record_lib.Record:
  """Samples the attempts with the policy, inside jit.

  Args:
    params: of the policy, of several by role (learner.algorithm.played_params)
    group: neighbours that attempt one task, where most of them do
  """
  r, plan, given = s.config.rollout, s.plan, None
  if attempts.prefix is not None and not attempts.prefix.resumed:
    given = record_lib.given(attempts.prefix, plan.turns, plan.message)
  of = functools.partial(
    actor.model,
    s.shape,
    message=plan.message,
    eot=s.tokenizer.eot,
    top_k=r.top_k,
    top_p=r.top_p,
    given=given,
    group=group,
  )
  players = s.algorithm.players
  if len(players) == 1:
    return seats.rollout(s.world, plan, of(params), attempts, key)
  role = attempts.role
  if role is None:
    role = seating.roles(s.config, len(attempts.task))
  role = jnp.asarray(role)
  every = tuple(of(params[x]) for x in players)
  speaker = team.TeamActor(every, role, plan.message)
  record = seats.rollout(s.world, plan, speaker, attempts, key)
  return record.replace(role=role)


def score(w: registry.MethodSpec, batch: Batch) -> Batch:
  """Computes the reward of every turn of the batch."""
  rewards = [
    registry.bind('reward', n, w.values('reward', n), 'c.reward')
    for n in w.reward
  ]
  x = RewardInputs(
    turns=batch.turns, outcome=batch.outcome, status=batch.status
  )
  total = sum(trajectory.by_turn(f(x), x.turns) for f in rewards)
  turns = batch.turns.replace(reward=total)
  return batch.replace(turns=turns)


def layout(s: Experiment, record: record_lib.Record) -> record_lib.Layout:
  if s.plan.history == 'turn':
    return record_lib.per_turn(record)
  return record_lib.full_history(record, s.capacity.row)


def readings(
  s: Experiment,
  record: record_lib.Record,
  batch: Batch,
  attempts: Attempts,
  version,
) -> dict[str, Rows]:
  """Returns the record's messages in other contexts, as the config asks."""
  t = None if s.plan.history == 'turn' else s.capacity.row
  how = dict(attempts=attempts, eot=s.tokenizer.eot, t=t)
  hinted = {
    name: readings_lib.hinted_rows(hint, record, batch, version, **how)
    for name, hint in s.hints.items()
  }
  return hinted | _nulled(s, record, version)


def _nulled(
  s: Experiment, record: record_lib.Record, version
) -> dict[str, Rows]:
  null = s.nulled
  if null is None:
    return {}
  if s.plan.history == 'turn':
    return {'nulled': counterfactual.nulled_turns(record, null, version)}
  rows = counterfactual.nulled_history(record, null, version, s.capacity.row)
  return {'nulled': rows}


def arrays(
  s: Experiment, record: record_lib.Record, attempts: Attempts, version
) -> Batch:
  """Returns the record as a Batch, with its readings; a term that lacks is 0.

  Args:
    version: of the policy that played, [] i32; of several [R], or of all
  """
  record = unjudged(s, record)
  if record.role is not None:
    every = jnp.broadcast_to(version, len(s.algorithm.players))
    own = every[record.role][:, None, None]
    shape = record.message.shape
    record = record.replace(version=jnp.broadcast_to(own, shape))
    version = jnp.int32(0)
  batch = record_lib.batch(record, layout(s, record), attempts, version)
  batch = _with_late(s, batch, record)
  made = readings(s, record, batch, attempts, version)
  return batch.replace(readings=made)


def _with_late(s: Experiment, batch: Batch, record: record_lib.Record) -> Batch:
  """Returns the batch with late terms of turns that it does not have, too."""
  terms = late.lags(s.algorithm.spec)
  names = [x for term in terms for x in (term, late.known(term))]
  whole = {name: jnp.asarray(record.columns[name]) for name in names}
  turns = batch.turns
  return batch.replace(turns=turns.replace(terms=turns.terms | whole))


def unjudged(s: Experiment, record: record_lib.Record) -> record_lib.Record:
  """Returns the record with terms of 0 for judges that were not asked."""
  judges = registry.defaults(s.algorithm.spec).get('judge', {})
  names = [hp['term'] for hp in judges.values()]
  names += map(late.known, late.lags(s.algorithm.spec))
  zero = jnp.zeros(record.valid.shape)
  return record.replace(columns=dict.fromkeys(names, zero) | record.columns)


def rollout_and_score(
  s: Experiment, params, attempts: Attempts, key, version, newest=None
) -> Batch:
  """Plays the attempts and computes their rewards: one jitted program.

  Args:
    newest: policy and version of now, for collectors that take both; None:
      those that play
  """
  group, now = s.config.rollout.group_size, newest or (params, version)

  def sampler(params, version):
    def sample(attempts, key):
      record = play(s, params, attempts, key, group)
      return arrays(s, mark_spans(s, record), attempts, version)

    return sample

  x = CollectInputs(
    sample=sampler(params, version),
    newest=NewestPolicy(sampler(*now), reader(s, now[0])),
    score=functools.partial(score, s.algorithm.spec),
    attempts=attempts,
    key=key,
    scan=jax.lax.scan,
  )
  return collector(s.algorithm.spec)(x)


def reader(s: Experiment, params) -> Callable[[Rows], tuple[Array, Array]]:
  """Returns what reads rows with the policy: log-probs and entropies."""
  context = s.algorithm.context
  apply = context.modules[algorithm.POLICY].apply
  micro = pieces.sized(context.micro)

  def read(rows: Rows) -> tuple[Array, Array]:
    needs = 'logp', 'entropy'
    size = micro
    if not micro.fold:  # its rows must divide those of a part of a batch, too
      size = micro._replace(rows=math.gcd(micro.rows, len(rows.tokens)))
    out = microbatch.forward(apply, params, rows, needs, size)
    return out.logp, out.entropy

  return read


def plan(s: Experiment) -> AttemptPlan:
  """Plans what the attempts of every RL step have in common."""
  c, spec = s.config, s.algorithm.spec
  return AttemptPlan(
    tasks=len(s.train),
    group=num_attempts_of_group(spec, c.rollout.group_size),
    batch=num_attempts(spec, c.rollout.batch),
    limit=c.rollout.max_turns,
    seed=c.seed,
    temperature=c.rollout.temperature,
  )


def collector(w: registry.MethodSpec):
  """Binds the collect component of the method."""
  values = w.values('collect', w.collect)
  return registry.bind('collect', w.collect, values, 'c.collect')


def num_attempts(w: registry.MethodSpec, batch: int) -> int:
  """Counts a batch's attempts: more than it holds, if some are left out.

  The collect piece's hyper-parameters tell it: `times` as many groups, or
  groups `group_times` as large.
  """
  how = _collect_settings(w)
  return batch * how.get('times', 1) * how.get('group_times', 1)


def num_attempts_of_group(w: registry.MethodSpec, group: int) -> int:
  """Counts attempts at a task, c.rollout.group_size of them in the batch."""
  return group * _collect_settings(w).get('group_times', 1)


def _collect_settings(w: registry.MethodSpec) -> dict[str, Any]:
  """Returns the hyper-parameters of the collect component."""
  values = w.values('collect', w.collect)
  return registry.settings(registry.get('collect', w.collect), values)


def mark_spans(s: Experiment, record: record_lib.Record) -> record_lib.Record:
  """Marks the spans of the record's messages, where they have parts."""
  decisions = registered.kind_of(s.algorithm.spec).subgoal_words
  if not decisions:
    return record
  words, prefix = s.tokenizer, s.config.rollout.action_prefix
  switch = hierarchical.token(words, decisions[1], 'hp.rollout.options.switch')
  tag = hierarchical.token(words, prefix, 'rollout.action_prefix')
  return hierarchical.mark(record, switch, tag)


def demonstrate(
  s: Experiment, attempts: Attempts, tokens, length, key
) -> Batch:
  """Replays rows of the solver's own messages in the environment.

  Where it moves by itself (`Demonstrates`), rows of what it plays.
  """
  world = jit_compacted.demonstrated(s.world, s.plan.compaction)
  speaker: actor.Actor = actor.scripted(tokens, length)
  if isinstance(world.env, env_base.Demonstrates):
    world = world.replace(mover=world.env.demonstrate)
    speaker = actor.MoveActor(tokens, length)
  record = seats.rollout(world, s.plan, speaker, attempts, key)
  batch = record_lib.batch(record, layout(s, record), attempts, 0)
  return as_demonstrations(batch)


def as_demonstrations(batch: Batch) -> Batch:
  """Returns the batch with the source 2; nothing was sampled, nor attempted."""
  ids = {**batch.ids, 'source': jnp.full_like(batch.ids['source'], 2)}
  return batch.replace(ids=ids, sampled={}, attempted={})


def init_memory(s: Experiment, state):
  """Adds empty memories to the state, of the shapes that collecting gives."""
  if not s.algorithm.spec.memory:
    return state
  n = num_attempts(s.algorithm.spec, s.config.rollout.batch)
  attempts = attempts_at(np.zeros(n, np.int32), 1)
  recall = recall_base.of(s.algorithm.spec)
  if recall and not recall.every:
    attempts = attempts.replace(notes=recall_base.nothing(recall, n))
  if lengths.gives_turns(s.algorithm.spec.prefix):
    size = n, s.plan.turns, s.plan.message
    messages = Messages(np.zeros(size, np.int32), np.zeros(size[:2], np.int32))
    nothing = Prefix(np.zeros(n, np.int32), messages)
    attempts = attempts.replace(prefix=nothing)
  attempts = placement.replicated(attempts)
  policy = algorithm.played_params(s.algorithm, state.params)
  version = policies.played_versions(s.algorithm, state.step)

  def unplayed(policy, attempts, key, version):
    """Makes a batch of the shapes that host environments give."""

    def sample(attempts, key):
      record = record_lib.empty(
        len(attempts.task),
        s.plan.turns,
        s.plan.width,
        s.plan.message,
        s.world.columns,
      )
      record = s.world.seated(record)
      return arrays(s, record, attempts, version)

    spec = s.algorithm.spec
    x = CollectInputs(
      sample=sample,
      score=functools.partial(score, spec),
      attempts=attempts,
      key=key,
    )
    return collector(spec)(x)

  sample = unplayed if s.on_host else functools.partial(rollout_and_score, s)
  batch = jax.eval_shape(
    placement.sharded(sample), policy, attempts, state.key, version
  )
  return update.init_memory(s.algorithm, state, batch, len(s.train))


def demo_attempts(s: Experiment, index: np.ndarray) -> Attempts:
  """Makes attempts at tasks, each as long as its demonstration."""
  length = np.sum(s.train.actions[index] >= 0, axis=1)
  return attempts_at(index, np.minimum(length, s.plan.turns))


def attempts_at(index: np.ndarray, turns) -> Attempts:
  """Makes attempts at tasks, each of its own number of turns, at least one."""
  limit = np.broadcast_to(np.maximum(turns, 1), index.shape)
  return make_attempts(index, 1, 1, 1.0).replace(limit=limit.astype(np.int32))
