"""One iteration's updates: signals, advantage, loss, gradients, new state."""

import jax
import jax.numpy as jnp

from agentrl import mesh, optimizer, registry, schedule
from agentrl.advantage import chain
from agentrl.learner import algorithm, policy_gradient
from agentrl.learner.algorithm import POLICY, Learner
from agentrl.model import microbatch
from agentrl.rollout.keys import Stream, step_key
from agentrl.types import Batch, Credit, Metrics, Signals, TrainState

# Signals that the learner gives -> the field of Outputs they are.
OLD = {
  'old_logp': 'logp',
  'old_entropy': 'entropy',
  'old_sum_sq_prob': 'sum_sq_prob',
}


def init(learner: Learner, key: jax.Array) -> TrainState:
  """Fresh parameters; every role that is the policy's shape starts as it."""
  params, opt = {}, {}
  for role, module in learner.context.modules.items():
    params[role] = mesh.init(module.specs, jax.random.fold_in(key, _salt(role)))
  # Made on the whole mesh: devices of other processes have them too.
  step, own = mesh.everywhere(
    lambda: (jnp.int32(0), jax.random.key(learner.seed))
  )
  state = TrainState(
    step=step,
    params=params,
    opt=opt,
    signal=_signal_states(learner),
    memory=(),
    carry=(),
    key=own,
  )
  return start_roles(learner, state)


def _signal_states(learner: Learner):
  """{signal: its state}, of those that have one beside parameters."""
  states = zip(learner.wiring.signal, algorithm.signals(learner), strict=True)
  states = {name: s.init() for name, s in states}
  return {name: x for name, x in states.items() if x is not None}


def _salt(role: str) -> int:
  return sum(ord(c) * 131**i for i, c in enumerate(role)) % (1 << 31)


def start_roles(learner: Learner, state: TrainState) -> TrainState:
  """Every role starts as the policy, as far as it has the same parameters.

  What a new stage begins with: PRM and reference are the policy, a critic is
  its trunk under a fresh head. Optimizer states are fresh. What roles share
  stays as it is, where it is.
  """
  modules, rules = learner.context.modules, learner.context.rules
  own = modules[POLICY].specs
  shared = {m.share.role for m in modules.values() if m.share}

  @jax.jit
  def fresh(params):
    params = {
      role: {
        name: _copy(params[POLICY][name])
        if _sizes(own.get(name)) == _sizes(spec)
        else params[role][name]
        for name, spec in module.specs.items()
      }
      for role, module in modules.items()
      if role not in shared
    }
    return params, {
      role: optimizer.init(rule, params[role], modules[role].specs)
      for role, rule in rules.items()
    }

  params, opt = fresh(state.params)
  kept = {role: state.params[role] for role in shared}
  return state.replace(params=kept | params, opt=opt)


def _sizes(specs):
  return jax.tree.map(lambda p: (p.shape, p.axes), specs, is_leaf=mesh.is_param)


def _copy(tree):
  """New buffers: the state is donated, so roles must not share any."""
  return jax.tree.map(lambda x: x + jnp.zeros_like(x), tree)


def update(
  learner: Learner, state: TrainState, batch: Batch
) -> tuple[TrainState, Metrics]:
  """One iteration. Pure; jit it once and donate the state."""
  state, metrics, _ = explained(learner, state, batch)
  return state, metrics


def explained(
  learner: Learner, state: TrainState, batch: Batch
) -> tuple[TrainState, Metrics, tuple[Batch, Signals, Credit]]:
  """`update`, and what the policy learned from: batch, signals, credit."""
  learner = _now(learner, state)
  key = step_key(state.key, Stream.UPDATE, state.step)
  state, batch, signals, credit, metrics = judge(learner, state, batch)
  state, told = _train(learner, state, batch, signals, credit, key)
  metrics |= told
  state, told = _look_back(learner, state, batch, signals, credit)
  state = state.replace(step=state.step + 1)
  return state, metrics | told, (batch, signals, credit)


def _now(learner: Learner, state: TrainState) -> Learner:
  """The learner of this step, its modules on what they share."""
  learner = schedule.resolve(learner, state.step - learner.start)
  return algorithm.bound(learner, state.params)


def credit(
  learner: Learner, state: TrainState, batch: Batch
) -> tuple[TrainState, Credit, Metrics]:
  """An iteration in which only the signals learn and the policy stays.

  Returns: the state after it, what the turns and tokens of the batch were
    credited with, metrics
  """
  learner = _now(learner, state)
  state, batch, signals, credit, metrics = judge(learner, state, batch)
  state, told = _look_back(learner, state, batch, signals, credit)
  return state.replace(step=state.step + 1), credit, metrics | told


def judge(learner: Learner, state: TrainState, batch: Batch):
  """Everything before the policy's gradient.

  Returns: state, the curated batch, signals, credit, metrics
  """
  w = learner.wiring
  for name in w.curate:
    batch = registry.bind('curate', name, w.values('curate', name))(batch)
  batch, told = _recall(learner, state, batch)
  signals, metrics = _old(learner, state, batch)
  signals |= told

  made = algorithm.signals(learner)
  for s in made:
    state = s.begin(state)
  for s in made:
    if s.order == 'update_then_score':
      state, told = s.update(state, batch, signals, None)
      metrics |= told
    fields, told = s.score(state, batch, signals)
    signals, metrics = {**signals, **fields}, metrics | told
    if s.order == 'score_then_update':
      state, told = s.update(state, batch, signals, None)
      metrics |= told

  credit, told = advantage(learner, batch, signals)
  metrics |= {f'advantage/{k}': v for k, v in told.items()}
  return state, batch, signals, credit, metrics


