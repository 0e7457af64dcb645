"""Updates of an algorithm: signals, advantage, loss, gradients, new state."""

import functools
from collections.abc import Collection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh, optimizer, registry, schedule
from agentrl.advantage import chain
from agentrl.learner import policies, policy_gradient, teacher
from agentrl.learner.algorithm import (
  BEHAVIOUR,
  POLICY,
  Algorithm,
  bind_shared_params,
)
from agentrl.model import microbatch, qk_clip
from agentrl.rollout import stale
from agentrl.rollout.keys import Stream, step_key
from agentrl.types import (
  Batch,
  Credit,
  Metrics,
  Outputs,
  Signals,
  TrainState,
)

# Signals that the algorithm itself provides -> the field of Outputs they are.
OLD = {
  'old_logp': 'logp',
  'old_entropy': 'entropy',
  'old_sum_sq_prob': 'sum_sq_prob',
}


class Aux(NamedTuple):
  """The policy learned from these."""

  batch: Batch
  signals: Signals
  credit: Credit


def update(
  alg: Algorithm, state: TrainState, batch: Batch
) -> tuple[TrainState, Metrics, Any]:
  """Runs one iteration: curate, memory, signals, advantage, loss, parameters.

  Pure; jit it once and donate the state. Without minibatches the policy is not
  updated; signals, critics and memories are.

  Returns: state, metrics, what alg.sample makes of the Aux: by default all
  """
  past = stale.advance(state)
  alg, batch, remembered = curated(alg, state, batch)
  alg = bind_shared_params(alg, state.params)
  signals, metrics = old_policy_outputs(alg, state, batch)
  signals |= remembered
  state, signals, m = run_signals(alg, state, batch, signals)
  metrics |= m
  credit, m = compute_advantage(alg, batch, signals)
  metrics |= m
  if alg.players == (POLICY,):
    state, m = policy_update(alg, state, batch, signals, credit)
  else:
    state, m = policies.update_each(
      alg, state, batch, signals, credit, policy_update
    )
  metrics |= m
  state, m = update_critics(alg, state, batch, signals, credit)
  metrics |= m
  state, m = write_memory(alg, state, batch, credit)
  metrics |= m
  key = step_key(state.key, Stream.LOG, state.step)
  aux = alg.sample(Aux(batch, signals, credit), key)
  state = state.replace(step=state.step + 1, past=past)
  return state, metrics, aux


def curated(
  alg: Algorithm, state: TrainState, batch: Batch
) -> tuple[Algorithm, Batch, Signals]:
  """Returns what an iteration learns by and from, and memories' signals."""
  alg = schedule.resolve(alg, state.step - alg.start)
  batch = policies.learned(alg, batch)
  for select in alg.curate:
    batch = select(batch)
  return alg, *read_memory(alg, state, batch)


def minibatches(alg: Algorithm, state: TrainState, batch: Batch):
  """Deals the batch to sub-updates: masks [N, T] bool, see `minibatch`."""
  key = step_key(state.key, Stream.UPDATE, state.step)
  return alg.minibatch(batch, jax.random.fold_in(key, 0))


def read_memory(
  alg: Algorithm, state: TrainState, batch: Batch
) -> tuple[Batch, Signals]:
  """Returns the batch with what memories add to it, and their signals."""
  key = step_key(state.key, Stream.MEMORY, state.step)
  signals: Signals = {}
  for i, (name, memory) in enumerate(alg.memory.items()):
    batch, fields = memory.read(
      state.memory[name], batch, state.step, jax.random.fold_in(key, i)
    )
    signals |= fields
  return batch, signals


def write_memory(
  alg: Algorithm, state: TrainState, batch: Batch, credit: Credit
) -> tuple[TrainState, Metrics]:
  memory = {
    name: m.write(state.memory[name], batch, credit, state.step)
    for name, m in alg.memory.items()
  }
  key, params = step_key(state.key, Stream.LEAGUE, state.step), state.params
  for name, m in alg.memory.items():
    if m.keep is not None:
      memory[name], params = m.keep(memory[name], params, state.step, key)
  state = state.replace(params=params)
  metrics: Metrics = {}
  for name, m in alg.memory.items():
    metrics |= m.measure(memory[name])
  if memory:  # beside those of other stages
    state = state.replace(memory=state.memory | memory)
  return state, metrics


