"""Memory model: bytes of one device at the peak of a step, from shapes alone.

What the compiled step holds; every row is taken to be full.
"""

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh, optimizer
from agentrl.learner import teacher
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.model import policy, shared_base
from agentrl.nn import (
  attention_kernels,
  chunked_logprob,
  decode,
  transformer,
)

FLOAT = 4  # bytes of a parameter, a moment and a gradient
ROW = 34  # bytes that types.Rows has for a token, beside its outputs

Sizes = Mapping[str, int]  # of the mesh


class Workload(NamedTuple):
  """Sizes of a step: rows, tokens and slots, as capacities."""

  rows: int  # of the update
  tokens: int  # of a row
  micro: int  # rows of a micro-batch
  epochs: int  # how often the update goes through the rows
  batch: int  # trajectories
  slots: int  # of them under way at a time
  turns: int
  read: int  # tokens that are new to the model in a turn
  message: int  # tokens written in a turn
  afresh: bool  # whether each turn forgets what was read before
  capacity: int  # positions of a slot's cache
  engines: tuple[int, ...] = ()  # those of slots that are kept between steps
  guests: int = 0  # policies of other runs, which services are

  @property
  def written(self) -> int:
    """Sampled tokens of a step."""
    return self.batch * self.turns * self.message


class DeviceMemory(NamedTuple):
  """Bytes of one device."""

  parameters: float  # of every role
  moments: float  # of every role's optimizer
  gradients: float  # of the role that is being trained
  gathered: float  # whole along `embed` while computing, with their gradients
  activations: float  # of a micro-batch
  rollout: float  # parameters as they write tokens, and what slots have read
  engines: float  # the same of slot engines, and other runs' policies
  rows: float

  @property
  def peak(self) -> float:
    """At the fullest moment: of an update, or of a rollout."""
    update = self.gradients + self.gathered + self.activations
    held = self.parameters + self.moments + self.engines + self.rows
    return held + max(update, self.rollout)


def held(specs, sizes: Sizes, rules: Mapping = mesh.RULES) -> int:
  """Bytes of the parameters that one device holds under the rules."""
  leaves = jax.tree.leaves(specs, is_leaf=mesh.is_param)
  return sum(_piece(p, sizes, rules) for p in leaves)


def _piece(p: mesh.Param, sizes: Sizes, rules: Mapping = mesh.RULES) -> int:
  split = math.prod(mesh.num_shards(a, sizes, rules) for a in p.axes if a)
  return math.prod(p.shape) // split * jnp.dtype(p.dtype).itemsize


def pieces(sizes: Sizes) -> int:
  """Into how many pieces parameters are cut that are gathered."""
  return mesh.num_shards('embed', sizes, mesh.RULES)


def moments(rule: optimizer.OptimizerConfig, specs, sizes: Sizes) -> int:
  """Bytes of a role's optimizer state on one device."""
  array = lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype)  # noqa: E731
  params = jax.tree.map(array, specs, is_leaf=mesh.is_param)
  state = jax.eval_shape(lambda p: optimizer.init(rule, p), params)

  def size(x, p: mesh.Param | None) -> int:
    p = p or mesh.Param(x.shape, (None,) * x.ndim, jnp.zeros)
    return _piece(p._replace(dtype=x.dtype), sizes)

  return sum(jax.tree.leaves(optimizer.by_parameter(size, state, specs)))


