"""PPO and what changes its ratios, in all cases on the same tokens."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.types import Credit, Outputs
from tests import batches

STORY = batches.story(seed=2, groups=2, members=3)
HP = {'clip_low': 0.2, 'clip_high': 0.3}
STALE = {'clip_low': 0.8, 'clip_high': 5.0, 'tail': 0.4}
COV = HP | {'fraction': 0.1, 'least': 0.2, 'most': 4.0}

# case -> loss, hyper-parameters, key
CASES = {
  'ppo': ('ppo', HP, 0),
  'clip_cov': ('clip_cov', COV, 3),
  'another_key': ('clip_cov', COV, 4),
  'far': ('clip_cov', COV | {'least': 1e3, 'most': 1e4}, 3),
  'kl_cov': ('kl_cov', {'fraction': 0.1, 'coef': 0.7}, 0),
  'balanced': ('ppo_balanced', {'clip_low': 0.1, 'clip_high': 0.15}, 0),
  'future': (
    'ppo_future',
    HP | {'coef': 0.4, 'gamma': 0.8, 'future_clip': 0.3},
    0,
  ),
  'future_begins': ('ppo_future', HP, 0),
  'stale': ('ppo_stale', STALE, 0),
  'stale_begins': ('ppo_stale', HP, 0),
  'ppo_begins': ('ppo', HP, 0),
}
VARIANTS = ('turn', batches.EXPLICIT)


def make_inputs(layout='packed', seed=0):
  """Outputs, batch, credit, signals; a token's values do not depend on rows."""
  laid = jax.tree.map(jnp.asarray, batches.lay(STORY, layout, padding=1))
  rows, noise = laid.batch.rows, laid.tokens
  # The `prm` and `value` noise of the story stand in for credit and weight.
  sampled = rows.sampled
  weight = jnp.where(noise['value'] > -0.7, 0.5 + (noise['prm'] > 0), 0.0)
  credit = Credit(
    turn=jnp.full(laid.batch.turns.valid.shape, jnp.nan),  # not to be read
    token=jnp.where(sampled, 2 * noise['prm'], 0),
    weight=weight,
    target={},
  )
  return Outputs(logp=noise['logp']), laid.batch, credit, laid.signals


def every_case(inputs):
  """{case: (value, weight, gradient of their sum)}."""
  outputs, batch, credit, signals = inputs

  def f(logp, name, hp, key, signals):
    inputs = Outputs(logp), batch, credit, signals
    value, weight, _ = batches.loss(name, inputs, key, **hp)
    return jnp.sum(value * weight), (value, weight)

  out = {}
  for case, args in CASES.items():
    old = {'old_logp': outputs.logp} if 'begins' in case else {}
    (_, terms), grad = jax.value_and_grad(f, has_aux=True)(
      outputs.logp, *args, signals | old
    )
    out[case] = *terms, grad
  return out


@functools.cache
def compiled_cases(variant):
  """Every case on a row per turn, or packed on an explicit mesh."""
  if variant == 'turn':
    inputs = make_inputs('turn')
    return inputs, jax.jit(every_case)(inputs)
  inputs = make_inputs('packed')
  return inputs, batches.on_a_mesh(every_case, (inputs,), inputs[0].logp.shape)


def trained_tokens(inputs):
  """Trained tokens in row order, and in the order of trajectory and time."""
  outputs, batch, credit, signals = jax.tree.map(np.asarray, inputs)
  rows, out = batch.rows, []
  for n, t in zip(*np.nonzero(rows.sampled), strict=True):
    out.append(
      {
        'at': (n, t),
        'order': (rows.traj[n, t], rows.turn[n, t], t),
        'a': credit.token[n, t],
        'w': credit.weight[n, t],
        'logp': outputs.logp[n, t],
        'log_rho': outputs.logp[n, t] - signals['old_logp'][n, t],
      }
    )
  return out


def ppo(x, a, low=0.2, high=0.2):
  rho = np.exp(x['log_rho'])
  return max(-a * rho, -a * min(max(rho, 1 - low), 1 + high))


def slope(x, a, low=0.2, high=0.2):
  """d ppo / d log π: none where the clipped value is the larger one."""
  rho = np.exp(x['log_rho'])
  clipped = -a * min(max(rho, 1 - low), 1 + high) > -a * rho
  return 0.0 if clipped else -a * rho
