"""Sampling benchmarks of `experiments.bench`: decode, prefill, rollout.

A case is something that runs, and the work that it cannot do without.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.configs import grpo
from agentrl.lab.bench import roofline
from agentrl.lab.bench.roofline import KernelWork
from agentrl.learner import update
from agentrl.nn import transformer
from agentrl.rollout import actor, jit_sizes
from agentrl.rollout.engine import engine as engine_lib
from agentrl.run import build, placement
from agentrl.run.play import collect
from agentrl.task.base import make_attempts


class SamplingBenchSize(NamedTuple):
  """Sizes of the decoder and of the sampling cases."""

  shape: transformer.DecoderConfig
  batch: int = 32
  prompt: int = 64
  new: int = 64
  group: int = 8
  shared: int = 512  # tokens of a prompt that a group shares
  arg: str = ''  # of the configs
  rows: int = 32  # of a gradient step
  tokens: int = 128  # of a row
  micro: int = 8  # rows at a time
  rank: int = 16  # of an adapter


# The comparison with other libraries: what they were measured at.
FULL = SamplingBenchSize(
  transformer.DecoderConfig(
    vocab=4096, width=256, layers=4, heads=8, kv_heads=4, head_dim=32, mlp=1024
  )
)
TINY = SamplingBenchSize(
  transformer.DecoderConfig(
    vocab=64, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, mlp=32
  ),
  batch=4,
  prompt=8,
  new=8,
  group=2,
  shared=16,
  arg='tiny',
  rows=4,
  tokens=16,
  micro=2,
)


def qwen(
  width: int, layers: int, heads: int, mlp: int, kv_heads: int = 2, **more
) -> transformer.DecoderConfig:
  """Makes a Qwen2.5 shape in bfloat16: what accelerators are measured with."""
  every = dict(vocab=151_936, theta=1e6, bias=True, remat='layer') | more
  return transformer.DecoderConfig(
    width=width,
    layers=layers,
    heads=heads,
    kv_heads=kv_heads,
    head_dim=width // heads,
    mlp=mlp,
    dtype='bfloat16',
    **every,
  )


QWEN = {
  '0.5B': qwen(width=896, layers=24, heads=14, mlp=4864),
  '1.5B': qwen(width=1536, layers=28, heads=12, mlp=8960),
}


# The decoder of the configs, where no checkpoint is given.
SMALL = SamplingBenchSize(
  transformer.DecoderConfig(
    vocab=320, width=64, layers=2, heads=4, kv_heads=4, head_dim=16, mlp=192,
    positions=1024,
  )
)  # fmt: skip


# SmolLM2's, which two cores can train.
SMOLLM2 = SamplingBenchSize(
  transformer.DecoderConfig(
    vocab=49_152, width=576, layers=30, heads=9, kv_heads=3, head_dim=64,
    mlp=1536, theta=1e5,
  ),
  batch=16,
  rows=16,
  micro=16,
)  # fmt: skip


SIZES = {
  'full': FULL,
  'tiny': TINY,
  '0.2M': SMALL,
  '135M': SMOLLM2,
} | {
  name: SamplingBenchSize(
    shape, batch=64, prompt=512, new=128, rows=8, tokens=4096, micro=1
  )
  for name, shape in QWEN.items()
}
ALLOWED = 8  # times what is used: capacities of the cases ending in `_8x`


def flags(size: SamplingBenchSize) -> dict[str, int]:
  """Returns the sizes as flags of torch_peer.py."""
  shape = ['vocab', 'width', 'layers', 'heads', 'kv_heads', 'head_dim', 'mlp']
  own = ['batch', 'prompt', 'new', 'group', 'rows', 'tokens', 'micro', 'rank']
  of_shape = {name: getattr(size.shape, name) for name in shape}
  return of_shape | {name: getattr(size, name) for name in own}


class BenchCase(NamedTuple):
  """makes: what one call makes, such as {'tokens': 2048}."""

  shapes: str
  call: Callable[[], Any]
  parts: tuple[KernelWork, ...]  # empty: no bound is known
  makes: Mapping[str, float]
  base: str = ''  # the case that it is held against


def decode(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Times a message after a prompt; with 8 times the cache, or the limit.

  With that limit the message ends itself: every slot reads the same prompt and
  draws with the same key, and the last token that is to be drawn is declared
  the end of turn. In `decode_group` groups share a prompt.
  """
  del data
  used, weights = size.prompt + size.new, params(size)
  run, prompts = speaker(size), make_prompts(size)
  endless = jnp.int32(size.shape.vocab)  # an id that is never drawn
  wide, long = ALLOWED * used, ALLOWED * size.new
  limited = run(size.prompt + 1 + long, long)
  alike, eot = _ending(size, functools.partial(limited, weights))
  args = weights, prompts, endless
  bind = functools.partial
  calls = {
    'decode': ('', bind(run(used, size.new), *args)),
    'decode_cache_8x': (f', cache {wide}', bind(run(wide, size.new), *args)),
    'decode_message_8x': (
      f', message <= {long}',
      bind(limited, weights, alike, eot),
    ),
    'decode_slots': (', by the slot engine', _slots(size, weights)),
  }
  text = f'{size.batch} slots, prompt {size.prompt}, {size.new} new'
  makes = {'tokens': size.batch * size.new}
  cases = {
    n: BenchCase(
      text + x,
      f,
      message_work(size),
      makes,
      base='' if n == 'decode' else 'decode',
    )
    for n, (x, f) in calls.items()
  }
  return {**cases, 'decode_group': _group(size, weights)}


