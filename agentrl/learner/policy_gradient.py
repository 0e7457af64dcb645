"""What the policy climbs: the gradient of a method's loss terms."""

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.learner.algorithm import POLICY, Learner
from agentrl.model import microbatch
from agentrl.types import Batch, Outputs


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
    grads, told, _ = microbatch.gradient_of_outputs(
      apply, params, batch.rows, lambda o: total(o, batch.rows, extras),
      needs, context.micro, keep,
    )  # fmt: skip
  else:
    grads, told = microbatch.gradient(
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
  mask = written(batch)
  gap = jnp.where(mask, jnp.abs(out.logp - batch.rows.logp), 0)
  return jax.lax.stop_gradient(jnp.sum(gap)), jnp.sum(mask).astype(jnp.float32)


def written(batch: Batch):
  """Tokens the policy sampled itself just now, where they stand."""
  rows = batch.rows
  fresh = jnp.ones_like(rows.sampled)
  if 'age' in batch.ids:
    age = batch.ids['age'][:, None]
    one = jnp.where(rows.traj >= 0, 0, -1)
    fresh = segment.to_tokens(age, rows.traj, one) == 0
  return rows.sampled & (rows.logp != 0) & fresh