def old_outputs_needed(alg: Algorithm) -> list[str]:
  """Returns the names of OLD that some component reads.

  With one sub-update and no reader but its loss, old log-probs are the
  loss's own behind stop_gradient: that pass is saved. So it is where losses
  read the sampler's.
  """
  plan = registry.settings(
    registry.get('minibatch', alg.spec.minibatch),
    alg.spec.values('minibatch', alg.spec.minibatch),
  )
  several = plan.get('epochs', 1) * plan.get('n', 1) > 1
  recomputed = several and alg.anchor != BEHAVIOUR

  def needed(name: str, *slots: str) -> bool:
    return any(
      f'signal:{name}' in registry.needs(alg.spec, scope, slot, piece)
      for scope, slot, piece in registry.parts(alg.spec)
      if slot in slots
    )

  early = [name for name in OLD if needed(name, 'signal', 'link')]
  late = [
    name
    for name in OLD
    if needed(name, 'loss') and (recomputed or name != 'old_logp')
  ]
  return [*early, *(name for name in late if name not in early)]


def old_policy_outputs(
  alg: Algorithm, state: TrainState, batch: Batch
) -> tuple[Signals, Metrics]:
  """Computes the needed ones of OLD in one forward pass.

  Of several policies in one of each, over the rows that it wrote.
  """
  names = old_outputs_needed(alg)
  if not names:
    return {}, {}

  def read(x: policies.View) -> Outputs:
    out = microbatch.forward(
      x.alg.context.modules[POLICY].apply,
      x.state.params[POLICY],
      x.batch.rows,
      tuple(OLD[name] for name in names),
      alg.context.micro,
    )
    return x.own(out)

  each = map(read, policies.views(alg, state, batch))
  out = functools.reduce(lambda a, b: jax.tree.map(jnp.add, a, b), each)
  fields = {name: vars(out)[OLD[name]] for name in names}
  if out.logp is None:
    return fields, {}
  gap, mask = policy_gradient.token_mismatch(out, batch)
  some = jnp.any(mask).astype(jnp.float32)
  return fields, {
    'logp/sampler_mismatch': policy_gradient.mismatch(out, batch),
    'logp/sampler_mismatch_max': (jnp.max(gap), some),
  }


def run_signals(
  alg: Algorithm, state: TrainState, batch: Batch, signals: Signals
) -> tuple[TrainState, Signals, Metrics]:
  """Lets every signal score the batch, and learn before or after it does."""
  metrics: Metrics = {}
  for s in alg.signals.values():
    state = s.begin(state)
  for s in alg.signals.values():
    if s.order == 'update_then_score':
      state, m = s.update(state, batch, signals, None)
      metrics |= m
    fields, m = s.score(state, batch, signals)
    signals, metrics = {**signals, **fields}, metrics | m
    if s.order == 'score_then_update':
      state, m = s.update(state, batch, signals, None)
      metrics |= m
  return state, signals, metrics


@jax.named_scope('advantage')
def compute_advantage(
  alg: Algorithm, batch: Batch, signals: Signals
) -> tuple[Credit, Metrics]:
  coef = {s: alg.coef[s] for s in alg.streams if s in alg.coef}
  credit, metrics = chain.advantage(alg.streams, coef, alg.post, batch, signals)
  return credit, {f'advantage/{k}': v for k, v in metrics.items()}


