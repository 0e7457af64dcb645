"""Mixture of experts: every token through the few MLPs its router prefers.

No token is dropped: (token, expert) pairs are sorted by expert and each
expert multiplies its own, however many these are.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.types import Array


class Routing(NamedTuple):
  """Where tokens went, summed over them: adds over micro-batches and devices.

  Of one layer without the leading L.
  """

  chosen: Array  # [L, E] f32  tokens that went to an expert
  prob: Array  # [L, E] f32  router probabilities
  log_norm_sq: Array  # [L] f32  squared log-normalisers of the router logits
  tokens: Array  # [L] f32


def route(logits_ME, top_k: int, unit: bool):
  """The top_k experts of each token, in float32.

  Args:
    logits_ME: of M tokens over E experts
    unit: whether the weights of a token's experts are made to sum to 1
  Returns: weight [M, top_k] f32, expert [M, top_k] i32
  """
  weight, expert = jax.lax.top_k(jax.nn.softmax(logits_ME, axis=-1), top_k)
  if unit:
    weight /= jnp.sum(weight, axis=-1, keepdims=True)
  return weight, expert


def mix(p: dict, x_NTD, live_NT, top_k: int, unit: bool, activation):
  """sum_e weight_e MLP_e(x) over each token's experts (1701.06538).

  Args:
    p: router [D, E], gate and up [E, D, F], down [E, F, D]
    live_NT: bool, tokens counted in Routing
    top_k, unit: of `route`
  Returns: [N, T, D], Routing of this layer
  """
  n, t, width = x_NTD.shape

  def run(p, x_NTD, live_NT):
    x = x_NTD.reshape(n * t, width)
    logits = (x @ p['router'].astype(x.dtype)).astype(jnp.float32)
    weight, expert = route(logits, top_k, unit)
    y = _through(p, x, weight.astype(x.dtype), expert, activation)
    return y.reshape(n, t, width), *_told(logits, expert, live_NT.reshape(-1))

  # Sorting mixes what lies on different devices: the compiler places it.
  whole = (None,) * len(Routing._fields)
  y, *told = mesh.auto(run, ('batch', None, None), *whole)(p, x_NTD, live_NT)
  return y, Routing(*told)


def _through(p: dict, x_MD, weight_MK, expert_MK, activation):
  """Weighted sum of what its experts make of each token: [M, D]."""
  m, k = expert_MK.shape
  order = jnp.argsort(expert_MK.reshape(-1))
  counts = jnp.bincount(expert_MK.reshape(-1), length=p['gate'].shape[0])

  def product(x, name):
    return jax.lax.ragged_dot(x, p[name].astype(x.dtype), counts)

  x = x_MD[order // k]
  y = product(activation(product(x, 'gate')) * product(x, 'up'), 'down')
  y *= weight_MK.reshape(-1)[order][:, None]
  return jnp.zeros((m, y.shape[-1]), y.dtype).at[order // k].add(y)


def _told(logits_ME, expert_MK, live_M) -> Routing:
  live = live_M.astype(jnp.float32)
  experts = logits_ME.shape[-1]
  counts = jax.nn.one_hot(expert_MK, experts, dtype=jnp.float32)
  norm = jax.nn.logsumexp(logits_ME, axis=-1)
  prob = jax.nn.softmax(logits_ME, axis=-1)
  return Routing(
    chosen=live @ jnp.sum(counts, axis=1),
    prob=live @ prob,
    log_norm_sq=live @ jnp.square(norm),
    tokens=jnp.sum(live),
  )
