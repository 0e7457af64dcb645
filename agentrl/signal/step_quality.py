"""Step rewards held against what is known of the turns."""

import jax.numpy as jnp

from agentrl import ops, segment
from agentrl.ops import counting
from agentrl.types import Batch, Metrics

# Column of what an environment knows of turns -> metric of the correlation.
TRUTHS = {
  'progress': 'truth_correlation',
  'truth': 'advantage_correlation',
}


def summary(step, phi, reference, batch: Batch) -> Metrics:
  """Measures the PRM's distance from its reference, and what truths it knows.

  distance: mean of log ref - log phi over sampled tokens (k1 estimate of
    KL(ref || phi), nats per token).
  truths: correlation of step rewards with the solver's progress and with the
    exact advantage, where the environment knows them, see TRUTHS.
  """
  rows, counted = batch.rows, counting.counted(batch, 'turn')
  mask = rows.sampled & (rows.weight != 0)
  mask &= segment.index(batch).to_tokens(counted)
  mask = mask.astype(phi.dtype)
  metrics = {'kl': (jnp.sum(mask * (reference - phi)), jnp.sum(mask))}
  one = jnp.ones(())
  counted = counted.astype(phi.dtype)
  size = jnp.sum(counted * jnp.abs(step)) / jnp.maximum(jnp.sum(counted), 1)
  metrics['reward_size'] = (size, one)
  for column, name in TRUTHS.items():
    if column in batch.turns.terms:
      truth = batch.turns.terms[column]
      metrics[name] = correlation(step, truth, counted), one
  return metrics


def correlation(x, y, weight):
  """Computes weighted Pearson correlation; 0 if either side is constant."""
  total = jnp.maximum(jnp.sum(weight), 1)
  mean = lambda a: jnp.sum(weight * a) / total  # noqa: E731
  dx, dy = ops.deviation(x, weight), ops.deviation(y, weight)
  scale = jnp.sqrt(mean(dx * dx) * mean(dy * dy))
  return jnp.where(scale > 0, mean(dx * dy) / jnp.maximum(scale, 1e-30), 0.0)


def standardized(x, weight):
  """(x − mean) / deviation, both by weight; 0 where x is constant."""
  total = jnp.maximum(jnp.sum(weight), 1)
  gap = ops.deviation(x, weight)
  deviation = jnp.sqrt(jnp.sum(weight * gap**2) / total)
  return jnp.where(deviation > 0, gap / jnp.maximum(deviation, 1e-30), 0)


def error(x, truth, weight):
  """z(x) − ρ z(T), ρ the correlation of x with T: what x knows wrongly."""
  rho = correlation(x, truth, weight)
  return standardized(x, weight) - rho * standardized(truth, weight)