def _group(size: SamplingBenchSize, weights) -> BenchCase:
  """Times messages of groups, each after a prompt of `shared` tokens."""
  long = size._replace(prompt=size.shared)
  alike = group_prompts(long)
  run = speaker(long, long.group)(long.prompt + long.new, long.new)
  call = functools.partial(run, weights, alike, jnp.int32(size.shape.vocab))
  text = (
    f'{size.batch} slots, prompt {size.shared}, {size.new} new,'
    f' groups of {size.group}'
  )
  makes = {'tokens': size.batch * size.new}
  return BenchCase(text, call, group_work(long), makes)


def _slots(size: SamplingBenchSize, weights):
  """Times the same by slots of an engine; each call prefills prompts anew."""
  prompts = np.asarray(make_prompts(size).tokens).tolist()
  room = size.prompt + size.new + 1
  sizes = engine_lib.Sizes(slots=size.batch, capacity=room, chunk=size.prompt)
  engine = engine_lib.Engine(size.shape, sizes, eot=size.shape.vocab)

  def run():
    engine.update_weights(dict(weights), 0)
    for sequence, prompt in enumerate(prompts):
      key = np.array([0, sequence], np.uint32)
      engine.submit(sequence, prompt, engine_lib.SamplingParams(key, size.new))
    completions = []
    while engine.busy:
      engine.dispatch()
      completions += engine.collect()
    return [s.ids for s in completions]

  return run


def message(size: SamplingBenchSize, new: int) -> Callable[[], Any]:
  """Returns what samples a message of `new` tokens after a prompt."""
  run = speaker(size)(size.prompt + new, new)
  endless = jnp.int32(size.shape.vocab)
  return functools.partial(run, params(size), make_prompts(size), endless)


def message_work(size: SamplingBenchSize) -> tuple[KernelWork, ...]:
  n = np.full(size.batch, 1)
  return roofline.speaking(
    size.shape, 0 * n, size.prompt * n, size.new * n, slots=size.batch
  )


