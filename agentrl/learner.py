"""One iteration's updates: signals, advantage, loss, gradients, new state."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh, optim, registry, schedule, segment
from agentrl.advantage import chain
from agentrl.model import passes
from agentrl.signal.base import Context
from agentrl.types import Batch, Credit, Metrics, Outputs, Signals, TrainState

POLICY = 'policy'
# Signals that the learner gives -> the field of Outputs they are.
OLD = {
  'old_logp': 'logp',
  'old_entropy': 'entropy',
  'old_sum_sq_prob': 'sum_sq_prob',
}


class Learner(NamedTuple):
  """A method, and what it runs on."""

  wiring: registry.Wiring
  context: Context
  coef: Mapping[str, float] = {}  # of streams and of loss terms; default 1
  select: Mapping[str, Mapping[str, int]] = {}  # term -> {'span'|'source': id}
  # path ('coef.x', 'hp.scope.piece.name', 'role.policy.lr') -> a schedule
  schedules: Mapping[str, schedule.Schedule] = {}
  seed: int = 0
  start: int = 0  # the step of the run at which this learner's stage begins


def init(learner: Learner, key: jax.Array) -> TrainState:
  """Fresh parameters; every role that is the policy's shape starts as it."""
  params, opt = {}, {}
  for role, module in learner.context.modules.items():
    params[role] = mesh.init(module.specs, jax.random.fold_in(key, _salt(role)))
  state = TrainState(
    step=jnp.int32(0),
    params=params,
    opt=opt,
    signal=_signal_states(learner),
    memory=(),
    carry=(),
    key=jax.random.key(learner.seed),
  )
  return start_roles(learner, state)


def _signal_states(learner: Learner):
  """{signal: its state}, of those that have one beside parameters."""
  states = zip(learner.wiring.signal, _signals(learner), strict=True)
  states = {name: s.init() for name, s in states}
  return {name: x for name, x in states.items() if x is not None}


def _salt(role: str) -> int:
  return sum(ord(c) * 131**i for i, c in enumerate(role)) % (1 << 31)


def start_roles(learner: Learner, state: TrainState) -> TrainState:
  """Every role starts as the policy, as far as it has the same parameters.

  What a new stage begins with: PRM and reference are the policy, a critic is
  its trunk under a fresh head. Optimizer states are fresh.
  """
  modules, rules = learner.context.modules, learner.context.rules
  own = modules[POLICY].specs

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
    }
    return params, {
      role: optim.init(rule, params[role], modules[role].specs)
      for role, rule in rules.items()
    }

  params, opt = fresh(state.params)
  return state.replace(params=params, opt=opt)


def _sizes(specs):
  return jax.tree.map(lambda p: (p.shape, p.axes), specs, is_leaf=mesh.is_param)


def _copy(tree):
  """New buffers: the state is donated, so roles must not share any."""
  return jax.tree.map(lambda x: x + jnp.zeros_like(x), tree)


def update(
  learner: Learner, state: TrainState, batch: Batch
) -> tuple[TrainState, Metrics]:
  """One iteration. Pure; jit it once and donate the state."""
  learner = schedule.resolve(learner, state.step - learner.start)
  key = jax.random.fold_in(jax.random.fold_in(state.key, 1), state.step)
  state, batch, signals, credit, metrics = judge(learner, state, batch)
  state, told = _train(learner, state, batch, signals, credit, key)
  metrics |= told
  state, told = _look_back(learner, state, batch, signals, credit)
  return state.replace(step=state.step + 1), metrics | told


def credit(
  learner: Learner, state: TrainState, batch: Batch
) -> tuple[TrainState, Credit, Metrics]:
  """An iteration in which only the signals learn and the policy stays.

  Returns: the state after it, what the turns and tokens of the batch were
    credited with, metrics
  """
  learner = schedule.resolve(learner, state.step - learner.start)
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

  made = _signals(learner)
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
  for s in _signals(learner):
    if s.order == 'after_advantage':
      state, told = s.update(state, batch, signals, credit)
      metrics |= told
  memory = {
    name: m.write(state.memory[name], batch, credit, state.step)
    for name, m in memories(learner).items()
  }
  return state.replace(memory=memory or state.memory), metrics


