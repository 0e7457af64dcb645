"""An implicit PRM learned by temporal differences over turns.

A language model φ beside the policy π, and a value V, are fitted to

  V(h_k) + δ(h_k, a_k)  ~  r_k + γ stop[ V(h_k+1) ],   V = 0 beyond the end,
  δ(h_k, a_k) = β Σ_{l in a_k} (log φ − log π)(a_k,l | ...)

by the mean square over the turns that count, and δ is the turn's reward. As in
`implicit_prm` the reward is a log-ratio, but its target passes through the
value of the next turn, and so through the outcomes of all trajectories that V
holds for alike; pairs of trajectories know one outcome each, which the policy's
own update already follows.

With all data, and φ and V that can be anything, V + δ is Q(h, a) = E[r + γ V']
and, since E_π exp(δ / β) = 1 for a ratio of distributions,

  V(h) = β log E_π exp(Q / β),   δ = Q − V:

the value and advantage of π as β grows. Over a turn's actions V is above their
mean Q by at most 1 / 8β where Q lies within a range of 1. That depends on h
alone and cancels in a policy gradient, so that δ is not centred.

φ is carried along with the policy: before an iteration its parameters move as
the policy's did in the iteration before,

  θ_φ ← θ_π + (θ_φ − θ_previous),   θ_previous ← θ_π,

so that log φ = log π + δ keeps δ (exactly in tables, to first order in a
network). A φ that stays where it was would be credited with what the policy
has unlearned since. Rewards are exactly zero while φ is the policy.

Steps on one batch may share a target (`period`): V is then read again at every
so manieth step alone, and is what a network that lags behind would say.

The value is read at a message's first sampled token. Trajectories that a limit
cut short are not bootstrapped, as in `gae`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import returns
from agentrl.domain import Count, Discount, Positive
from agentrl.model import microbatch
from agentrl.ops import counting
from agentrl.signal import gradient_steps, implicit_prm, step_quality
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, Outputs, Signals, TrainState

Target = Callable[[Array, Batch, float], tuple[Array, Array]]


class Part(NamedTuple):
  """One role's part of the prediction."""

  role: str
  need: str  # field of Outputs
  read: Callable[[Outputs, Batch, Signals], Array]  # [B, K], differentiable


def next_value(v: Array, batch: Batch, gamma: float) -> tuple[Array, Array]:
  """Returns r_k + γ V(h_k+1), and the turns that have one: [B, K] both."""
  has = returns.sampled_turns(batch)
  goal = returns.reward(batch) + gamma * segment.next_turn(v, has)
  return goal, has & counting.counted(batch, 'turn')


def outcome(v: Array, batch: Batch, gamma: float) -> tuple[Array, Array]:
  """Σ_{j ≥ k} γ^{j-k} r_j: nothing passes from one trajectory to another."""
  has = returns.sampled_turns(batch)
  goal = segment.accumulate_turns(returns.reward(batch), gamma, has)
  return goal, has & counting.counted(batch, 'trajectory')


# Role of the signals here -> its kind, and whether it has heads.
_ROLES = {
  'prm': ('train', False),
  'previous': ('ema', False),
  'value': ('train', True),
}


def fits(spec: registry.MethodSpec, config) -> str:
  """Returns '' if the PRM is a language model and its value a critic."""
  for signal in spec.signal:
    if registry.get('signal', signal).check is not fits:
      continue
    for need in registry.needs(spec, 'signal', 'signal', signal):
      name = need.partition(':')[2]
      if need != f'role:{name}' or name not in _ROLES:
        continue
      role, (kind, headed) = config.role[name], _ROLES[name]
      if role.kind != kind or bool(role.heads) != headed:
        return (
          f'role.{name}.kind must be {kind!r} and role.{name}.heads'
          f' {int(headed)} for signal {signal!r}, got {role.kind!r} and'
          f' {role.heads}'
        )
  return ''


# Of a φ that is carried along, with a value beside it.
_with_ratio = registry.register(
  'signal',
  needs=(
    *('role:policy', 'role:prm', 'role:previous', 'role:value'),
    'signal:old_logp',
  ),
  gives=('signal:td_prm.step', 'along_turns'),
  check=fits,
  step='td_prm.step',
  tabular=True,
)


@_with_ratio
def td_prm(
  context: Context,
  *,
  beta: Positive = 1.0,
  gamma: Discount = 1.0,
  steps: Count = 4,
  period: Count = 1,
) -> Signal:
  """Returns δ [B, K] after its steps on this batch, in units of the return.

  Args (hyper-parameters):
    beta: units of the return for a nat
    gamma: per turn
    steps: gradient steps of φ and V on the whole batch
    period: steps between new targets; the first of a batch has new ones
  """
  return _ratio_signal(context, next_value, beta, gamma, steps, period)


@_with_ratio
def td_prm_by_outcome(
  context: Context,
  *,
  beta: Positive = 1.0,
  gamma: Discount = 1.0,
  steps: Count = 4,
) -> Signal:
  """Runs `td_prm` whose target is the turn's own return to go, as a control.

  Args:
    beta: reward per nat of log-ratio
    gamma: discount of the return to go, per turn
    steps: gradient steps, each iteration
  """
  return _ratio_signal(context, outcome, beta, gamma, steps, 1)


