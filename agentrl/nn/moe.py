"""Mixture of experts: every token through the few MLPs its router prefers.

No token is dropped: (token, expert) pairs are sorted by expert and each expert
processes its own, however many. With experts sharded over devices, each device
gathers all tokens, applies its experts, and the results are reduce-scattered.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.nn import layers, lora
from agentrl.nn.lora import Adapted
from agentrl.runtime import precision
from agentrl.types import Array

NAMES = ('router', 'gate', 'up', 'down')


class Routing(NamedTuple):
  """Routing statistics, sums over tokens: adds over micro-batches and devices.

  Of one layer without the leading L.
  """

  chosen: Array  # [L, E] f32  tokens that went to an expert
  prob: Array  # [L, E] f32  router probabilities
  tokens: Array  # [L] f32


def route(logits_ME, top_k: int, unit: bool):
  """Selects the top_k experts of each token, in float32.

  Args:
    logits_ME: of M tokens over E experts
    unit: whether to normalise the weights of a token's experts to sum to 1
  Returns: weight [M, top_k] f32, expert [M, top_k] i32
  """
  weight, expert = jax.lax.top_k(jax.nn.softmax(logits_ME, axis=-1), top_k)
  if unit:
    weight /= jnp.sum(weight, axis=-1, keepdims=True)
  return weight, expert


class MoEConfig(NamedTuple):
  """Routing and activation of the experts."""

  top_k: int
  unit: bool  # of `route`
  activation: Callable[[Array], Array]


def mix(c: MoEConfig, p: dict, specs: dict, x_NTD, live_NT, rows=layers.ROWS):
  """Computes sum_e weight_e MLP_e(x) over each token's experts (1701.06538).

  Args:
    p: router [D, E], gate and up [E, D, F], down [E, F, D], which may be
      Adapted
    specs: of p, Param by name
    live_NT: bool, tokens counted in Routing
    rows: logical axes of N and T
  Returns: [N, T, D], Routing of this layer
  """
  chex.assert_rank([x_NTD, live_NT], [3, 2])
  p = {name: p[name] for name in NAMES}
  specs = lora.beside(p, {name: specs[name] for name in NAMES})
  into, routing = (specs, (*rows, None), rows), ((None,), (None,), ())
  run = mesh.shard_map(
    functools.partial(_mix, c), into, ((*rows, None), *routing)
  )
  y, *routing = run(p, x_NTD, mesh.with_logical_sharding(live_NT, *rows))
  return y, Routing(*routing)


def _mix(c: MoEConfig, p: dict, x_NTD, live_NT):
  """Applies `mix` to a device's tokens, with experts on all devices."""
  x = x_NTD.reshape(-1, x_NTD.shape[-1])
  router, exact = p['router'].astype(x.dtype), precision.of_product(x)
  logits = jnp.matmul(x, router, precision=exact).astype(jnp.float32)
  weight, expert = route(logits, c.top_k, c.unit)
  routing = _routing(logits, expert, live_NT.reshape(-1))
  every = [mesh.all_gather(a, 'expert') for a in (x, weight, expert)]
  y = mesh.psum(_through(c, p, *every), 'mlp')
  y = mesh.psum_scatter(y, 'expert').reshape(x_NTD.shape)
  return y, *(mesh.psum(a, 'batch', 'time') for a in routing)


def balance(routing: Routing, top_k: int):
  """Computes the load-balance loss: 1 if even, E if one expert gets all.

  mean over layers of E sum_e f_e p_e, with f_e the share of the tokens'
  choices that fell on expert e and p_e its mean probability: the balance loss
  of Switch Transformers (2101.03961, equations 4 to 6), for top_k choices.
  Only p has a gradient. Nonlinear, so it is applied to sums over micro-batches.
  `transformers` pools layers before the product and its loss is top_k times as
  large: multiply its router_aux_loss_coef by top_k.
  """
  tokens = routing.tokens[:, None]
  f = jax.lax.stop_gradient(routing.chosen) / (top_k * tokens)
  return jnp.mean(
    routing.chosen.shape[1] * jnp.sum(f * routing.prob / tokens, -1)
  )


def _through(c: MoEConfig, p: dict, x_MD, weight_MK, expert_MK):
  """Sums the weighted outputs of this device's experts: [M, D]."""
  m, k = expert_MK.shape
  held = jax.tree.leaves(p['up'])[0].shape[0]
  own = expert_MK.reshape(-1) - mesh.axis_index('expert') * held
  own = jnp.where((own >= 0) & (own < held), own, held)  # others': at the end
  order = jnp.argsort(own)
  counts = jnp.bincount(own, length=held + 1)[:held]
  here = (own[order] < held)[:, None]

  def product(x, w):
    if isinstance(w, Adapted):
      return product(x, w.w) + w.scale * product(product(x, w.a), w.b)
    # What stands behind the last group is not said to be 0.
    y = jax.lax.ragged_dot(
      jnp.where(here, x, 0),
      w.astype(x.dtype),
      counts,
      precision=precision.of_product(x),
    )
    return jnp.where(here, y, 0)

  x = x_MD[order // k]
  y = c.activation(product(x, p['gate'])) * product(x, p['up'])
  y = product(y, p['down'])
  y *= weight_MK.reshape(-1)[order][:, None].astype(y.dtype)
  return jnp.zeros((m, y.shape[-1]), y.dtype).at[order // k].add(y)


def _routing(logits_ME, expert_MK, live_M) -> Routing:
  live = live_M.astype(jnp.float32)
  exact = precision.of_product(live)
  total = functools.partial(jnp.matmul, live, precision=exact)
  experts = logits_ME.shape[-1]
  counts = jax.nn.one_hot(expert_MK, experts, dtype=jnp.float32)
  prob = jax.nn.softmax(logits_ME, axis=-1)
  return Routing(
    chosen=total(jnp.sum(counts, axis=1)),
    prob=total(prob),
    tokens=jnp.sum(live),
  )
