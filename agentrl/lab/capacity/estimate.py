"""First guess at a step, from shapes alone: memory of a device, and FLOPs.

Every row is taken to be full. FLOPs are those of products of matrices and of
attention to the keys a token may see. What a program needs to the byte, and
what it sends, is the compiler's to say (`tpu/`).
"""

import math
from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import mesh, optimizer
from agentrl.learner import teacher, update
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.model import policy, shared_base
from agentrl.nn import attention_kernels, chunked_logprob, transformer

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


class Copies(NamedTuple):
  """Copies of what rollouts read, for batches of earlier policy versions."""

  roles: tuple[str, ...] = ()  # of each copy
  still: tuple[str, ...] = ()  # that never change: samplers hold them once
  past: int = 0  # in the state, beside its own
  published: int = 0  # with samplers in threads
  devices: int = 0  # that only collect and hold the published; 0: the mesh's


NO_COPIES = Copies()


class DeviceMemory(NamedTuple):
  """Bytes of one device."""

  parameters: float  # of every role
  versions: float  # Copies of them
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
    held = self.parameters + self.versions + self.moments
    return held + self.engines + self.rows + max(update, self.rollout)


class Flops(NamedTuple):
  """FLOPs of a step, over all devices."""

  forward: float  # passes that are not differentiated, and those that are
  backward: float  # and what is computed again for it
  rollout: float


class Estimate(NamedTuple):
  """Work, memory of a device and FLOPs of a step."""

  work: Workload
  sizes: Sizes
  memory: DeviceMemory
  flops: Flops
  weights: float  # bytes that a device reads to write a token in every slot
  collectors: int  # devices that collect
  sampler: DeviceMemory | None = None  # of one that does nothing else


def estimate(
  learner: Algorithm,
  shape: transformer.DecoderConfig,
  work: Workload,
  sizes: Sizes,
  copies: Copies = NO_COPIES,
) -> Estimate:
  """Estimates a step on a mesh of these sizes.

  Raises: ValueError where the mesh cannot store a parameter.
  """
  for module in learner.context.modules.values():
    for p in jax.tree.leaves(module.specs, is_leaf=mesh.is_param):
      mesh.check_divides(p, sizes)
  apart, where = None, sizes
  if copies.devices:
    apart, where = sampler(learner, shape, work, copies), samplers(copies)
  return Estimate(
    work,
    sizes,
    memory(learner, shape, work, sizes, copies),
    flops(learner, shape, work),
    weights=writing(shape, decoder(learner), where),
    collectors=math.prod(where.values()),
    sampler=apart,
  )


def samplers(copies: Copies) -> Sizes:
  """Sizes the mesh of devices that only collect: each has the policy whole."""
  return dict.fromkeys(mesh.AXES, 1) | {'data': copies.devices}


def held(specs, sizes: Sizes, rules: Mapping = mesh.RULES) -> int:
  """Counts bytes of the parameters that one device holds under the rules."""
  leaves = jax.tree.leaves(specs, is_leaf=mesh.is_param)
  return sum(_shard(p, sizes, rules) for p in leaves)


def _shard(p: mesh.Param, sizes: Sizes, rules: Mapping = mesh.RULES) -> int:
  split = math.prod(mesh.num_shards(a, sizes, rules) for a in p.axes if a)
  return math.prod(p.shape) // split * jnp.dtype(p.dtype).itemsize


def moments(rule: optimizer.OptimizerConfig, specs, sizes: Sizes) -> int:
  """Counts bytes of a role's optimizer state on one device."""
  array = lambda p: jax.ShapeDtypeStruct(p.shape, p.dtype)  # noqa: E731
  params = jax.tree.map(array, specs, is_leaf=mesh.is_param)
  state = jax.eval_shape(lambda p: optimizer.init(rule, p), params)

  def size(x, p: mesh.Param | None) -> int:
    p = p or mesh.Param(x.shape, (None,) * x.ndim, jax.nn.initializers.zeros)
    return _shard(p._replace(dtype=x.dtype), sizes)

  return sum(jax.tree.leaves(optimizer.by_parameter(size, state, specs)))


