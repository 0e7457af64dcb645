"""A learned value function: scores before the advantage, learns after it."""

import jax.numpy as jnp

from agentrl import ops, registry
from agentrl.domain import Count, Width
from agentrl.loss import ppo
from agentrl.signal import gradient_steps
from agentrl.signal.base import Context, Signal, nothing

HEADS = ('low', 'high', 'switch')


def _heads_register(names: tuple[str, ...], *, tabular: bool = False):
  return registry.register(
    'signal',
    needs=('role:value', *(f'target:{name}' for name in names)),
    gives=tuple(f'signal:{name}' for name in names),
    tabular=tabular,
  )


@_heads_register(('value',), tabular=True)
def value(context: Context, *, clip: Width = 0.2, steps: Count = 4) -> Signal:
  """Estimates V(state before each token), regressed on credit.target['value'].

  Loss, mean over the regressed tokens, v_old the score of this iteration
  (Schulman et al., 1707.06347, with the clipping of their code):

    1/2 max((v - R)^2, (clip(v, v_old - c, v_old + c) - R)^2)

  Args (hyper-parameters):
    clip: c, in units of the return; inf leaves the plain squared error
    steps: gradient steps on the whole batch, each iteration
  """
  return _heads(context, ('value',), clip, steps)


@_heads_register(HEADS)
def heads(context: Context, *, clip: Width = 0.2, steps: Count = 4) -> Signal:
  """Learns a value head for each of HiPER's advantages, with its own target.

  Loss: the sum of the heads', each as `value`'s. Head i of the role 'value'
  is HEADS[i], regressed on credit.target[HEADS[i]].

  Args:
    clip: c, in units of the return; inf leaves the plain squared error
    steps: gradient steps of the critic, each iteration
  """
  return _heads(context, HEADS, clip, steps)


@_heads_register(HEADS[:2])
def low_and_high(
  context: Context, *, clip: Width = 0.2, steps: Count = 4
) -> Signal:
  """Learns `heads` without one for the switch: two heads of the role 'value'.

  Args:
    clip: c, in units of the return; inf leaves the plain squared error
    steps: gradient steps of the critic, each iteration
  """
  return _heads(context, HEADS[:2], clip, steps)


def _heads(
  context: Context, names: tuple[str, ...], clip: float, steps: int
) -> Signal:
  labels = {name: (f'{name}_clip', f'{name}_explained') for name in names}
  labels['value'] = 'clip', 'explained_variance'  # of a critic with one head

  def score(state, batch, signals):
    out = context.outputs('value', state.params['value'], batch.rows, 'value')
    return {name: out.value[..., i] for i, name in enumerate(names)}, {}

  def loss(out, rows, extra):
    total, metrics = 0.0, {}
    for i, name in enumerate(names):
      error, clipped = _error(out.value[..., i], *extra[name], clip)
      total, metrics[labels[name][0]] = total + error, clipped
    return total, metrics

  def update(state, batch, signals, credit):
    extra, metrics = {}, {}
    for name in names:
      goal, weight = credit.target[name], credit.target[f'{name}.weight']
      share = weight / jnp.maximum(jnp.sum(weight), 1)
      extra[name] = goal, share, signals[name]
      explained = _explained(signals[name], goal, weight)
      metrics[f'value/{labels[name][1]}'] = explained
    state, fitted = gradient_steps.fit(
      context, 'value', state, batch, extra, loss, ('value',), steps
    )
    return state, fitted | metrics

  return Signal('after_advantage', score, update)


def _error(v, target, weight, old, clip):
  """Sums w `ops.clipped_error`, and (sum, weight) of what is clipped."""
  error, clipped = ops.clipped_error(v, target, old, clip)
  return jnp.sum(weight * error), ppo.metric(clipped, weight)


@registry.register(
  'signal', needs=('role:policy', 'output:value'), gives=('signal:value',)
)
def policy_value(context: Context) -> Signal:
  """Reads the policy's own value head, on its stopped trunk.

  It is learned by a loss term of the policy, `value` or `value_clipped`.
  """

  def score(state, batch, signals):
    out = context.outputs('policy', state.params['policy'], batch.rows, 'value')
    return {'value': out.value[..., 0]}, {}

  return Signal('score_then_update', score, nothing)


def _explained(value, target, weight):
  """Returns 1 - Var(target - value) / Var(target), over regressed tokens."""
  total = jnp.maximum(jnp.sum(weight), 1)

  def var(x):
    return jnp.sum(weight * jnp.square(ops.deviation(x, weight))) / total

  share = 1 - var(target - value) / jnp.maximum(var(target), 1e-8)
  return share, jnp.ones(())