def memory(
  learner: Algorithm,
  shape: transformer.DecoderConfig,
  work: Workload,
  sizes: Sizes,
) -> DeviceMemory:
  """Bytes of one device at the fullest moment."""
  modules, rules = learner.context.modules, learner.context.rules
  stored = {role: held(m.specs, sizes) for role, m in modules.items()}
  cut, batch = pieces(sizes) > 1, mesh.num_shards('batch', sizes)
  here = work._replace(
    micro=max(1, work.micro // batch), slots=-(-work.slots // batch)
  )
  specs = decoder(learner)

  def slots(capacity: int) -> float:
    read = cache(shape, here._replace(capacity=capacity), sizes['tensor'])
    return writing(shape, specs, sizes) + read

  return DeviceMemory(
    parameters=sum(stored.values()),
    moments=sum(moments(r, modules[n].specs, sizes) for n, r in rules.items()),
    gradients=max(stored[role] for role in rules),
    gathered=gathered(shape, specs, sizes, frozen(learner)) if cut else 0,
    activations=activations(shape, here, sizes),
    rollout=0 if work.engines else slots(work.capacity),
    engines=sum(map(slots, work.engines)) + work.guests * held(specs, sizes),
    rows=(ROW + compared(learner, shape)) * work.rows * work.tokens / batch,
  )


def decoder(learner: Algorithm):
  """Specs of what the policy reads with: its own, or what roles share."""
  modules = learner.context.modules
  return modules[shared_base.BASE if frozen(learner) else POLICY].specs


def frozen(learner: Algorithm) -> bool:
  """Returns whether roles train adapters of a frozen decoder."""
  return shared_base.BASE in learner.context.modules


def compared(learner: Algorithm, shape: transformer.DecoderConfig) -> float:
  """Bytes of a token's hidden state of the teacher, as read and as dealt."""
  if teacher.comparison(learner.spec) is None:
    return 0
  return 2 * jnp.dtype(shape.dtype).itemsize * shape.width


def gathered(
  shape: transformer.DecoderConfig, specs, sizes: Sizes, fixed: bool
) -> float:
  """Bytes of the decoder as it is computed with, and of such gradients.

  Layers are gathered one by one, and again backwards where remat says so; a
  large head block by block, and the embedding of a deep decoder never: tokens
  go to its pieces.

  Args:
    fixed: it has no gradients.
  """
  whole = functools.partial(held, sizes=sizes, rules=mesh.COMPUTE)
  layers = whole(specs['layers'])
  one = layers / shape.layers
  blocks, apart = shape.vocab > policy.WORDS, {'layers'}
  if shape.layers > transformer.UNROLL and (blocks or not shape.tied):
    apart.add('embed')
  if blocks:
    apart.add('head')
  rest = whole({name: specs[name] for name in specs if name not in apart})
  block = _block(shape, sizes) if blocks else 0
  out = rest + block + (layers if shape.remat == 'none' else one)
  return out if fixed else out + rest + one


def _block(shape: transformer.DecoderConfig, sizes: Sizes) -> float:
  """Bytes of a block of the head, and of its gradient before it is dealt."""
  words = chunked_logprob.LogprobConfig(()).words
  numbers = shape.width * min(words, shape.vocab // sizes['tensor'])
  return numbers * (jnp.dtype(shape.dtype).itemsize + FLOAT)


def writing(shape: transformer.DecoderConfig, specs, sizes: Sizes) -> float:
  """Bytes of the decoder as tokens are written with it
  (decode.prepare_decode_params).

  Layers, embedding and head in the numbers that are computed with; an embedding
  in float32 is the stored one where that is whole.
  """
  a = jnp.dtype(shape.dtype).itemsize
  layers = held(specs['layers'], sizes, mesh.COMPUTE) * a / FLOAT
  words = shape.width * shape.vocab / sizes['tensor']
  size = a if decode.embeds_exactly(shape) else FLOAT
  stored = size == FLOAT and pieces(sizes) == 1
  return layers + a * words + (0 if stored else size * words)


def activations(
  shape: transformer.DecoderConfig, work: Workload, sizes: Sizes
) -> float:
  """Bytes that a micro-batch of one device holds between its two passes.

  What each layer keeps (Shape.remat), all of the one layer that is gone
  through backwards, and the head's blocks of words.
  """
  tensor, sequence = sizes['tensor'], sizes['sequence']
  tokens = work.micro * work.tokens / sequence
  a = jnp.dtype(shape.dtype).itemsize
  heads, keys = shape.heads / tensor, shape.kv_heads / tensor
  qkv = (heads + 2 * keys * sequence) * shape.head_dim  # keys of whole rows
  # Experts see the tokens of all devices that hold others.
  mlp = shape.mlp * max(1, shape.top_k * sizes['expert']) / tensor
  width = shape.width
  full = a * (6 * width + 2 * qkv + heads * shape.head_dim + 3 * mlp)
  full += FLOAT * 2 * width + _scores(shape, work.tokens, sequence) * heads
  dots = a * (3 * width + qkv + 2 * mlp)
  keeps = {'none': full, 'dots': dots, 'layer': a * width}
  layers = tokens * (shape.layers * keeps[shape.remat] + full)
  return layers + _head(shape, tokens, tensor)


def _scores(
  shape: transformer.DecoderConfig, tokens: int, sequence: int
) -> float:
  """Bytes that a head keeps of each token's attention."""
  if sequence > 1:
    return 2 * FLOAT
  kind = 'xla' if shape.attention == 'xla' else 'auto'
  reading = attention_kernels.choose(
    kind, tokens, shape.head_dim, shape.dtype, shape.score_cap
  )
  return 2 * FLOAT * (tokens if reading == 'xla' else 1)


def _head(
  shape: transformer.DecoderConfig, tokens: float, tensor: int
) -> float:
  """Bytes of logits, their gradients and what is made of them."""
  if shape.vocab > policy.WORDS:
    c = chunked_logprob.LogprobConfig(())
    block = min(c.tokens, tokens) * min(c.words, shape.vocab // tensor)
    return FLOAT * (3 * block + 2 * tokens * shape.width)
  at_once = min(tokens, policy.LOGITS // shape.vocab, transformer.CHUNK)
  return FLOAT * 4 * at_once * shape.vocab / tensor


def cache(
  shape: transformer.DecoderConfig, work: Workload, tensor: int
) -> float:
  """Bytes of a device's KV caches, and of the messages being decoded."""
  a = jnp.dtype(shape.dtype).itemsize
  position = 2 * shape.layers * shape.kv_heads / tensor * shape.head_dim * a
  logits = FLOAT * 3 * shape.vocab / tensor
  return work.slots * (work.capacity * position + logits)