@registry.register(
  'signal',
  needs=('role:value',),
  gives=('signal:td_error.step', 'along_turns'),
  check=fits,
  step='td_error.step',
  tabular=True,
)
def td_error(
  context: Context, *, gamma: Discount = 1.0, steps: Count = 4
) -> Signal:
  """r_k + γ V(h_k+1) − V(h_k) [B, K]: the critic of `td_prm` without its φ.

  Args (hyper-parameters):
    gamma: per turn
    steps: gradient steps of V on the whole batch, each with new targets
  """
  parts = (VALUE,)

  def score(state, batch, signals):
    v = VALUE.read(outputs(context, parts, state, batch)['value'], batch, {})
    goal, mask = next_value(v, batch, gamma)
    return {'td_error.step': jnp.where(mask, goal - v, 0)}, {}

  def update(state, batch, signals, credit):
    return _fit(
      context,
      parts,
      next_value,
      gamma=gamma,
      steps=steps,
      period=1,
      state=state,
      batch=batch,
      signals=signals,
    )

  return Signal('update_then_score', score, update)


def _ratio_signal(
  context: Context,
  target: Target,
  beta: float,
  gamma: float,
  steps: int,
  period: int,
) -> Signal:
  ratio = Part('prm', 'logp', _read_ratio(beta))

  def score(state, batch, signals):
    out = outputs(context, (ratio,), state, batch)['prm']
    assert out.logp is not None
    step = ratio.read(out, batch, signals)
    metrics = step_quality.summary(step, out.logp, signals['old_logp'], batch)
    metrics = {f'prm/{name}': x for name, x in metrics.items()}
    return {'td_prm.step': step}, metrics

  def update(state, batch, signals, credit):
    parts = VALUE, ratio
    return _fit(
      context,
      parts,
      target,
      gamma=gamma,
      steps=steps,
      period=period,
      state=state,
      batch=batch,
      signals=signals,
    )

  return Signal('update_then_score', score, update, begin=carry_along)


def carry_along(state: TrainState) -> TrainState:
  """Moves φ as the policy moved since; `previous` is the policy as it is."""
  phi, previous = state.params['prm'], state.params['previous']
  policy = {name: state.params['policy'][name] for name in phi}
  # As if φ never left the policy, where it is what the policy was.
  moved = jax.tree.map(lambda x, p, y: x + (p - y), policy, phi, previous)
  return state.replace(
    params={**state.params, 'prm': moved, 'previous': policy}
  )


def _read_value(out: Outputs, batch: Batch, signals: Signals) -> Array:
  index = segment.index(batch)
  first, _ = index.bounds(batch.rows.sampled)
  assert out.value is not None
  return index.at_turns(out.value[..., 0], first)


def _read_ratio(beta: float):
  def read(out: Outputs, batch: Batch, signals: Signals) -> Array:
    assert out.logp is not None
    return beta * implicit_prm.turn_log_ratio(
      out.logp, signals['old_logp'], batch
    )

  return read


VALUE = Part('value', 'value', _read_value)


def outputs(
  context: Context, parts: tuple[Part, ...], state: TrainState, batch: Batch
) -> dict[str, Outputs]:
  """Computes what every part reads, by role."""
  return {
    p.role: context.outputs(p.role, state.params[p.role], batch.rows, p.need)
    for p in parts
  }


def objective(
  parts: tuple[Part, ...],
  target: Target,
  gamma: float,
  batch: Batch,
  signals: Signals,
) -> Callable[[dict[str, Outputs], Array], Array]:
  """Averages ( Σ parts − target )² over the turns that count.

  Returns: of every part's outputs and of the value [B, K] that the target
    passes through, which is not differentiated
  """

  def loss(outs, v):
    terms = [p.read(outs[p.role], batch, signals) for p in parts]
    goal, mask = target(jax.lax.stop_gradient(v), batch, gamma)
    error = jnp.where(mask, sum(terms) - goal, 0)
    return jnp.sum(jnp.square(error)) / jnp.maximum(jnp.sum(mask), 1)

  return loss


def _fit(
  context: Context,
  parts: tuple[Part, ...],
  target: Target,
  gamma: float,
  steps: int,
  period: int,
  state: TrainState,
  batch: Batch,
  signals: Signals,
):
  """Takes `steps` steps of every part's role down the gradient of `objective`.

  Args:
    parts: the first is the value that the target passes through
    period: steps for which that value stands
  """
  loss = objective(parts, target, gamma, batch, signals)
  first = parts[0]

  def once(carry, i):
    state, v = carry
    outs = outputs(context, parts, state, batch)
    now = first.read(outs[first.role], batch, signals)
    v = jnp.where(i % period == 0, now, v)
    value, bars = jax.value_and_grad(loss)(outs, v)
    metrics = {'value/td_error': (value, jnp.ones(()))}
    for p in parts:
      state, more = gradient_steps.fit(
        context,
        p.role,
        state,
        batch,
        extras=bars[p.role],
        loss=microbatch.linear,
        needs=(p.need,),
      )
      more.pop(f'{p.role}/loss')  # of the linear form that has this gradient
      metrics |= more
    return (state, v), metrics

  none = jnp.zeros_like(batch.turns.reward)
  (state, _), metrics = jax.lax.scan(once, (state, none), jnp.arange(steps))
  return state, jax.tree.map(jnp.sum, metrics)
