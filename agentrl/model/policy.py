"""Language models as Modules: policy, implicit PRM, reference alike."""

import functools

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.model import fold, microbatch, qk_clip, value
from agentrl.model.fold import FoldedRows
from agentrl.nn import chunked_logprob, layers, transformer, vocab_blocks
from agentrl.types import Module, Outputs, Rows

# Logits of this many numbers are held at once, at most; [N, T, V] never is.
LOGITS = 1 << 23
# Up to so many words, logits of a chunk of time are made at once and
# differentiated as they stand; of more, in blocks (nn/chunked_logprob.py). As
# fast below it, and not bound to reverse mode.
WORDS = 4096


def module(
  shape: transformer.DecoderConfig, temperature: float = 1.0, heads: int = 0
) -> Module:
  """Makes log-probs and entropies of the tokens that were written in rows.

  apply(params, rows, needs): needs names fields of Outputs among 'logp',
  'entropy' (nats) and 'sum_sq_prob'; all belong to softmax(logits /
  temperature), and are 0 at tokens that are neither sampled nor trained on.
  'hidden' are the states that these logits are made of by the module's head.
  With heads there is 'value' too, read as a critic's (model/value.py) from
  the stopped trunk: learning it moves the heads and nothing else.
  """

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    if needs == qk_clip.NEEDS:
      return qk_clip.outputs(shape, params, rows)
    words = tuple(name for name in needs if name not in ('value', 'hidden'))
    if isinstance(rows, FoldedRows):
      return folded(shape, params, rows, needs, words, temperature)
    wanted = microbatch.wanted(rows)
    look = jnp.pad(wanted[:, 1:], ((0, 0), (0, 1)))  # at the token before
    hidden = transformer.forward(shape, params, rows.tokens, rows.seg, look)
    out = Outputs()
    if words:
      out = token_outputs(
        shape, params, hidden, rows.tokens, wanted, words, temperature
      )
    if 'hidden' in needs:
      before = mesh.with_logical_sharding(_before(hidden), 'batch', None, None)
      out = out.replace(hidden=before)
    if 'value' not in needs:
      return out
    stopped = jax.lax.stop_gradient(hidden)
    return out.replace(value=value.read(params, stopped))

  def head(params):
    w, axis = transformer.head(params)
    return w, vocab_blocks.HeadConfig(axis, shape.logit_cap, temperature)

  specs = transformer.specs(shape)
  specs = specs | value.specs(shape, heads) if heads else specs
  return Module(specs, apply, head=head)


def folded(
  shape, params, rows: FoldedRows, needs, words, temperature
) -> Outputs:
  """Reads as `module`, of rows that are read folded (model/fold.py)."""
  f, hidden = rows.fold, fold.read(shape, params, rows)
  out = Outputs()
  if words:
    written = fold.pick(rows.tokens, f.wanted)
    before, wanted = fold.before_wanted(hidden, f), fold.is_wanted(f)
    each = _written(shape, params, before, written, wanted, words, temperature)
    out = Outputs(**{k: fold.spread(x, f) for k, x in each.items()})
  if 'hidden' in needs:
    out = out.replace(hidden=fold.before_each(hidden, f))
  if 'value' in needs:
    x = value.heads_of(params, jax.lax.stop_gradient(hidden))
    out = out.replace(value=fold.before_each(x, f))
  return out


def _before(hidden_NTD):
  """Returns hidden states before each token; 0 before the first."""
  return jnp.pad(hidden_NTD[:, :-1], ((0, 0), (1, 0), (0, 0)))


def token_outputs(
  shape, params, hidden_NTD, tokens_NT, wanted_NT, needs, temperature
) -> Outputs:
  """Returns log-prob and entropy of each wanted token, given what is before.

  What is not wanted (a prompt) costs nothing. Chosen by size, when traced: up
  to WORDS words chunk by chunk of time, more than that in blocks of words too,
  whose hand-written gradient rules out forward-mode differentiation.
  """
  before = _before(hidden_NTD)
  return Outputs(
    **_written(shape, params, before, tokens_NT, wanted_NT, needs, temperature)
  )


def _written(shape, params, before, tokens, wanted, needs, temperature) -> dict:
  """Returns `token_outputs` of states [N, T, D] before tokens, by name."""
  if shape.vocab > WORDS:
    head, axis = transformer.head(params)
    c = chunked_logprob.LogprobConfig(needs, temperature, shape.logit_cap, axis)
    return chunked_logprob.token_logprobs(c, before, head, tokens, wanted)

  def blank(h, *_):
    return dict.fromkeys(needs, jnp.zeros_like(h[..., 0], jnp.float32))

  return layers.map_chunks(
    functools.partial(_read, shape, params, needs, temperature),
    blank,
    (before, tokens, wanted),
    wanted,
    min(LOGITS // shape.vocab, transformer.CHUNK),
  )


def _read(shape, params, needs, temperature, h_NCD, tokens_NC, wanted_NC):
  logits = transformer.logits(params, h_NCD, shape.logit_cap) / temperature
  norm = jax.nn.logsumexp(logits, axis=-1)
  out = {}
  if 'logp' in needs:
    pick = mesh.auto(
      lambda x, i: jnp.take_along_axis(x, i[..., None], -1)[..., 0],
      ('batch', None),
    )
    chosen = pick(
      mesh.with_logical_sharding(logits, 'batch', None, None), tokens_NC
    )
    out['logp'] = jnp.where(wanted_NC, chosen - norm, 0.0)
  p = jax.nn.softmax(logits, axis=-1)
  if 'sum_sq_prob' in needs:
    square = jnp.sum(jnp.square(p), axis=-1)
    out['sum_sq_prob'] = jnp.where(wanted_NC, square, 0.0)
  if 'entropy' in needs:
    entropy = norm - jnp.sum(p * logits, axis=-1)
    out['entropy'] = jnp.where(wanted_NC, entropy, 0.0)
  return out