def memories(learner: Learner):
  """{name: Memory} of the wiring."""
  w = learner.wiring
  return {
    name: registry.bind('memory', name, w.values('memory', name))()
    for name in w.memory
  }


def forget(learner: Learner, state: TrainState, batch: Batch) -> TrainState:
  """The state with empty memories, of the shapes of such a batch."""
  memory = {name: m.init(batch) for name, m in memories(learner).items()}
  return state.replace(memory=memory or ())


def _recall(learner: Learner, state, batch) -> tuple[Batch, Signals]:
  """The batch with what memories add to it."""
  key = jax.random.fold_in(jax.random.fold_in(state.key, 4), state.step)
  signals: Signals = {}
  for i, (name, m) in enumerate(memories(learner).items()):
    batch, told = m.read(
      state.memory[name], batch, state.step, jax.random.fold_in(key, i)
    )
    signals |= told
  return batch, signals


def _signals(learner: Learner):
  w = learner.wiring
  return [
    registry.bind('signal', name, w.values('signal', name))(learner.context)
    for name in w.signal
  ]


def _wanted(w: registry.Wiring, slots: tuple[str, ...], signal: str) -> bool:
  """Whether a piece of one of the slots needs the signal."""
  return any(
    f'signal:{signal}' in registry.needs(w, scope, slot, name)
    for scope, slot, name in registry.parts(w)
    if slot in slots
  )


def _old(learner: Learner, state, batch) -> tuple[Signals, Metrics]:
  """What the learner itself says when the update begins, where it is wanted.

  old_logp, old_entropy and old_sum_sq_prob, in one forward pass. With one
  sub-update and nobody but its loss looking, old log-probs are the loss's own
  behind stop_gradient: that pass is saved.
  """
  w, context = learner.wiring, learner.context
  wanted = [name for name in OLD if _wanted(w, ('signal', 'link'), name)]
  several = _sub_updates(w) > 1
  for name in OLD:
    late = _wanted(w, ('loss',), name) and (several or name != 'old_logp')
    if late and name not in wanted:
      wanted.append(name)
  if not wanted:
    return {}, {}
  out = passes.forward(
    context.modules[POLICY].apply,
    state.params[POLICY],
    batch.rows,
    tuple(OLD[name] for name in wanted),
    context.micro,
  )
  fields = {name: vars(out)[OLD[name]] for name in wanted}
  if out.logp is None:
    return fields, {}
  gap = jnp.abs(jnp.where(_written(batch), out.logp - batch.rows.logp, 0))
  return fields, {'logp/gap_max': (jnp.max(gap), jnp.ones(()))}


def _sub_updates(w: registry.Wiring) -> int:
  plan = registry.settings(
    registry.get('plan', w.plan), w.values('plan', w.plan)
  )
  return plan.get('epochs', 1) * plan.get('n', 1)


def _written(batch: Batch):
  """Tokens the policy sampled itself just now, where they stand."""
  rows = batch.rows
  fresh = jnp.ones_like(rows.sampled)
  if 'age' in batch.ids:
    age = batch.ids['age'][:, None]
    one = jnp.where(rows.traj >= 0, 0, -1)
    fresh = segment.to_tokens(age, rows.traj, one) == 0
  return rows.sampled & (rows.logp != 0) & fresh


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
    grads, (loss, metrics) = gradient(
      learner, params, batch, signals, credit, mask, key
    )
    params, opt, more = optim.step(rule, grads, opt, params)
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


