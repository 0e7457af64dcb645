"""A reward model learned online from an annotator's labels that come late.

  h(x)  the head's value before the last sampled token of turn x
  l(x)  the label of a turn held by memory `annotations`, once it has come

classification   L = −mean_x [ l log σ(h) + (1 − l) log(1 − σ(h)) ]
                 r(x) = 1[ σ(h(x)) > threshold ]
ranking          L = −mean_(x,y) [ p log σ(d) + (1 − p) log(1 − σ(d)) ],
                 d = h(x) − h(y),  p = 1, ½ or 0 as l(x) >, = or < l(y)
                 z(x) = (h(x) − μ) / σ_h,   r(x) = z(x) 1[ z(x) >= q ]

μ and σ_h run over all turns that were scored so far, q is a quantile of z over
this batch. So r is below 0 where q <= z < 0, as in a batch whose turns score
lower than earlier ones. A pair is two labelled turns at random, whatever their
tasks, and ties pull together (Bradley and Terry, 1952; Motif, arXiv
2310.00166). Both forms are ONI's (arXiv 2410.23022). They pay turns whose label
has not come, or never will; nothing is paid before the first label has come,
and they go on paying when the memory has forgotten every label.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from agentrl import mesh, registry
from agentrl.advantage import returns
from agentrl.domain import Chance, Count, OneOf
from agentrl.loss import ppo
from agentrl.memory import annotations, trajectory_ring
from agentrl.model import pieces
from agentrl.ops import counting
from agentrl.rollout.keys import Stream, step_key
from agentrl.signal import gradient_steps, reward_model
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, Metrics, TrainState

NAME = 'annotated_reward'
FORMS = ('classification', 'ranking')
_LEAST = 1e-8  # of a variance that is divided by


def classified(h: Array, label: Array, known: Array) -> tuple[Array, Metrics]:
  """Returns the mean cross-entropy of labels in [0, 1], and its metrics.

  Args:
    h, label: [n, K]
    known: [n, K] bool, turns with a label
  """
  each = jnp.where(known, jax.nn.softplus(h) - label * h, 0)
  right = (h > 0) == (label > 0.5)
  told = {'accuracy': ppo.metric(right, known.astype(h.dtype))}
  return jnp.sum(each) / jnp.maximum(jnp.sum(known), 1), told


def ranked(h: Array, label: Array, known: Array, key) -> tuple[Array, Metrics]:
  """Returns the mean loss of pairs, and of those that differ what is right.

  Labelled turns stand in a circle at random; neighbours are a pair.

  Args:
    h, label: [n, K]
    known: [n, K] bool, turns with a label
  """

  def pairs(h, label, known, key):
    known = known.reshape(-1)
    noise = jnp.where(known, jax.random.uniform(key, known.shape), 2.0)
    order, count = jnp.argsort(noise), jnp.sum(known)
    at = jnp.arange(known.size)
    after = order[(at + 1) % jnp.maximum(count, 1)]
    h, label = h.reshape(-1), label.reshape(-1)
    live = (at < count) & (count > 1)
    return h[order] - h[after], jnp.sign(label[order] - label[after]), live

  d, side, live = mesh.auto(pairs, None)(h, label, known, key)
  each = jnp.where(live, jax.nn.softplus(d) - (1 + side) / 2 * d, 0)
  right = (d * side > 0) + 0.5 * (d == 0)
  told = ppo.metric(right, (live & (side != 0)).astype(h.dtype))
  loss = jnp.sum(each) / jnp.maximum(jnp.sum(live), 1)
  return loss, {'pair_accuracy': told}


def moments(state: dict[str, Array], x: Array, mask: Array):
  """Returns count, mean and sum of squares with x [B, K] where mask.

  Chan et al. (1979): the sums of two samples give those of both.
  """
  n = jnp.sum(mask).astype(jnp.float32)
  mean = jnp.sum(jnp.where(mask, x, 0)) / jnp.maximum(n, 1)
  squares = jnp.sum(jnp.where(mask, jnp.square(x - mean), 0))
  count, off = state['count'] + n, mean - state['mean']
  share = n / jnp.maximum(count, 1)
  return {
    'count': count,
    'mean': state['mean'] + off * share,
    'squares': state['squares'] + squares + off**2 * state['count'] * share,
  }


def quantile(x: Array, mask: Array, q: float) -> Array:
  """Returns the quantile of masked x [B, K], between neighbours; else inf."""

  def f(x, mask):
    ordered = jnp.sort(jnp.where(mask, x, jnp.inf), axis=None)
    last = jnp.maximum(jnp.sum(mask) - 1, 0)
    place = q * last.astype(x.dtype)
    low = jnp.floor(place).astype(jnp.int32)
    below, above = ordered[low], ordered[jnp.minimum(low + 1, last)]
    return below + jnp.where(above > below, (place - low) * (above - below), 0)

  return mesh.auto(f, None)(x, mask)


def normalised(state: dict[str, Array], h: Array, mask: Array, q: float):
  """Returns z 1[z >= its quantile q over masked turns]: [B, K]."""
  variance = state['squares'] / jnp.maximum(state['count'], 1)
  z = (h - state['mean']) / jnp.sqrt(jnp.maximum(variance, _LEAST))
  return jnp.where(z >= quantile(z, mask, q), z, 0)


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if the reward model has one head."""
  del spec
  role = config.role[reward_model.ROLE]
  if role.kind == 'train' and role.heads == 1:
    return ''
  at = f'role.{reward_model.ROLE}'
  return (
    f"{at}.kind must be 'train' and {at}.heads 1 for signal {NAME!r}, got"
    f' {role.kind!r} and {role.heads}'
  )