def policy_update(
  alg: Algorithm, state: TrainState, batch: Batch, signals, credit: Credit
) -> tuple[TrainState, Metrics]:
  """Steps the policy once for every minibatch."""
  key = step_key(state.key, Stream.UPDATE, state.step)
  credit = credit.replace(token=chain.token_advantage(credit, batch.rows))
  masks = minibatches(alg, state, batch)
  if not masks:
    return state, {}
  other = teacher.outputs(alg, state.params, batch)

  def sub_update(carry, mask):
    params, opt = carry
    grads, (loss, metrics) = policy_gradient.gradient(
      alg, params, batch, signals, credit, mask, key, other
    )
    params, opt, more = qk_clip.step(
      alg.context, POLICY, grads, opt, params, batch.rows, mask
    )
    metrics |= {f'policy/{k}': v for k, v in more.items()}
    return (params, opt), metrics | {'loss/total': (loss, jnp.ones(()))}

  carry = state.params[POLICY], state.opt[POLICY]
  if len(masks) == 1:
    carry, metrics = sub_update(carry, masks[0])
  else:
    carry, metrics = jax.lax.scan(sub_update, carry, jnp.stack(masks))
    # Later sub-updates compare the sampler with a policy that has moved.
    gap = metrics.pop('logp/sampler_mismatch', None)
    metrics = jax.tree.map(jnp.sum, metrics)
    if gap is not None:
      metrics['logp/sampler_mismatch'] = jax.tree.map(lambda x: x[0], gap)
  state = state.replace(
    params={**state.params, POLICY: carry[0]},
    opt={**state.opt, POLICY: carry[1]},
  )
  return state, metrics


def update_critics(
  alg: Algorithm, state: TrainState, batch: Batch, signals, credit: Credit
) -> tuple[TrainState, Metrics]:
  """Lets signals that fit credit.target learn, once the policy has."""
  metrics: Metrics = {}
  for s in alg.signals.values():
    if s.order == 'after_advantage':
      state, m = s.update(state, batch, signals, credit)
      metrics |= m
  return state, metrics


def init(alg: Algorithm, key: jax.Array) -> TrainState:
  """Draws parameters; every role of the policy's shape starts as it."""

  def salt(role: str) -> int:
    return sum(ord(c) * 131**i for i, c in enumerate(role)) % (1 << 31)

  params = {
    role: mesh.init(module.specs, jax.random.fold_in(key, salt(role)))
    for role, module in alg.context.modules.items()
  }
  # Made on the whole mesh: devices of other processes have them too.
  step, own = mesh.init_replicated(
    lambda: (jnp.int32(0), jax.random.key(alg.seed))
  )
  states = {name: s.init() for name, s in alg.signals.items()}
  state = TrainState(
    step=step,
    params=params,
    opt={},
    signal={name: x for name, x in states.items() if x is not None},
    memory=(),
    key=own,
  )
  return init_roles_from_policy(alg, state)


def init_memory(
  alg: Algorithm, state: TrainState, batch: Batch, tasks: int
) -> TrainState:
  """Makes empty memories, for batches of this shape and `tasks` tasks."""
  memory = {
    name: m.begin(m.init(batch, tasks), state.params)
    for name, m in alg.memory.items()
  }
  return state.replace(memory=memory or ())


def init_roles_from_policy(
  alg: Algorithm, state: TrainState, carried: Collection[str] = ()
) -> TrainState:
  """Starts every role as the policy, as far as it has the same parameters.

  A new stage begins so: PRM and reference are the policy, a critic is its
  trunk under a fresh head. Optimizer states are fresh. What roles share stays
  as it is, where it is; so do roles that are policies of other runs, and what
  other stages have.

  Args:
    carried: roles that stay as they are, with fresh optimizer states
  """
  modules, rules = alg.context.modules, alg.context.rules
  own = modules[POLICY].specs
  shared = {m.share.role for m in modules.values() if m.share}
  unmoved = shared | alg.context.loaded | (set(carried) & modules.keys())

  def sizes(specs):
    return jax.tree.map(
      lambda p: (p.shape, p.axes), specs, is_leaf=mesh.is_param
    )

  def copy(tree):
    """Copies a tree: the state is donated, so roles must not share buffers."""
    return jax.tree.map(lambda x: x + jnp.zeros_like(x), tree)

  @jax.jit
  def fresh(params):
    new = {
      role: {
        name: copy(params[POLICY][name])
        if sizes(own.get(name)) == sizes(spec)
        else params[role][name]
        for name, spec in module.specs.items()
      }
      for role, module in modules.items()
      if role not in unmoved
    }
    now = params | new
    return new, {
      role: optimizer.init(rule, now[role], modules[role].specs)
      for role, rule in rules.items()
    }

  params, opt = fresh(state.params)
  return state.replace(params=state.params | params, opt=state.opt | opt)
