"""Gradient steps of a role that a signal learns with."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from agentrl.model import microbatch, qk_clip
from agentrl.signal.base import Context
from agentrl.types import Batch, Metrics, Outputs, TrainState


def fit(
  context: Context,
  role: str,
  state: TrainState,
  batch: Batch,
  extras: Any,
  loss: microbatch.RowLoss,
  needs: tuple[str, ...],
  steps: int = 1,
) -> tuple[TrainState, Metrics]:
  """Takes `steps` steps of the role's optimizer on all rows of the batch.

  Args:
    extras: pytree of [N, ...] arrays that the loss is handed with its rows
    loss: (outputs, rows, extras) of a micro-batch -> (sum, metrics)
    needs: fields of Outputs that the loss looks at
  Returns: state, metrics named `<role>/...`, summed over the steps
  """
  total = microbatch.objective(context.modules[role].apply, needs, loss)

  def gradient(params):
    return microbatch.gradient(total, params, batch.rows, extras, context.micro)

  return _steps(context, role, state, batch, gradient, steps)


def fit_coupled(
  context: Context,
  role: str,
  state: TrainState,
  batch: Batch,
  loss: Callable[[Outputs], tuple[jax.Array, Metrics]],
  needs: tuple[str, ...],
  steps: int,
  name: str = '',
) -> tuple[TrainState, Metrics]:
  """Fits, as `fit`, a loss that looks at the outputs of all rows at once.

  Args:
    name: of the metrics, `<name>/...`; '': the role's
  """
  read = microbatch.reader(context.modules[role].apply, needs)

  def gradient(params):
    grads, metrics, _ = microbatch.gradient_of_outputs(
      read, params, batch.rows, (), loss, context.micro
    )
    return grads, metrics

  return _steps(context, role, state, batch, gradient, steps, name)


def _steps(
  context: Context,
  role: str,
  state,
  batch,
  gradient,
  steps: int,
  name: str = '',
):
  """Takes `steps` of the role's optimizer along gradient(params)."""

  def once(carry, _):
    params, opt = carry
    grads, (value, metrics) = gradient(params)
    params, opt, more = qk_clip.step(
      context, role, grads, opt, params, batch.rows
    )
    return (params, opt), {**metrics, **more, 'loss': (value, jnp.ones(()))}

  start = state.params[role], state.opt[role]
  (params, opt), metrics = jax.lax.scan(once, start, None, length=steps)
  name = name or role
  metrics = {f'{name}/{k}': (s.sum(), w.sum()) for k, (s, w) in metrics.items()}
  state = state.replace(
    params={**state.params, role: params}, opt={**state.opt, role: opt}
  )
  return state, metrics
