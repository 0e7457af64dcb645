"""Policy gradient: the gradient of a method's loss terms."""

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import importance
from agentrl.learner import teacher
from agentrl.learner.algorithm import BEHAVIOUR, Algorithm
from agentrl.loss import ppo
from agentrl.memory import trajectory_ring
from agentrl.model import microbatch
from agentrl.model.pieces import unfolded
from agentrl.types import Batch, LossInputs, Outputs, Span


def gradient(
  alg: Algorithm, params, batch, signals, credit, mask, key, other=None
):
  """Computes the gradient of the loss terms over tokens of `mask` [N, T].

  Coefficients are fixed over the whole sub-batch before it is cut. A loss
  that couples rows is differentiated once over all of them.

  Args:
    other: teacher.TeacherOutputs of the batch, where a term compares them
  Returns: gradient, (loss, metrics)
  """
  w, context = alg.spec, alg.context
  read = teacher.reader(alg, outputs_needed(w), other)
  beside = () if other is None else other.hidden  # of rows, for read
  micro = context.micro if other is None else unfolded(context.micro)
  terms = alg.losses
  inputs = LossInputs(
    outputs=Outputs(), batch=batch, credit=credit, signals=signals, key=key
  )
  coefficients = _coefficients(alg, inputs, mask)
  level = {k: v for k, v in signals.items() if v.shape == mask.shape}
  target = {k: v for k, v in credit.target.items() if v.shape == mask.shape}
  extras = (coefficients, credit.token, credit.weight, level, target)

  def total(out: Outputs, rows, extras):
    coefficients, token, weight, level, target = extras
    near = dict(level)
    if 'old_logp' not in near and out.logp is not None:
      near['old_logp'] = jax.lax.stop_gradient(out.logp)
    if alg.anchor == BEHAVIOUR and 'old_logp' in near:
      near['old_logp'] = importance.behaviour(rows, near['old_logp'])
    here = batch.replace(rows=rows)
    own = credit.replace(token=token, weight=weight, target=target)
    sums, metrics = {}, {}
    for name, term in terms.items():
      x = inputs.replace(
        outputs=out, batch=here, credit=own, signals={**signals, **near}
      )
      value, term_metrics = term(x)
      sums[name] = jnp.sum(coefficients[name] * value)
      metrics |= {f'{name}/{k}': v for k, v in term_metrics.items()}
    if out.logp is not None and 'old_logp' not in signals:
      metrics['logp/sampler_mismatch'] = mismatch(out, here)
    return sum(sums.values()), (sums, metrics)

  keep = jnp.any(
    jnp.stack([jnp.any(c != 0, 1) for c in coefficients.values()]), 0
  )
  if any(registry.get('loss', n).couples for n in w.loss):
    whole = lambda o: total(o, batch.rows, extras)  # noqa: E731
    grads, aux, _ = microbatch.gradient_of_outputs(
      read, params, batch.rows, beside, whole, micro, keep
    )
  else:
    each = lambda p, rows, e: total(read(p, rows, e[1]), rows, e[0])  # noqa: E731
    grads, aux = microbatch.gradient(
      each, params, batch.rows, (extras, beside), micro, keep
    )
  loss, (sums, metrics) = aux
  sums = {f'loss/{name}': (x, jnp.ones(())) for name, x in sums.items()}
  return grads, (loss, metrics | sums)


def outputs_needed(w: registry.MethodSpec) -> tuple[str, ...]:
  """Returns the fields of Outputs that the loss terms read."""
  names = {
    need.partition(':')[2]
    for name in w.loss
    for need in registry.get('loss', name).needs
    if need.startswith('output:')
  }
  return tuple(sorted(names))


def _coefficients(alg: Algorithm, x: LossInputs, mask):
  """Computes token coefficients over the whole sub-batch: {term: [N, T]}."""
  batch, out = x.batch, {}
  b, k = batch.turns.reward.shape
  for name in alg.losses:
    weight = jnp.where(mask, ppo.weights(name, x), 0)
    weight *= _selected(alg, name, batch)
    coef = alg.coef.get(name, 1.0)
    out[name] = coef * alg.reduce[name](weight, batch.rows, b, k)
  return out


def _selected(alg: Algorithm, term: str, batch: Batch):
  """Selects the tokens of a term, by span or source; all by default."""
  chosen = jnp.ones_like(batch.rows.logp)
  for what, value in alg.select.get(term, {}).items():
    if what == 'span':
      chosen *= segment.in_span(batch.rows.span, Span(value))
    else:
      has = (batch.ids[what] == value).astype(jnp.float32)
      chosen *= segment.index(batch).trajectories_to_tokens(has)
  return chosen


def mismatch(out: Outputs, batch: Batch):
  """Sums |learner - sampler| log-prob over sampled tokens: (nats, tokens)."""
  gap, mask = token_mismatch(out, batch)
  return jnp.sum(gap), jnp.sum(mask, dtype=jnp.float32)


def token_mismatch(out: Outputs, batch: Batch):
  """Compares log-probs of learner and sampler: |difference|, mask [N, T]."""
  mask = written(batch)
  gap = jnp.where(mask, jnp.abs(out.logp - batch.rows.logp), 0)
  return jax.lax.stop_gradient(gap), mask


def written(batch: Batch):
  """Marks the tokens that were sampled for this iteration."""
  rows = batch.rows
  mask = rows.sampled & (rows.logp != 0)
  if 'source' in batch.ids:
    index = segment.index(batch)
    source = index.trajectories_to_tokens(batch.ids['source'])
    mask &= source != trajectory_ring.REPLAYED
  return mask