def gradient(learner: Learner, params, batch, signals, credit, mask, key):
  """Gradient of the sum of loss terms over the tokens of `mask` [N, T].

  Coefficients are fixed over the whole sub-batch before it is cut. A loss
  that couples rows is differentiated once over all of them.
  Returns: gradient, (loss, metrics)
  """
  w, context = learner.wiring, learner.context
  apply = context.modules[POLICY].apply
  needs = outputs_needed(w)
  terms = {
    n: registry.bind('loss', n, w.values(n, n), 'c.loss') for n in w.loss
  }
  weights = _coefficients(learner, terms, batch, signals, credit, mask, key)
  level = {k: v for k, v in signals.items() if v.shape == mask.shape}
  target = {k: v for k, v in credit.target.items() if v.shape == mask.shape}
  extras = (weights, credit.token, credit.weight, level, target)

  def total(out: Outputs, rows, extras):
    weights, token, weight, level, target = extras
    near = dict(level)
    if 'old_logp' not in near and out.logp is not None:
      near['old_logp'] = jax.lax.stop_gradient(out.logp)
    here = batch.replace(rows=rows)
    own = credit.replace(token=token, weight=weight, target=target)
    sums, metrics = {}, {}
    for name, term in terms.items():
      value, _, told = term(out, here, own, {**signals, **near}, key)
      sums[name] = jnp.sum(weights[name] * value)
      metrics |= {f'{name}/{k}': v for k, v in told.items()}
    if out.logp is not None:
      metrics['logp/gap'] = _gap(out, here)
    return sum(sums.values()), (sums, metrics)

  keep = jnp.any(jnp.stack([jnp.any(c != 0, 1) for c in weights.values()]), 0)
  if any(registry.get('loss', n).couples for n in w.loss):
    grads, told, _ = passes.gradient_of_outputs(
      apply, params, batch.rows, lambda o: total(o, batch.rows, extras),
      needs, context.micro, keep,
    )  # fmt: skip
  else:
    grads, told = passes.gradient(
      apply, params, batch.rows, extras, total, needs, context.micro, keep
    )
  loss, (sums, metrics) = told
  sums = {f'loss/{name}': (x, jnp.ones(())) for name, x in sums.items()}
  return grads, (loss, metrics | sums)


def outputs_needed(w: registry.Wiring) -> tuple[str, ...]:
  """Fields of Outputs that the loss terms look at."""
  found = {
    need.partition(':')[2]
    for name in w.loss
    for need in registry.get('loss', name).needs
    if need.startswith('output:')
  }
  return tuple(sorted(found))


def _coefficients(learner: Learner, terms, batch, signals, credit, mask, key):
  """{term: [N, T]}: coefficient of each token, over the whole sub-batch.

  A term's weight is asked for with empty outputs: only a loss that couples
  rows may let it depend on them.
  """
  w, (b, k) = learner.wiring, batch.turns.reward.shape
  zeros = jnp.zeros_like(batch.rows.logp)
  blank = Outputs(
    logp=zeros, entropy=zeros, sum_sq_prob=zeros, value=zeros[..., None]
  )
  out = {}
  for name, term in terms.items():
    dummy = {'old_logp': zeros, **signals}
    _, weight, _ = term(blank, batch, credit, dummy, key)
    weight = jnp.where(mask, weight, 0) * _selected(learner, name, batch)
    how = w.reduce.get(name, 'token_mean')
    reduce = registry.bind('reduce', how, w.values(name, how), 'c.reduce')
    coef = learner.coef.get(name, 1.0)
    out[name] = coef * reduce(weight, batch.rows, b, k)
  return out


def _selected(learner: Learner, term: str, batch: Batch):
  """1 where the term looks, by span or source; all by default."""
  chosen = jnp.ones_like(batch.rows.logp)
  for what, value in learner.select.get(term, {}).items():
    if what == 'span':
      chosen *= batch.rows.span == value
    else:
      has = (batch.ids[what] == value).astype(jnp.float32)[:, None]
      one = jnp.where(batch.rows.traj >= 0, 0, -1)
      chosen *= segment.to_tokens(has, batch.rows.traj, one)
  return chosen


def _gap(out: Outputs, batch: Batch):
  """Mean |log pi - behaviour log-prob| over tokens the policy sampled."""
  mask = _written(batch)
  gap = jnp.where(mask, jnp.abs(out.logp - batch.rows.logp), 0)
  return jax.lax.stop_gradient(jnp.sum(gap)), jnp.sum(mask).astype(jnp.float32)
