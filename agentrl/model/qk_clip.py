"""An optimizer step of a decoder, and QK-clip after it (nn/qk_clip.py)."""

import jax
import jax.numpy as jnp

from agentrl import mesh, optimizer
from agentrl.model import microbatch
from agentrl.nn import qk_clip, transformer
from agentrl.types import Outputs, Rows

NEEDS = ('attention_logit',)


def outputs(shape: transformer.DecoderConfig, params, rows: Rows) -> Outputs:
  """Returns the largest attention logits: a decoder's apply for NEEDS."""
  _, logit_LNH = transformer.routed(
    shape, params, rows.tokens, rows.seg, qk_clip.largest_logits
  )
  logit_NLH = jnp.moveaxis(logit_LNH, 0, 1)
  return Outputs(
    attention_logit=mesh.with_logical_sharding(logit_NLH, 'batch', None, None)
  )


def step(context, role: str, grads, opt, params, rows: Rows, keep=True):
  """Runs optimizer.step, then scales down heads over rule.qk_clip.

  The paper's logits are those of the step's own forward pass. Here they come
  from a pass of their own after the step, of the weights that are scaled: no
  attention kernel has to give its scores away, and nothing is sampled with
  logits that the step has just raised. It costs a forward pass.

  Args:
    context: signal.base.Context
    rows: those that the gradient is of
    keep: bool, [N, T] or of all tokens: which of them
  Returns: params, opt, metrics
  """
  rule, apply = context.rules[role], context.modules[role].apply
  params, opt, metrics = optimizer.step(rule, grads, opt, params)
  if not rule.qk_clip:
    return params, opt, metrics
  rows = rows.replace(sampled=rows.sampled & keep, weight=rows.weight * keep)
  out = microbatch.forward(apply, params, rows, NEEDS, context.micro)
  logit_LH = jnp.max(out.attention_logit, axis=0)
  over = jnp.mean(logit_LH > rule.qk_clip, dtype=jnp.float32)
  metrics |= {
    'attention_logit_max': (jnp.max(logit_LH), jnp.ones(())),
    'qk_clip_fraction': (over, jnp.ones(())),
  }
  stepped = metrics['grad_norm'][0] > 0
  clipped = qk_clip.clip(params, logit_LH, rule.qk_clip)
  params = jax.tree.map(
    lambda new, old: jnp.where(stepped, new, old), clipped, params
  )
  return params, opt, metrics