@registry.register(
  'signal',
  needs=(f'role:{reward_model.ROLE}', f'memory:{annotations.NAME}'),
  gives=(f'signal:{NAME}.step',),
  step=f'{NAME}.step',
  check=fits,
)
def annotated_reward(
  context: Context,
  *,
  form: Annotated[str, OneOf(*FORMS)] = 'classification',
  steps: Count = 4,
  threshold: Chance = 0.5,
  quantile_cut: Chance = 0.5,
) -> Signal:
  """Returns r [B, K] after its steps on labels; see the module's head.

  It learns from as many held trajectories as a batch has, drawn anew each
  iteration from those with a label.

  Metrics: annotated_reward/loss, summed over its steps; accuracy, labelled
  turns that it classifies as labelled, or pair_accuracy, pairs of different
  labels that it orders so, before each step and of what that step learns from;
  and paid, turns with r above 0.

  Args (hyper-parameters):
    form: 'classification' or 'ranking'
    steps: gradient steps on what is drawn, each iteration
    threshold: probability above which a turn is paid
    quantile_cut: share of a batch's turns, those with the lowest z, for which
      a ranking gives 0; it gives z, of either sign, for the others
  """
  role = reward_model.ROLE
  running = ('count', 'mean', 'squares') if form == 'ranking' else ()

  def read(state: TrainState, batch: Batch) -> tuple[Array, Array]:
    out = context.outputs(role, state.params[role], batch.rows, 'value')
    mask = counting.counted(batch, 'turn') & returns.sampled_turns(batch)
    return reward_model.turn_scores(out.value[..., 0], batch), mask

  def score(state, batch, signals):
    h, mask = read(state, batch)
    if form == 'ranking':
      r = normalised(state.signal[NAME], h, mask, quantile_cut)
    else:
      r = (jax.nn.sigmoid(h) > threshold).astype(h.dtype)
    r = jnp.where(mask & (state.signal[NAME]['taught'] > 0), r, 0)
    paid = ppo.metric(r > 0, mask.astype(r.dtype))
    return {f'{NAME}.step': r}, {f'{NAME}/paid': paid}

  def update(state, batch, signals, credit):
    key = step_key(state.key, Stream.LABELS, state.step)
    held = state.memory[annotations.NAME]
    drawn, label, known = draw(held, len(batch.outcome), key)

    def loss(out):
      h = reward_model.turn_scores(out.value[..., 0], drawn)
      if form == 'ranking':
        return ranked(h, label, known, jax.random.fold_in(key, 1))
      return classified(h, label, known)

    state, told = gradient_steps.fit_coupled(
      # What is drawn may need more places than the batch.
      context=context._replace(micro=pieces.unfolded(context.micro)),
      role=role,
      state=state,
      batch=drawn,
      loss=loss,
      needs=('value',),
      steps=steps,
      name=NAME,
    )
    own = state.signal[NAME]
    taught = jnp.maximum(own['taught'], jnp.any(held.known))
    if form == 'ranking':
      own = moments(own, *read(state, batch))
    own = own | {'taught': taught.astype(jnp.float32)}
    return state.replace(signal={**state.signal, NAME: own}), told

  def init():
    return {x: jnp.zeros(()) for x in ('taught', *running)}

  return Signal('update_then_score', score, update, init=init)


def draw(
  held: annotations.Annotations, n: int, key
) -> tuple[Batch, Array, Array]:
  """Draws n held trajectories with a label: a batch, l and where known [n, K].

  Fewer if there are fewer; the rest is padding.
  """

  def choose(known, key):
    live = jnp.any(known, axis=1)
    noise = jax.random.uniform(key, live.shape)
    slot = jnp.argsort(jnp.where(live, noise, 2.0))[:n]
    return slot, live[slot]

  slot, live = mesh.auto(choose, None)(held.known, key)
  label, known = trajectory_ring.take((held.label, held.known), slot)
  batch = trajectory_ring.alone(held.trajectories, slot, live)
  return batch, label, known & live[:, None]
