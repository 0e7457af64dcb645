"""Benchmark of credit assignment: what it adds to an iteration, by method.

The batch is made up: long trajectories in groups, one row each. A method's
time is that of its streams and links, signals given. All methods together are
held against one update of GRPO on the same rows, without its rollout: a
micro-batch of one row is measured and taken as often as there are rows.
"""

import functools
import importlib
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import registry
from agentrl.configs import base
from agentrl.lab.bench import timing
from agentrl.lab.bench.sizes import AdvantageBenchSize
from agentrl.learner import update as update_lib
from agentrl.model import microbatch
from agentrl.nn import transformer
from agentrl.run import algorithm, config_file, pretrained
from agentrl.types import Batch, Rows, Turns

GROUP = 8
ALLOWED = 0.03  # of an iteration, for all methods together


def made_up(b: int, k: int, t: int, terms: tuple[str, ...]) -> Batch:
  """Makes b trajectories of up to k turns, rows of t tokens, half sampled."""
  r = np.random.default_rng(0)
  length = r.integers(1, k + 1, b)
  valid = np.arange(k)[None] < length[:, None]  # [B, K]
  each = t // k
  place = np.arange(t)[None]
  turn = place // each
  used = (turn < length[:, None]) & (turn < k)
  sampled = used & (place % each >= each // 2)
  traj = np.broadcast_to(np.arange(b)[:, None], (b, t))
  rows = Rows(
    tokens=r.integers(0, 50, (b, t)).astype(np.int32),
    seg=np.where(used, 0, -1).astype(np.int32),
    traj=np.where(used, traj, -1).astype(np.int32),
    turn=np.where(used, turn, -1).astype(np.int32),
    span=np.zeros((b, t), np.int8),
    sampled=sampled,
    weight=sampled.astype(np.float32),
    logp=np.where(sampled, -r.random((b, t)) - 0.1, 0).astype(np.float32),
    version=np.zeros((b, t), np.int32),
  )

  def table():
    return np.where(valid, r.normal(size=(b, k)), 0).astype(np.float32)

  turns = Turns(
    reward=table(),
    terms={name: table() for name in terms},
    scored=np.ones((b, k), bool),
    valid=valid,
    state=r.integers(0, 3 * k, (b, k)).astype(np.int32),
    node=np.arange(b * k, dtype=np.int32).reshape(b, k),
    agent=np.zeros((b, k), np.int32),
  )
  zero = np.zeros(b, np.int32)
  ids = dict.fromkeys(('arm', 'source', 'age'), zero)
  group = (np.arange(b) // GROUP).astype(np.int32)
  ids |= {'task': group, 'group': group, 'branch': np.arange(b) % 2}
  outcome = (r.random(b) < 0.4).astype(np.float32)
  return jax.tree.map(jnp.asarray, Batch(rows, turns, ids, outcome, zero))


def learner_of(
  method: str, shape: transformer.DecoderConfig
) -> update_lib.Algorithm:
  c = importlib.import_module(f'agentrl.configs.{method}').get_config()
  c.micro_batch = 1
  return algorithm.make_algorithm(c, shape)


def needed(w: registry.MethodSpec, kind: str) -> set[str]:
  """Names what the components of a method need of a kind, such as 'term'."""
  needs = (x for part in registry.parts(w) for x in registry.needs(w, *part))
  return {x.partition(':')[2] for x in needs if x.startswith(f'{kind}:')}


def judged(learner: update_lib.Algorithm, batch: Batch):
  """Makes (batch, signals) as the method's links read them; signals are random.

  A memory adds trajectories: these are made up as well.
  """

  still = learner.without_policy()

  def judge(key, batch):
    state = update_lib.init(learner, key)
    if learner.spec.memory:
      state = update_lib.init_memory(learner, state, batch, 1)
    else:
      read = needed(learner.spec, 'reading') - {registry.OWN}
      batch = batch.replace(readings=dict.fromkeys(read, batch.rows))
    return update_lib.update(still, state, batch)[2][:2]

  whole, shapes = jax.eval_shape(judge, jax.random.key(0), batch)
  extra = whole.outcome.shape[0] - batch.outcome.shape[0]
  batch = jax.tree.map(lambda x: jnp.concatenate([x, x[:extra]]), batch)
  return batch, {
    name: -jax.random.uniform(jax.random.key(i), x.shape, x.dtype)
    for i, (name, x) in enumerate(shapes.items())
  }


def update_seconds(shape: transformer.DecoderConfig, batch: Batch) -> float:
  """Times GRPO's gradient on all rows, in median: one row, times the rows."""
  learner = learner_of('grpo', shape)
  row = jax.tree.map(lambda x: x[:1], batch.rows)
  params = update_lib.init(learner, jax.random.key(0)).params['policy']
  apply = learner.context.modules['policy'].apply

  def loss(out, rows, extras):
    return jnp.sum(out.logp * rows.weight), {}

  @jax.jit
  def gradient(params, row):
    total = microbatch.objective(apply, ('logp',), loss)
    return microbatch.gradient(total, params, row, (), 1)

  return batch.rows.tokens.shape[0] * _median(
    functools.partial(gradient, params, row), 2
  )


def _median(call: Callable, repeats: int) -> float:
  (took,) = timing.interleaved({'': call}, repeats, warm=1).values()
  return timing.spread(took).median


def run(methods: Sequence[str], size: AdvantageBenchSize) -> None:
  """Prints the table of the methods; of all where none is named."""
  names = list(methods) or config_file.methods()
  c = base.get_config()
  c.model.update(dict(positions=0, remat='layer'))
  shape = pretrained.own(c, 64)
  wanted = [needed(learner_of(n, shape).spec, 'term') for n in names]
  terms = tuple(sorted(set().union(*wanted)))
  batch = made_up(size.trajectories, size.turns, size.tokens, terms)
  print(
    f'{size.trajectories} trajectories of up to {size.turns} turns,'
    f' rows of {size.tokens} tokens'
  )
  total = 0.0
  for name in names:
    learner = learner_of(name, shape)
    f = jax.jit(functools.partial(update_lib.compute_advantage, learner))
    s = _median(functools.partial(f, *judged(learner, batch)), size.repeats)
    total += s
    print(f'  {name:<24} {1e3 * s:8.1f} ms', flush=True)
  update = update_seconds(shape, batch)
  print(
    f'all {len(names)}: {total:.2f} s; an update of {shape.layers} layers of'
    f' width {shape.width}: {update:.0f} s; share {total / update:.2%}'
    f' (allowed: {ALLOWED:.0%})'
  )