def _look_back(learner: Learner, state, batch, signals, credit):
  """What learns from the credit: critics, and memories of trajectories."""
  metrics = {}
  for s in algorithm.signals(learner):
    if s.order == 'after_advantage':
      state, told = s.update(state, batch, signals, credit)
      metrics |= told
  memory = {
    name: m.write(state.memory[name], batch, credit, state.step)
    for name, m in algorithm.memories(learner).items()
  }
  return state.replace(memory=memory or state.memory), metrics


def forget(learner: Learner, state: TrainState, batch: Batch) -> TrainState:
  """The state with empty memories, of the shapes of such a batch."""
  memory = {
    name: m.init(batch) for name, m in algorithm.memories(learner).items()
  }
  return state.replace(memory=memory or ())


def _recall(learner: Learner, state, batch) -> tuple[Batch, Signals]:
  """The batch with what memories add to it."""
  key = step_key(state.key, Stream.MEMORY, state.step)
  signals: Signals = {}
  for i, (name, m) in enumerate(algorithm.memories(learner).items()):
    batch, told = m.read(
      state.memory[name], batch, state.step, jax.random.fold_in(key, i)
    )
    signals |= told
  return batch, signals


def _wanted(w: registry.Wiring, slots: tuple[str, ...], signal: str) -> bool:
  """Whether a piece of one of the slots needs the signal."""
  return any(
    f'signal:{signal}' in registry.needs(w, scope, slot, name)
    for scope, slot, name in registry.parts(w)
    if slot in slots
  )


def old_wanted(learner: Learner) -> list[str]:
  """What the learner itself has to say when the update begins: names of OLD.

  With one sub-update and nobody but its loss looking, old log-probs are the
  loss's own behind stop_gradient: that pass is saved.
  """
  w = learner.wiring
  wanted = [name for name in OLD if _wanted(w, ('signal', 'link'), name)]
  several = _sub_updates(w) > 1
  for name in OLD:
    late = _wanted(w, ('loss',), name) and (several or name != 'old_logp')
    if late and name not in wanted:
      wanted.append(name)
  return wanted


def _old(learner: Learner, state, batch) -> tuple[Signals, Metrics]:
  """old_logp, old_entropy and old_sum_sq_prob, in one forward pass."""
  context, wanted = learner.context, old_wanted(learner)
  if not wanted:
    return {}, {}
  out = microbatch.forward(
    context.modules[POLICY].apply,
    state.params[POLICY],
    batch.rows,
    tuple(OLD[name] for name in wanted),
    context.micro,
  )
  fields = {name: vars(out)[OLD[name]] for name in wanted}
  if out.logp is None:
    return fields, {}
  gap = jnp.abs(
    jnp.where(policy_gradient.written(batch), out.logp - batch.rows.logp, 0)
  )
  return fields, {'logp/gap_max': (jnp.max(gap), jnp.ones(()))}


def _sub_updates(w: registry.Wiring) -> int:
  plan = registry.settings(
    registry.get('plan', w.plan), w.values('plan', w.plan)
  )
  return plan.get('epochs', 1) * plan.get('n', 1)


def advantage(learner: Learner, batch, signals) -> tuple[Credit, Metrics]:
  w = learner.wiring

  def links(scope, names):
    return [
      registry.bind('link', n, w.values(scope, n), f'c.stream.{scope}')
      for n in names
    ]

  streams = {s: links(s, w.stream[s]) for s in w.advantage}
  coef = {s: learner.coef[s] for s in streams if s in learner.coef}
  finish = links('finish', w.finish)
  return chain.advantage(streams, coef, finish, batch, signals)


def _train(learner: Learner, state, batch, signals, credit, key):
  """The plan's sub-updates of the policy."""
  w, context = learner.wiring, learner.context
  credit = credit.replace(token=chain.token_advantage(credit, batch.rows))
  plan = registry.bind('plan', w.plan, w.values('plan', w.plan))
  masks = plan(batch, jax.random.fold_in(key, 0))
  rule = context.rules[POLICY]

  def sub(carry, mask):
    params, opt = carry
    grads, (loss, metrics) = policy_gradient.gradient(
      learner, params, batch, signals, credit, mask, key
    )
    params, opt, more = optimizer.step(rule, grads, opt, params)
    metrics |= {f'policy/{k}': v for k, v in more.items()}
    return (params, opt), metrics | {'loss/total': (loss, jnp.ones(()))}

  carry = state.params[POLICY], state.opt[POLICY]
  if not masks:
    return state, {}
  if len(masks) == 1:
    carry, metrics = sub(carry, masks[0])
  else:
    carry, metrics = jax.lax.scan(sub, carry, jnp.stack(masks))
    metrics = jax.tree.map(jnp.sum, metrics)
  state = state.replace(
    params={**state.params, POLICY: carry[0]},
    opt={**state.opt, POLICY: carry[1]},
  )
  return state, metrics
