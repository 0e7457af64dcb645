"""What a step of a config asks of each device, from shapes alone.

Nothing here makes an array or looks at a device. Memory is what the
compiled step holds at its fullest; FLOPs are those of products of matrices
and of attention to the keys a token may see; both take every row to be full.
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from agentrl import learner as learner_lib
from agentrl import mesh, optim
from agentrl.method import POLICY, Learner
from agentrl.model import adapter, policy
from agentrl.nn import kernels, transformer, vocabulary

FLOAT = 4  # bytes of a parameter, a moment and a gradient
ROW = 34  # bytes that types.Rows has for a token, beside its outputs

Sizes = Mapping[str, int]  # of the mesh


class Work(NamedTuple):
  """How much a step reads and writes: capacities."""

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


class Memory(NamedTuple):
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


class Flops(NamedTuple):
  """Of a step, over all devices."""

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
  """All of it."""

  work: Work
  sizes: Sizes
  memory: Memory
  flops: Flops
  traffic: Traffic


def estimate(
  learner: Learner, shape: transformer.Shape, work: Work, sizes: Sizes
) -> Estimate:
  """What a step costs on a mesh of these sizes.

  Raises: ValueError where the mesh cannot store a parameter.
  """
  for module in learner.context.modules.values():
    jax.tree.map(
      lambda p: mesh.check_divides(p, sizes),
      module.specs,
      is_leaf=mesh.is_param,
    )
  return Estimate(
    work,
    sizes,
    memory(learner, shape, work, sizes),
    flops(learner, shape, work),
    traffic(learner, shape, work, sizes),
  )


def held(specs, sizes: Sizes, rules: Mapping = mesh.RULES) -> int:
  """Bytes of the parameters that one device holds under the rules."""
  leaves = jax.tree.leaves(specs, is_leaf=mesh.is_param)
  return sum(_piece(p, sizes, rules) for p in leaves)


def _piece(p: mesh.Param, sizes: Sizes, rules: Mapping = mesh.RULES) -> int:
  split = math.prod(mesh.pieces(a, sizes, rules) for a in p.axes if a)
  return math.prod(p.shape) // split * jnp.dtype(p.dtype).itemsize


def pieces(sizes: Sizes) -> int:
  """Into how many pieces parameters are cut that are gathered."""
  return mesh.pieces('embed', sizes, mesh.RULES)


def moments(rule: optim.Rule, specs, sizes: Sizes) -> int:
  """Bytes of a role's optimizer state on one device."""
  params = jax.tree.map(
    lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype),
    specs,
    is_leaf=mesh.is_param,
  )
  state = jax.eval_shape(lambda p: optim.init(rule, p), params)
  sized = optax.tree.map_params(
    rule.direction(),
    lambda x, p: (
      _piece(p._replace(dtype=x.dtype), sizes)
      if x.shape == p.shape
      else x.size * x.dtype.itemsize
    ),
    state,
    specs,
    transform_non_params=lambda x: x.size * x.dtype.itemsize,
  )
  return sum(jax.tree.leaves(sized))