def memory(
  learner: Algorithm,
  shape: transformer.DecoderConfig,
  work: Workload,
  sizes: Sizes,
  copies: Copies = NO_COPIES,
) -> DeviceMemory:
  """Counts bytes of one device of the mesh at the fullest moment."""
  modules, rules = learner.context.modules, learner.context.rules
  stored = {role: held(m.specs, sizes) for role, m in modules.items()}
  batch, specs = mesh.num_shards('batch', sizes), decoder(learner)
  here = work._replace(micro=max(1, work.micro // batch))
  # The teacher's hidden states, as read and as dealt.
  compared = teacher.comparison(learner.spec) is not None
  number = jnp.dtype(shape.dtype).itemsize
  token = ROW + (2 * number * shape.width if compared else 0)
  rollout, engines = sampling(learner, shape, work, sizes)
  apart = copies._replace(published=0) if copies.devices else copies
  return DeviceMemory(
    parameters=sum(stored.values()),
    versions=versions(learner, sizes, apart),
    moments=sum(moments(r, modules[n].specs, sizes) for n, r in rules.items()),
    gradients=max(stored[role] for role in rules),
    gathered=gathered(shape, specs, sizes, frozen(learner)),
    activations=activations(shape, here, sizes),
    rollout=rollout,
    engines=engines,
    rows=token * work.rows * work.tokens / batch,
  )


def sampler(
  learner: Algorithm,
  shape: transformer.DecoderConfig,
  work: Workload,
  copies: Copies,
) -> DeviceMemory:
  """Counts bytes of a device that only collects."""
  sizes = samplers(copies)
  rollout, engines = sampling(learner, shape, work, sizes)
  return DeviceMemory(
    parameters=0,
    versions=versions(learner, sizes, copies._replace(past=0)),
    moments=0,
    gradients=0,
    gathered=0,
    activations=0,
    rollout=rollout,
    engines=engines,
    rows=ROW * work.rows * work.tokens / copies.devices,
  )


def versions(learner: Algorithm, sizes: Sizes, copies: Copies) -> float:
  """Counts bytes of the copies that one device holds."""
  modules = learner.context.modules
  each = sum(held(modules[role].specs, sizes) for role in copies.roles)
  still = sum(held(modules[role].specs, sizes) for role in copies.still)
  return (copies.past + copies.published) * each + still * bool(
    copies.published
  )


def sampling(
  learner: Algorithm,
  shape: transformer.DecoderConfig,
  work: Workload,
  sizes: Sizes,
) -> tuple[float, float]:
  """Counts bytes of one device that a rollout takes, and that engines keep.

  Parameters as tokens are written with them, and what slots have read.
  """
  specs, batch = decoder(learner), mesh.num_shards('batch', sizes)
  number, here = jnp.dtype(shape.dtype).itemsize, -(-work.slots // batch)

  def slots(capacity: int) -> float:
    position = number * 2 * shape.layers * shape.kv_heads * shape.head_dim
    logits = FLOAT * 3 * shape.vocab
    own = (capacity * position + logits) / sizes['tensor']
    return writing(shape, specs, sizes) + here * own

  engines = sum(map(slots, work.engines)) + work.guests * held(specs, sizes)
  return 0 if work.engines else slots(work.capacity), engines


def writing(shape: transformer.DecoderConfig, specs, sizes: Sizes) -> float:
  """Counts bytes of the decoder as tokens are written with it."""
  whole = held(specs, sizes, mesh.COMPUTE)
  return whole * jnp.dtype(shape.dtype).itemsize / FLOAT


def decoder(learner: Algorithm):
  """Returns specs of what the policy reads with: its own, or shared ones."""
  modules = learner.context.modules
  return modules[shared_base.BASE if frozen(learner) else POLICY].specs


def frozen(learner: Algorithm) -> bool:
  """Returns whether roles train adapters of a frozen decoder."""
  return shared_base.BASE in learner.context.modules


def gathered(
  shape: transformer.DecoderConfig, specs, sizes: Sizes, fixed: bool
) -> float:
  """Counts bytes gathered of the decoder at once, and of such gradients.

  Layers one by one, or all where no layer is computed again; a small
  vocabulary whole. A `fixed` one has no gradients.
  """
  if mesh.num_shards('embed', sizes, mesh.RULES) == 1:
    return 0
  whole = held(specs, sizes, mesh.COMPUTE)
  layers = held(specs['layers'], sizes, mesh.COMPUTE)
  rest = whole - layers if shape.vocab <= policy.WORDS else 0
  one = layers / shape.layers
  at_once = layers if shape.remat == 'none' else one
  return rest + at_once + (0 if fixed else rest + one)


def activations(
  shape: transformer.DecoderConfig, work: Workload, sizes: Sizes
) -> float:
  """Counts bytes that a micro-batch of one device holds between its two passes.

  What each layer keeps (`remat`), all of the one layer that is gone through
  backwards, and the head's blocks of words.
  """
  tensor, sequence = sizes['tensor'], sizes['sequence']
  tokens, width = work.micro * work.tokens / sequence, shape.width
  a = jnp.dtype(shape.dtype).itemsize
  heads, keys = shape.heads / tensor, shape.kv_heads / tensor
  qkv = (heads + 2 * keys * sequence) * shape.head_dim  # keys of whole rows
  # Experts see the tokens of all devices that hold others.
  mlp = shape.mlp * max(1, shape.top_k * sizes['expert']) / tensor
  reading = _reading(shape, work)
  every = sequence == 1 and reading == 'xla'  # scores are held
  scores = 2 * FLOAT * (work.tokens if every else 1)
  full = a * (6 * width + 2 * qkv + heads * shape.head_dim + 3 * mlp)
  full += FLOAT * 2 * width + scores * heads
  answer = a * heads * shape.head_dim + FLOAT * heads
  dots = a * (3 * width + qkv + 2 * mlp)
  dots += answer * (reading != 'splash')  # transformer.remat
  keeps = {
    'none': full,
    'dots': dots,
    'attention': a * width + answer,
    'layer': a * width,
  }
  layers = tokens * (shape.layers * keeps[shape.remat] + full)
  if shape.vocab > policy.WORDS:
    c = chunked_logprob.LogprobConfig(())
    block = min(c.tokens, tokens) * min(c.words, shape.vocab // tensor)
    return layers + FLOAT * (3 * block + 2 * tokens * width)
  at_once = min(tokens, policy.LOGITS // shape.vocab, transformer.CHUNK)
  return layers + FLOAT * 4 * at_once * shape.vocab / tensor


def matrices(shape: transformer.DecoderConfig) -> float:
  """Counts parameters that multiply a token in its layers."""
  h, g, d = shape.heads, shape.kv_heads, shape.head_dim
  mlp = 3 * shape.width * shape.mlp * max(1, shape.top_k)
  router = shape.width * shape.experts
  return shape.layers * (shape.width * d * 2 * (h + g) + mlp + router)


def _reading(shape: transformer.DecoderConfig, work: Workload) -> str:
  """Names the attention kernel that reads rows in the learner."""
  return attention_kernels.choose(
    'xla' if shape.attention == 'xla' else 'auto',
    work.tokens,
    shape.head_dim,
    shape.dtype,
    shape.score_cap,
  )


def pass_flops(
  shape: transformer.DecoderConfig, tokens: float, pairs: float, scored: float
) -> float:
  """Counts the FLOPs of one pass forward.

  2 P tokens + 4 H d L pairs + 2 D V scored: P parameters of matrices, pairs of
  a token and a key it sees, tokens whose log-prob is asked for.
  """
  per_pair = 4 * shape.heads * shape.head_dim * shape.layers
  head = 2 * shape.width * shape.vocab
  return 2 * matrices(shape) * tokens + per_pair * pairs + head * scored


def passes(learner: Algorithm, work: Workload) -> tuple[int, int]:
  """Counts passes of a step through its rows: forward, and with backward.

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
  """Counts the FLOPs of a step.

  Backwards a product costs two, or one if its matrix stays as it is, and one
  more if it is computed again. What services say is not known in advance.
  """
  forwards, both = passes(learner, work)
  tokens = work.rows * work.tokens
  pairs = tokens * (work.tokens + 1) / 2
  one = pass_flops(shape, tokens, pairs, work.written)
  splash = _reading(shape, work) == 'splash'
  again = {
    'none': 0.0,
    # Scores alone: products with weights, and with values, are kept. Splash
    # computes both again.
    'dots': pass_flops(shape, 0, pairs / (1 if splash else 2), work.written),
    'attention': pass_flops(shape, tokens, pairs / 2, work.written),
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