def group_work(size: SamplingBenchSize) -> tuple[KernelWork, ...]:
  """Counts work of groups that read a prompt once: all members at a step."""
  c, prompt, new = size.shape, size.prompt, size.new
  groups = np.full(size.batch // size.group, 1)
  prefilled, _ = roofline.speaking(
    c, 0 * groups, prompt * groups, new * groups, slots=size.batch
  )
  _, decoded = message_work(size)
  spared = (size.batch - len(groups)) * prompt * (new - 1)  # positions
  least = decoded.bytes - spared * roofline.key_bytes(c)
  return prefilled, decoded._replace(bytes=least)


def prefill(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Reads a prompt and draws one token."""
  del data
  run, endless = speaker(size)(size.prompt + 1, 1), jnp.int32(size.shape.vocab)
  call = functools.partial(run, params(size), make_prompts(size), endless)
  text = f'{size.batch} slots, prompt {size.prompt}, 1 new'
  makes = {'tokens': size.batch * size.prompt}
  return {'prefill': BenchCase(text, call, message_work(size)[:1], makes)}


def params(size: SamplingBenchSize):
  return mesh.init(transformer.specs(size.shape), jax.random.key(0))


def make_prompts(size: SamplingBenchSize, seed: int = 0) -> actor.Prompt:
  """Makes a prompt for each slot, read afresh as a rollout by turns does."""
  n, key = size.batch, jax.random.key(seed)
  return actor.Prompt(
    tokens=jax.random.randint(key, (n, size.prompt), 0, size.shape.vocab),
    length=jnp.full(n, size.prompt, jnp.int32),
    start=None,
    keys=jax.random.split(key, n),
    temperature=jnp.ones(n),
    idle=jnp.zeros(n, bool),
    traj=jnp.arange(n, dtype=jnp.int32),
    turn=jnp.zeros(n, jnp.int32),
  )


def group_prompts(size: SamplingBenchSize) -> actor.Prompt:
  """Makes prompts as `make_prompts`, one for each group."""
  prompt = make_prompts(size)
  first = np.arange(size.batch) // size.group * size.group
  return prompt._replace(tokens=prompt.tokens[first])


def speaker(size: SamplingBenchSize, group: int = 1):
  """Returns (capacity, message) -> jitted (params, prompt, eot) -> Message."""

  def make(capacity: int, message: int):
    def run(params, prompt, eot):
      speaker = actor.model(
        size.shape, params, message=message, eot=eot, group=group
      )
      return speaker.say(speaker.cache(size.batch, capacity), prompt)[0]

    return jax.jit(run)

  return make


def _ending(size: SamplingBenchSize, run):
  """Makes (prompt, eot) with which slots end after exactly size.new tokens.

  run: (prompt, eot) -> Message, the program that is to end; another one rounds
    otherwise, and may draw other tokens
  """
  for seed in range(1000):
    first = make_prompts(size, seed)
    same = first._replace(
      tokens=jnp.broadcast_to(first.tokens[:1], first.tokens.shape),
      keys=jnp.broadcast_to(first.keys[:1], first.keys.shape),
    )
    message = run(same, jnp.int32(size.shape.vocab))
    tokens = np.asarray(message.tokens)[:, : size.new]
    once = not np.any(tokens[:, :-1] == tokens[0, -1])
    if once and np.all(tokens[:, -1] == tokens[0, -1]):
      return same, jnp.int32(tokens[0, -1])
  raise ValueError(
    f'no key of 1000 gives a message of {size.new} tokens whose last occurs'
    f' once, out of {size.shape.vocab}; enlarge the vocabulary'
  )


@functools.cache
def setup(size: SamplingBenchSize, data: str) -> build.Experiment:
  c = grpo.get_config(size.arg)
  c.data = data
  return build.experiment(c)


def attempts(s: build.Experiment):
  r = s.config.rollout
  tasks = np.repeat(np.arange(r.batch // r.group_size), r.group_size)
  a = make_attempts(tasks, r.group_size, r.max_turns, r.temperature)
  return placement.replicated(a)


def rollout(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Times Sokoban rollouts of an untrained policy: no context, or all of it."""
  s = setup(size, data)
  full = dataclasses.replace(s.plan, history='full')
  context = ALLOWED * jit_sizes.row_tokens(s.world, full)
  long = dataclasses.replace(full, context=context)
  plans = {'rollout': s.plan, 'rollout_full': full, 'rollout_full_8x': long}
  cases = {n: _rollout(s._replace(plan=p)) for n, p in plans.items()}
  wide = cases['rollout_full_8x']._replace(base='rollout_full')
  return {**cases, 'rollout_full_8x': wide}


def _rollout(s: build.Experiment) -> BenchCase:
  params = update.init(s.algorithm, jax.random.key(0)).params['policy']
  play = jax.jit(functools.partial(collect.play, s))
  call = functools.partial(play, params, attempts(s), jax.random.key(1))
  r = jax.device_get(call())
  messages, contexts = (
    np.where(r.valid, x, 0) for x in (r.message_len, r.context_len)
  )
  before = np.cumsum(messages + contexts, axis=1) - messages - contexts
  before = before if s.plan.history == 'full' else 0 * before
  arrays = (x[r.valid] for x in (before, contexts, messages))
  parts = roofline.speaking(s.shape, *arrays, slots=s.plan.slots)
  text = (
    f'{len(messages)} trajectories, {s.plan.slots} slots, {int(r.valid.sum())}'
    f' turns, history {s.plan.history},'
    f' context {jit_sizes.row_tokens(s.world, s.plan)}'
  )
  tokens = int(messages.sum() + contexts.sum())
  makes = {'trajectories': len(messages), 'tokens': tokens}
  return BenchCase(text, call, parts, makes)
