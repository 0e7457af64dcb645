"""Cost model: FLOPs, bytes and memory of a step per device, from shapes alone.

Nothing here makes an array or looks at a device. FLOPs are those of products
of matrices and of attention to the keys a token may see; every row is taken to
be full. Memory is in memory.py.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.lab.capacity.memory import (
  DeviceMemory,
  Sizes,
  Workload,
  decoder,
  frozen,
  held,
  memory,
  pieces,
)
from agentrl.learner import update
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.model import shared_base
from agentrl.nn import transformer


class Flops(NamedTuple):
  """FLOPs of a step, over all devices."""

  forward: float  # passes that are not differentiated, and those that are
  backward: float  # and what is computed again for it
  rollout: float


class Traffic(NamedTuple):
  """Bytes that one device receives in a step."""

  gather: float  # parameters, along what stores them in pieces
  scatter: float  # gradients, summed over rows
  tensor: float  # activations, of heads and MLPs
  sequence: float  # keys and values, and their gradients
  expert: float  # tokens to experts and back


class Estimate(NamedTuple):
  """FLOPs, traffic and memory of a step."""

  work: Workload
  sizes: Sizes
  memory: DeviceMemory
  flops: Flops
  traffic: Traffic


def estimate(
  learner: Algorithm,
  shape: transformer.DecoderConfig,
  work: Workload,
  sizes: Sizes,
) -> Estimate:
  """Estimates the cost of a step on a mesh of these sizes.

  Raises: ValueError where the mesh cannot store a parameter.
  """
  for module in learner.context.modules.values():
    for p in jax.tree.leaves(module.specs, is_leaf=mesh.is_param):
      mesh.check_divides(p, sizes)
  return Estimate(
    work,
    sizes,
    memory(learner, shape, work, sizes),
    flops(learner, shape, work),
    traffic(learner, shape, work, sizes),
  )


def matrices(shape: transformer.DecoderConfig) -> float:
  """Parameters that multiply a token in its layers."""
  h, g, d = shape.heads, shape.kv_heads, shape.head_dim
  mlp = 3 * shape.width * shape.mlp * max(1, shape.top_k)
  router = shape.width * shape.experts
  return shape.layers * (shape.width * d * 2 * (h + g) + mlp + router)


def pass_flops(
  shape: transformer.DecoderConfig, tokens: float, pairs: float, scored: float
) -> float:
  """FLOPs of one pass forward.

  2 P tokens + 4 H d L pairs + 2 D V scored: P parameters of matrices, pairs of
  a token and a key it sees, tokens whose log-prob is asked for.
  """
  per_pair = 4 * shape.heads * shape.head_dim * shape.layers
  head = 2 * shape.width * shape.vocab
  return 2 * matrices(shape) * tokens + per_pair * pairs + head * scored


def passes(learner: Algorithm, work: Workload) -> tuple[int, int]:
  """Passes of a step through its rows: forward only, and forward with backward.

  The policy each epoch, and once more where old log-probs are wanted; every
  other role is read once, and once more both ways if it is trained.
  """
  others = learner.context.modules.keys() - {POLICY, shared_base.BASE}
  trained = learner.context.rules.keys() - {POLICY}
  old = bool(update.old_outputs_needed(learner))
  return len(others) + old, work.epochs + len(trained)


def flops(
  learner: Algorithm, shape: transformer.DecoderConfig, work: Workload
) -> Flops:
  """FLOPs of a step.

  Backwards a product costs two, or one if its matrix stays as it is, and one
  more if it is computed again. What services say is not known in advance.
  """
  forwards, both = passes(learner, work)
  tokens = work.rows * work.tokens
  pairs = tokens * (work.tokens + 1) / 2
  one = pass_flops(shape, tokens, pairs, work.written)
  again = {
    'none': 0.0,
    'dots': pass_flops(shape, 0, pairs, work.written),  # but those with weights
    'layer': one,
  }[shape.remat]
  turn = work.read + work.message
  each = turn if work.afresh else turn * work.turns
  contexts = work.batch * (work.turns if work.afresh else 1)
  pairs = contexts * each * (each + 1) / 2
  return Flops(
    forward=(forwards + both) * one,
    backward=both * ((2 - frozen(learner)) * one + again),
    rollout=pass_flops(shape, contexts * each, pairs, work.written),
  )


def traffic(
  learner: Algorithm,
  shape: transformer.DecoderConfig,
  work: Workload,
  sizes: Sizes,
) -> Traffic:
  """Bytes received: rings, in which (n - 1) / n of an array comes by.

  Parameters are gathered layer by layer for every micro-batch, again where a
  layer is computed again, and once for a rollout; gradients are summed over
  those who have other rows for every micro-batch. Two products of each layer
  are summed over `tensor`, forwards and backwards.
  """
  forwards, both = passes(learner, work)
  again = 0 if shape.remat == 'none' else 1
  learned = learner.context.modules[POLICY].specs
  whole = held(decoder(learner), sizes, mesh.COMPUTE)
  rounds = work.rows / work.micro
  embed = _ring(pieces(sizes))
  copies = mesh.num_shards('batch', sizes) // sizes['fsdp']
  a = jnp.dtype(shape.dtype).itemsize * shape.layers
  tokens = work.rows * work.tokens / mesh.num_shards('batch', sizes)
  own = tokens / sizes['sequence']
  through = forwards + (2 + again) * both
  keys = 2 * shape.kv_heads * shape.head_dim / sizes['tensor']
  experts = (sizes['expert'] - 1) * 2 * shape.width if shape.experts else 0
  rollout = work.batch * work.turns * (work.read + work.message)
  decoded = rollout / work.rows / work.tokens
  summed = held(learned, sizes, mesh.COMPUTE) * embed
  summed += 2 * held(learned, sizes) * _ring(copies)
  product = own * shape.width * a * _ring(sizes['tensor'])
  return Traffic(
    gather=((forwards + (1 + again) * both) * rounds + 1) * whole * embed,
    scatter=both * rounds * summed,
    tensor=4 * product * (through + decoded),
    sequence=tokens * keys * a * _ring(sizes['sequence']) * through,
    expert=own * experts * a * (through + decoded),
  )


def _ring(devices: int) -> float:
  return (devices - 1) / devices
