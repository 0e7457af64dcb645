"""A reward blended of several terms, whose weights the primary one teaches.

BARFI (2310.19007) chooses a reward so that the policy it trains does well by
the primary reward. Here the blend is a few scalars and only the last inner
step is differentiated:

  r_φ = φ_0 + φ_1 r_primary + φ_2 r_auxiliary
  θ' = θ + η Σ_i φ_i g_i,   g_i = Σ_t ∇log π(a_t) G_i(t)
  dJ_primary(θ') / dφ_i = η ⟨∇J_primary(θ), g_i⟩ + O(η²)

G_i is the return to go of term i less its mean. ∇J comes from groups of odd
id and g_i from those of even id, so that a term does not look useful by the
noise they would share. No inverse Hessian, and the optimizer's preconditioner
is taken for a number; hence only the direction of the step is used.
"""

from typing import Annotated

import chex
import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import group_stats
from agentrl.domain import Discount, Named, NotNegative, Positive, Real, Tuple
from agentrl.model import microbatch
from agentrl.model.pieces import MicroBatch
from agentrl.ops import counting
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, Outputs

NAMES = ('constant', 'primary', 'auxiliary')


def fits(spec: registry.MethodSpec, config) -> str:
  """Returns '' if the model's attention can be differentiated forwards."""
  attention = config.model.attention
  if attention == 'xla':
    return ''
  return (
    f"model.attention must be 'xla', which has a forward mode, for signal"
    f" 'blend', got {attention!r}"
  )


@registry.register(
  'signal',
  needs=('role:policy', 'term:{primary}', 'term:{auxiliary}'),
  gives=('signal:blend',),
  check=fits,
)
def blend(
  context: Context,
  *,
  primary: Named = 'env',
  auxiliary: Named = 'progress',
  start: Annotated[tuple[float, float, float], Tuple(Real(), length=3)] = (
    0.0,
    1.0,
    1.0,
  ),
  gamma: Discount = 1.0,
  lr: NotNegative = 0.05,
  bound: Positive = 1.0,
) -> Signal:
  """Returns r_φ [B, K]; φ [3] is state, clipped to ±bound.

  φ += lr d / max |d|, d the gradient above.

  Args (hyper-parameters):
    primary, auxiliary: terms that the environment or a judge tells
    start: φ before the first iteration; (0, 1, 1) is the plain sum
    gamma: of the returns to go, per turn
    lr: largest change of a weight of φ per iteration
    bound: largest magnitude of a weight of φ
  """
  apply = context.modules['policy'].apply

  def score(state, batch, signals):
    weight = state.signal['blend']
    terms = terms_of(batch, primary, auxiliary)
    reward = sum(weight[i] * x for i, x in enumerate(terms))
    one = jnp.ones(())
    metrics = {f'blend/{n}': (weight[i], one) for i, n in enumerate(NAMES)}
    return {'blend': reward}, metrics

  def update(state, batch, signals, credit):
    terms = terms_of(batch, primary, auxiliary)
    gain = hypergradient(
      apply, state.params['policy'], batch, terms, gamma, context.micro
    )
    top = jnp.max(jnp.abs(gain))
    step = jnp.where(top > 0, gain / jnp.where(top > 0, top, 1), 0)
    weight = jnp.clip(state.signal['blend'] + lr * step, -bound, bound)
    return state.replace(signal={**state.signal, 'blend': weight}), {}

  return Signal(
    'score_then_update', score, update, init=lambda: jnp.float32(start)
  )


def terms_of(batch: Batch, primary: str, auxiliary: str) -> list[Array]:
  """Returns 1, the primary and auxiliary term [B, K]; 0 where unknown."""
  counted = counting.counted(batch, 'turn')
  terms = batch.turns.terms
  every = (jnp.ones_like(terms[primary]), terms[primary], terms[auxiliary])
  return [jnp.where(counted, x, 0) for x in every]


def returns_to_go(x: Array, batch: Batch, gamma: float) -> Array:
  """Σ_{j ≥ k} γ^{j−k} x_j less its mean over turns, on every token: [N, T]."""
  chex.assert_equal_shape([x, batch.turns.valid])
  counted = group_stats.counted(batch, 'trajectory')
  x = segment.accumulate_turns(x, gamma, batch.turns.valid)
  mean = jnp.sum(jnp.where(counted, x, 0)) / jnp.maximum(jnp.sum(counted), 1)
  x, rows = jnp.where(counted, x - mean, 0), batch.rows
  there = segment.index(batch).to_tokens(x)
  return jnp.where(rows.sampled, there * rows.weight, 0)


def hypergradient(
  apply, params, batch: Batch, terms, gamma: float, micro: int | MicroBatch
) -> Array:
  """Returns ⟨∇J_primary, g_i⟩ for each of the terms; terms[1] is primary: [3].

  One backward pass gives ∇J, one forward-mode pass along it every product.
  """
  chex.assert_equal_shape([*terms, batch.turns.valid])
  rows = batch.rows
  odd = (batch.ids['group'] % 2 == 1)[:, None]
  odd = jnp.broadcast_to(odd, batch.turns.valid.shape)
  outer = segment.index(batch).to_tokens(odd)
  goals = [returns_to_go(x, batch, gamma) for x in terms]

  bar = Outputs(logp=jnp.where(outer, goals[1], 0))
  total = microbatch.objective(apply, ('logp',), microbatch.linear)
  grads, _ = microbatch.gradient(total, params, rows, bar, micro)

  def logp(params):
    return microbatch.forward(apply, params, rows, ('logp',), micro).logp

  _, along = jax.jvp(logp, (params,), (grads,))
  inner = jnp.where(outer, 0, along)
  return jnp.stack([jnp.sum(inner * goal) for goal in goals])