def memory(
  learner: Learner, shape: transformer.Shape, work: Work, sizes: Sizes
) -> Memory:
  """Bytes of one device at the fullest moment."""
  modules, rules = learner.context.modules, learner.context.rules
  stored = {role: held(m.specs, sizes) for role, m in modules.items()}
  cut, batch = pieces(sizes) > 1, mesh.pieces('batch', sizes)
  here = work._replace(
    micro=max(1, work.micro // batch), slots=-(-work.slots // batch)
  )
  specs = decoder(learner)

  def slots(capacity: int) -> float:
    read = cache(shape, here._replace(capacity=capacity), sizes['tensor'])
    return writing(shape, specs, sizes) + read

  return Memory(
    parameters=sum(stored.values()),
    moments=sum(moments(r, modules[n].specs, sizes) for n, r in rules.items()),
    gradients=max(stored[role] for role in rules),
    gathered=gathered(shape, specs, sizes, frozen(learner)) if cut else 0,
    activations=activations(shape, here, sizes),
    rollout=0 if work.engines else slots(work.capacity),
    engines=sum(map(slots, work.engines)) + work.guests * held(specs, sizes),
    rows=ROW * work.rows * work.tokens / batch,
  )


def decoder(learner: Learner):
  """Specs of what the policy reads with: its own, or what roles share."""
  modules = learner.context.modules
  return modules[adapter.BASE if frozen(learner) else POLICY].specs


def frozen(learner: Learner) -> bool:
  """Whether roles train adapters of a decoder that stays as it is."""
  return adapter.BASE in learner.context.modules


def gathered(
  shape: transformer.Shape, specs, sizes: Sizes, fixed: bool
) -> float:
  """Bytes of the decoder as it is computed with, and of such gradients.

  Layers are gathered one by one, and again backwards where remat says so.

  Args:
    fixed: it has no gradients.
  """
  layers = held(specs['layers'], sizes, mesh.COMPUTE)
  rest = held(specs, sizes, mesh.COMPUTE) - layers
  one = layers / shape.layers
  whole = rest + (layers if shape.remat == 'none' else one)
  return whole if fixed else whole + rest + one


def writing(shape: transformer.Shape, specs, sizes: Sizes) -> float:
  """Bytes of the decoder as tokens are written with it (decode.unstack).

  Layers and a head in the numbers that are computed with; the embedding is the
  stored one where it is whole.
  """
  a = jnp.dtype(shape.dtype).itemsize
  layers = held(specs['layers'], sizes, mesh.COMPUTE)
  rest = held(specs, sizes, mesh.COMPUTE) - layers
  head = a * shape.width * shape.vocab / sizes['tensor']
  return layers * a / FLOAT + head + (rest if pieces(sizes) > 1 else 0)


def activations(shape: transformer.Shape, work: Work, sizes: Sizes) -> float:
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
  keeps = {
    'none': full,
    'dots': a * (3 * width + qkv + 2 * mlp),
    'layer': a * width,
  }
  layers = tokens * (shape.layers * keeps[shape.remat] + full)
  return layers + _head(shape, tokens, tensor)


def _scores(shape: transformer.Shape, tokens: int, sequence: int) -> float:
  """Bytes that a head keeps of each token's attention."""
  if sequence > 1:
    return 2 * FLOAT
  reading = kernels.choose(
    'xla' if shape.attention == 'xla' else 'auto',
    tokens, shape.head_dim, shape.dtype, shape.score_cap,
  )  # fmt: skip
  whole = 2 * FLOAT * tokens
  return whole if reading == 'xla' else 2 * FLOAT


def _head(shape: transformer.Shape, tokens: float, tensor: int) -> float:
  """Bytes of logits, their gradients and what is made of them."""
  if shape.vocab > policy.WORDS:
    c = vocabulary.Reading(())
    block = min(c.tokens, tokens) * min(c.words, shape.vocab // tensor)
    return FLOAT * (3 * block + 2 * tokens * shape.width)
  at_once = min(tokens, policy.LOGITS // shape.vocab, transformer.CHUNK)
  return FLOAT * 4 * at_once * shape.vocab / tensor


def cache(shape: transformer.Shape, work: Work, tensor: int) -> float:
  """Bytes of what a device's slots have read, and of what they say next."""
  a = jnp.dtype(shape.dtype).itemsize
  position = 2 * shape.layers * shape.kv_heads / tensor * shape.head_dim * a
  logits = FLOAT * 3 * shape.vocab / tensor
  return work.slots * (work.capacity * position + logits)


def matrices(shape: transformer.Shape) -> float:
  """Parameters that multiply a token in its layers."""
  h, g, d = shape.heads, shape.kv_heads, shape.head_dim
  mlp = 3 * shape.width * shape.mlp * max(1, shape.top_k)
  router = shape.width * shape.experts
  return shape.layers * (shape.width * d * 2 * (h + g) + mlp + router)


def pass_flops(
  shape: transformer.Shape, tokens: float, pairs: float, said: float
) -> float:
  """FLOPs of one pass forward.

  2 P tokens + 4 H d L pairs + 2 D V said: P parameters of matrices, pairs of
  a token and a key it sees, tokens whose log-prob is asked for.
  """
  per_pair = 4 * shape.heads * shape.head_dim * shape.layers
  head = 2 * shape.width * shape.vocab
  return 2 * matrices(shape) * tokens + per_pair * pairs + head * said


def passes(learner: Learner, work: Work) -> tuple[int, int]:
  """How often a step goes through its rows: forwards alone, and both ways.

  The policy each epoch, and once more where old log-probs are wanted; every
  other role is read once, and once more both ways if it is trained.
  """
  others = learner.context.modules.keys() - {POLICY, adapter.BASE}
  trained = learner.context.rules.keys() - {POLICY}
  old = bool(learner_lib.old_wanted(learner))
  return len(others) + old, work.epochs + len(trained)


def flops(learner: Learner, shape: transformer.Shape, work: Work) -> Flops:
  """FLOPs of a step.

  Backwards a product costs two, or one if its matrix stays as it is, and one
  more if it is computed again. What services say is not known in advance.
  """
  forwards, both = passes(learner, work)
  tokens = work.rows * work.tokens
  one = pass_flops(shape, tokens, tokens * (work.tokens + 1) / 2, work.written)
  again = 0 if shape.remat == 'none' else 1
  return Flops(
    forward=(forwards + both) * one,
    backward=(2 - frozen(learner) + again) * both * one,
    rollout=_rollout_flops(shape, work),
  )


def _rollout_flops(shape: transformer.Shape, work: Work) -> float:
  turn = work.read + work.message
  each = turn if work.afresh else turn * work.turns
  contexts = work.batch * (work.turns if work.afresh else 1)
  pairs = contexts * each * (each + 1) / 2
  return pass_flops(shape, contexts * each, pairs, work.written)


def traffic(
  learner: Learner, shape: transformer.Shape, work: Work, sizes: Sizes
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
  copies = mesh.pieces('batch', sizes) // sizes['fsdp']
  a = jnp.dtype(shape.dtype).itemsize * shape.layers
  tokens = work.rows * work.tokens / mesh.pieces('batch', sizes)
  own = tokens / sizes['sequence']
  through = forwards + (2 + again) * both
  keys = 2 * shape.kv_heads * shape.head_dim / sizes['tensor']
  experts = (sizes['expert'] - 1) * 2 * shape.width if shape.experts else 0
  decoded = _rollout_tokens(work) / work.rows / work.tokens
  return Traffic(
    gather=((forwards + (1 + again) * both) * rounds + 1) * whole * embed,
    scatter=both * rounds * (held(learned, sizes, mesh.COMPUTE) * embed
                             + 2 * held(learned, sizes) * _ring(copies)),
    tensor=4 * own * shape.width * a * _ring(sizes['tensor'])
    * (through + decoded),
    sequence=tokens * keys * a * _ring(sizes['sequence']) * through,
    expert=own * experts * a * (through + decoded),
  )  # fmt: skip


def _ring(devices: int) -> float:
  return (devices - 1) / devices


def _rollout_tokens(work: Work) -> int:
  return work.batch * work.turns * (work.read + work.message)
