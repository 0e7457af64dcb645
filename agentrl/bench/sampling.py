"""What `experiments.bench` times, of sampling: decode, prefill, rollout.

A case is something that runs, and the work that it cannot do without.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.bench import roofline
from agentrl.bench.roofline import Part
from agentrl.configs import grpo
from agentrl.learner import update
from agentrl.nn import transformer
from agentrl.rollout import actor
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout.engine import engine as engine_lib
from agentrl.run import build, collect, placement
from agentrl.task.fixed import attempts as make_attempts


class Size(NamedTuple):
  """What is decoded, and how large the experiments are."""

  shape: transformer.Shape
  batch: int = 32
  prompt: int = 64
  new: int = 64
  group: int = 8
  arg: str = ''  # of the configs
  rows: int = 32  # of a gradient step
  tokens: int = 128  # of a row
  micro: int = 8  # rows at a time


# The comparison with other libraries: what they were measured at.
FULL = Size(transformer.Shape(
  vocab=4096, width=256, layers=4, heads=8, kv_heads=4, head_dim=32, mlp=1024
))  # fmt: skip
TINY = Size(
  transformer.Shape(
    vocab=64, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, mlp=32
  ),
  batch=4, prompt=8, new=8, group=2, arg='tiny', rows=4, tokens=16, micro=2,
)  # fmt: skip


def _qwen(width: int, layers: int, heads: int, mlp: int) -> Size:
  """A Qwen2.5 shape in bfloat16: what an accelerator is measured with."""
  return Size(
    transformer.Shape(
      vocab=151_936, width=width, layers=layers, heads=heads, kv_heads=2,
      head_dim=width // heads, mlp=mlp, theta=1e6, bias=True, remat='layer',
      dtype='bfloat16',
    ),
    batch=64, prompt=512, new=128, rows=8, tokens=4096, micro=1,
  )  # fmt: skip


SIZES = {
  'full': FULL,
  'tiny': TINY,
  '0.5B': _qwen(width=896, layers=24, heads=14, mlp=4864),
  '1.5B': _qwen(width=1536, layers=28, heads=12, mlp=8960),
}
ALLOWED = 8  # times what is used: capacities of the cases ending in `_8x`


class Case(NamedTuple):
  """makes: what one call makes, such as {'tokens': 2048}."""

  shapes: str
  call: Callable[[], Any]
  parts: tuple[Part, ...]
  makes: Mapping[str, float]


def decode(size: Size, data: str) -> dict[str, Case]:
  """A message after a prompt; with 8 times the cache; with 8 times the limit.

  In the last the message ends itself: every slot reads the same prompt and
  draws with the same key, and the last token that is to be drawn is declared
  the end of turn.
  """
  del data
  used, weights = size.prompt + size.new, params(size)
  run, prompts = speaker(size), heard(size)
  endless = jnp.int32(size.shape.vocab)  # an id that is never drawn
  alike, eot = _ending(size, weights)
  far = size.prompt + 1 + ALLOWED * size.new
  calls = {
    'decode': functools.partial(run(used, size.new), weights, prompts, endless),
    'decode_cache_8x': functools.partial(
      run(ALLOWED * used, size.new), weights, prompts, endless
    ),
    'decode_message_8x': functools.partial(
      run(far, ALLOWED * size.new), weights, alike, eot
    ),
  }
  text = f'{size.batch} slots, prompt {size.prompt}, {size.new} new'
  calls['decode_slots'] = _slots(size, weights)
  more = {
    'decode': '',
    'decode_slots': ', by the slot engine',
    'decode_cache_8x': f', cache {ALLOWED * used}',
    'decode_message_8x': f', message <= {ALLOWED * size.new}',
  }
  parts = message_work(size)
  makes = {'tokens': size.batch * size.new}
  return {n: Case(text + more[n], f, parts, makes) for n, f in calls.items()}


def _slots(size: Size, weights):
  """The same by lines in slots; each call reads its prompts anew."""
  prompts = np.asarray(heard(size).tokens).tolist()
  sizes = engine_lib.Sizes(
    slots=size.batch,
    capacity=size.prompt + size.new + 1,
    chunk=size.prompt,
  )
  engine = engine_lib.Engine(size.shape, sizes, eot=size.shape.vocab)

  def run():
    engine.swap(dict(weights), 0)
    for line, prompt in enumerate(prompts):
      key = np.array([0, line], np.uint32)
      engine.ask(line, prompt, engine_lib.How(key, size.new))
    said = []
    while engine.busy:
      engine.launch()
      said += engine.land()
    return [s.ids for s in said]

  return run


def message_work(size: Size) -> tuple[Part, ...]:
  n = np.full(size.batch, 1)
  return roofline.speaking(
    size.shape, 0 * n, size.prompt * n, size.new * n, slots=size.batch
  )


def prefill(size: Size, data: str) -> dict[str, Case]:
  """Reading a prompt and drawing one token."""
  del data
  call = functools.partial(
    speaker(size)(size.prompt + 1, 1),
    params(size),
    heard(size),
    jnp.int32(size.shape.vocab),
  )
  text = f'{size.batch} slots, prompt {size.prompt}, 1 new'
  makes = {'tokens': size.batch * size.prompt}
  return {'prefill': Case(text, call, message_work(size)[:1], makes)}


def params(size: Size):
  return mesh.init(transformer.specs(size.shape), jax.random.key(0))


def heard(size: Size, seed: int = 0) -> actor.Heard:
  """A prompt for each slot, read afresh as a rollout by turns does."""
  n, key = size.batch, jax.random.key(seed)
  return actor.Heard(
    tokens=jax.random.randint(key, (n, size.prompt), 0, size.shape.vocab),
    length=jnp.full(n, size.prompt, jnp.int32),
    start=None,
    keys=jax.random.split(key, n),
    temperature=jnp.ones(n),
    idle=jnp.zeros(n, bool),
    traj=jnp.arange(n, dtype=jnp.int32),
    turn=jnp.zeros(n, jnp.int32),
  )


def speaker(size: Size):
  """(capacity, message) -> jitted (params, heard, eot) -> Said."""

  def make(capacity: int, message: int):
    def run(params, heard, eot):
      speaker = actor.model(size.shape, params, message=message, eot=eot)
      return speaker.say(speaker.cache(size.batch, capacity), heard)[0]

    return jax.jit(run)

  return make


def _ending(size: Size, weights):
  """(heard, eot) with which every slot ends after exactly size.new tokens."""
  run = speaker(size)(size.prompt + size.new + 1, size.new)
  for seed in range(1000):
    first = heard(size, seed)
    same = first._replace(
      tokens=jnp.broadcast_to(first.tokens[:1], first.tokens.shape),
      keys=jnp.broadcast_to(first.keys[:1], first.keys.shape),
    )
    said = np.asarray(run(weights, same, jnp.int32(size.shape.vocab)).tokens)
    once = not np.any(said[:, :-1] == said[0, -1])
    if once and np.all(said[:, -1] == said[0, -1]):
      return same, jnp.int32(said[0, -1])
  raise ValueError(
    f'no key of 1000 gives a message of {size.new} tokens whose last occurs'
    f' once, out of {size.shape.vocab}; enlarge the vocabulary'
  )


@functools.cache
def setup(size: Size, data: str) -> build.Setup:
  c = grpo.get_config(size.arg)
  c.data = data
  return build.setup(c)


def attempts(s: build.Setup):
  r = s.config.rollout
  tasks = np.repeat(np.arange(r.batch // r.group), r.group)
  a = make_attempts(tasks, r.group, r.turns, r.temperature)
  return placement.replicated(a)


def rollout(size: Size, data: str) -> dict[str, Case]:
  """Sokoban rollouts of an untrained policy: no context, or all of it."""
  s = setup(size, data)
  full = jit_rollout.Plan(**{**vars(s.plan), 'history': 'full'})
  long = ALLOWED * jit_rollout.row_tokens(s.world, full)
  plans = {
    'rollout': s.plan,
    'rollout_full': full,
    'rollout_full_8x': jit_rollout.Plan(**{**vars(full), 'context': long}),
  }
  return {n: _rollout(s._replace(plan=p)) for n, p in plans.items()}


def _rollout(s: build.Setup) -> Case:
  params = update.init(s.learner, jax.random.key(0)).params['policy']
  call = functools.partial(
    jax.jit(functools.partial(collect.play, s)),
    params,
    attempts(s),
    jax.random.key(1),
  )
  r = jax.device_get(call())
  said, heard = (
    np.where(r.valid, x, 0) for x in (r.message_len, r.context_len)
  )
  before = np.cumsum(said + heard, axis=1) - said - heard
  before = before if s.plan.history == 'full' else 0 * before
  arrays = (x[r.valid] for x in (before, heard, said))
  parts = roofline.speaking(s.shape, *arrays, slots=s.plan.slots)
  text = (
    f'{len(said)} trajectories, {s.plan.slots} slots, {int(r.valid.sum())}'
    f' turns, history {s.plan.history}, context {_room(s)}'
  )
  makes = {
    'trajectories': len(said),
    'tokens': int(said.sum() + heard.sum()),
  }
  return Case(text, call, parts, makes)


def _room(s: build.Setup) -> int:
  return jit_rollout.row_tokens(s.world, s.plan)
