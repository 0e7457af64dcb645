"""Diagnostics of tabular runs: credit against the exact advantage."""

import functools
from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from agentrl import segment
from agentrl.advantage import chain
from agentrl.lab.tabular import step_rewards
from agentrl.learner import update
from agentrl.signal import step_quality
from agentrl.types import Array, Batch, TrainState

EARLY = 10  # iterations that `early` measures go over
PRM = {'prm/kl': 'prm distance', 'prm/pair_accuracy': 'prm pair accuracy'}
CELLS = ('mt', 'mm', 'tt', 'ss', 'ssn')  # sums that bias and noise are made of


def measures(learner, state: TrainState, batch: Batch, v, last):
  """Returns the batch's credit and signals against the truth: {name: []}.

  Args:
    last: errors of the iteration before, see step_rewards.no_errors
  Returns: measures, and the errors of this one.
  """
  still = learner.without_policy()
  _, metrics, (_, signals, credit) = update.update(still, state, batch)
  truth = batch.turns.terms['truth']
  weight = batch.turns.valid.astype(truth.dtype)
  held = functools.partial(step_quality.correlation, y=truth, weight=weight)
  credit = chain.per_turn(credit, batch)
  out = {'credit correlation': held(credit)} | cell_sums(credit, batch)
  rewards = step_rewards.read(learner, batch, signals)
  measured, errors = step_rewards.measure(rewards, batch, last)
  out |= measured
  for metric, name in PRM.items():
    if metric in metrics:
      total, count = metrics[metric]
      out[name] = total / jnp.maximum(count, 1)
  if 'value' in signals:
    first = signals['value'][:, 0].reshape(weight.shape)
    k = jnp.broadcast_to(jnp.arange(weight.shape[1]), weight.shape)
    gap = weight * (first - v[k, batch.turns.state])
    out['value error'] = jnp.sqrt(jnp.sum(gap**2) / jnp.sum(weight))
  return out, errors


def cell_sums(credit, batch: Batch) -> dict[str, Array]:
  """Returns the sums that `bias_and_noise` is computed from: {name: []}.

  A cell is the turns of equal index, state and action, which have one truth.
  """
  turns, live = batch.turns, batch.turns.valid.reshape(-1)
  index = jnp.broadcast_to(jnp.arange(turns.valid.shape[1]), turns.valid.shape)
  same = segment.compact_ids(index.reshape(-1), batch.rows.tokens[:, 0])
  total = functools.partial(segment.segment_sum, ids=same, mask=live)
  x, t = credit.reshape(-1), turns.terms['truth'].reshape(-1)
  n = total(jnp.ones_like(x))
  mean = total(x) / jnp.maximum(n, 1)
  square = total((x - mean) ** 2) / jnp.maximum(n - 1, 1)
  over = lambda y: jnp.sum(jnp.where(live & (n > 1), y, 0))  # noqa: E731
  return {
    'mt': over(mean * t),
    'mm': over(mean**2),
    'tt': over(t**2),
    'ss': over(square),
    'ssn': over(square / jnp.maximum(n, 1)),
  }


def bias_and_noise(sums: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Returns bias and noise of credit, from sums over its cells.

  {bias, noise: [...]}, in units of the truth's root mean square.
  """
  x = {name: np.asarray(y, np.float64) for name, y in sums.items()}
  scale = np.maximum(0, x['mt'] / np.where(x['mm'] > 0, x['mm'], np.inf))
  wrong = scale**2 * (x['mm'] - x['ssn']) - 2 * scale * x['mt'] + x['tt']
  size = np.where(x['tt'] > 0, x['tt'], np.inf)
  return {
    'credit bias': np.sqrt(np.maximum(wrong, 0) / size),
    'credit noise': np.sqrt(scale**2 * x['ss'] / size),
  }


def summary(metrics: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Averages over iterations: all of them, and the EARLY first ones.

  credit correlation: with the exact advantage, over the turns of a batch; 0
    where either is constant
  credit bias, credit noise: see `bias_and_noise`
  prm correlation: of the signal's step reward with the exact advantage
  prm progress correlation: of the same with the solver's progress
  prm persistence: of its error from one iteration to the next
  prm persistence within states: of what tells a state's actions apart
  step ...: the same four of the credit of a stream named 'step'
  prm distance: mean log π − log φ of sampled tokens, nats
  prm pair accuracy: share of pairs whose solution scores higher
  value error: RMS of V − the exact value where trajectories went

  Args:
    metrics: {name: [R, S, I]}
  """
  out = {}
  for part, end in (('', None), ('early ', EARLY)):
    here = {name: np.asarray(x)[..., :end] for name, x in metrics.items()}
    sums = {name: here.pop(name).sum(-1) for name in CELLS}
    here = {
      name: step_rewards.persistence(x) if 'persistence' in name else x.mean(-1)
      for name, x in here.items()
    }
    means = here | bias_and_noise(sums)
    out |= {part + name: x for name, x in means.items()}
  return out
