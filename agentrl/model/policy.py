"""Language models as Modules: policy, implicit PRM, reference alike."""

import functools

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import transformer
from agentrl.types import Module, Outputs, Rows

# Logits of this many numbers are held at once, at most; [N, T, V] never is.
LOGITS = 1 << 23
# Tokens whose logits are read together: few, so that what nobody wants (a
# prompt) is skipped; enough for an efficient product.
TOKENS = 2048


def module(shape: transformer.Shape, temperature: float = 1.0) -> Module:
  """Log-probs and entropies of the tokens that were written in rows.

  apply(params, rows, needs): needs names fields of Outputs among 'logp' and
  'entropy'; both belong to softmax(logits / temperature), in nats, and are 0
  at tokens that are neither sampled nor trained on.
  """

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    hidden = transformer.forward(shape, params, rows.tokens, rows.seg)
    wanted = rows.sampled | (rows.weight != 0)
    return token_outputs(
      shape, params, hidden, rows.tokens, wanted, needs, temperature
    )

  return Module(specs=transformer.specs(shape), apply=apply)


def token_outputs(
  shape, params, hidden_NTD, tokens_NT, wanted_NT, needs, temperature
) -> Outputs:
  """Log-prob and entropy of each wanted token, given what stands before it.

  Goes over chunks of time, each recomputed in the backward pass; a chunk in
  which nothing is wanted (a prompt) costs nothing.
  """
  n, t, _ = hidden_NTD.shape
  most = min(LOGITS // (n * shape.vocab), -(-TOKENS // n))
  size = max(1, min(t, most))
  pieces = -(-t // size)
  size = -(-t // pieces)
  before = jnp.concatenate(
    [jnp.zeros_like(hidden_NTD[:, :1]), hidden_NTD[:, :-1]], axis=1
  )
  xs = [_chunks(x, pieces, size) for x in (before, tokens_NT, wanted_NT)]
  read = functools.partial(_read, params, needs, temperature)
  if pieces == 1:
    out = read(*(x[0] for x in xs))
    return Outputs(**{k: v[:, :t] for k, v in out.items()})

  def step(_, x):
    blank = jnp.zeros(x[0].shape[:2], jnp.float32)
    nothing = dict.fromkeys(needs, blank)
    return None, jax.lax.cond(
      jnp.any(x[2]), jax.checkpoint(read), lambda *_: nothing, *x
    )

  _, out = jax.lax.scan(step, None, tuple(xs))
  return Outputs(**{k: _unchunk(v, t) for k, v in out.items()})


def _read(params, needs, temperature, h_NCD, tokens_NC, wanted_NC):
  logits = transformer.logits(params, h_NCD) / temperature
  norm = jax.nn.logsumexp(logits, axis=-1)
  out = {}
  if 'logp' in needs:
    pick = mesh.auto(
      lambda x, i: jnp.take_along_axis(x, i[..., None], -1)[..., 0],
      ('batch', None),
    )
    chosen = pick(mesh.place(logits, 'batch', None, None), tokens_NC)
    out['logp'] = jnp.where(wanted_NC, chosen - norm, 0.0)
  if 'entropy' in needs:
    p = jax.nn.softmax(logits, axis=-1)
    entropy = norm - jnp.sum(p * logits, axis=-1)
    out['entropy'] = jnp.where(wanted_NC, entropy, 0.0)
  return out


def _chunks(x, pieces: int, size: int):
  """[N, T, ...] -> [pieces, N, size, ...], padded."""
  pad = pieces * size - x.shape[1]
  x = jnp.pad(x, ((0, 0), (0, pad)) + ((0, 0),) * (x.ndim - 2))
  x = x.reshape(x.shape[0], pieces, size, *x.shape[2:])
  return jnp.moveaxis(x, 1, 0)


def _unchunk(x, t: int):
  x = jnp.moveaxis(x, 0, 1)
  return x.reshape(x.shape[0], -1)[:, :t]
