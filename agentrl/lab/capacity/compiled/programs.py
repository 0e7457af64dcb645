"""Programs to compile for devices that are not there.

No array is made but the tables of an environment inside jit.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from agentrl import mesh, optimizer
from agentrl.configs.config import Config
from agentrl.lab.capacity import report
from agentrl.lab.capacity.compiled.compiler import CompileJob
from agentrl.lab.capacity.estimate import Workload
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import Algorithm
from agentrl.nn import transformer
from agentrl.rollout import stale
from agentrl.rollout.engine import programs as engine
from agentrl.run import algorithm, build, placement
from agentrl.run.play import collect, jit_env
from agentrl.task.base import make_attempts
from agentrl.types import SAMPLED, Batch, Rows, TrainState, Turns


def update(c: Config, job: CompileJob):
  """Lowers a step of the config's algorithm, all but the sampling.

  Raises: ValueError where the algorithm remembers batches.
  """
  alg = algorithm.make_algorithm(c, job.shape)
  if alg.memory:
    raise ValueError(
      f"c.memory={tuple(alg.memory)} is made of the run's own tasks and is not"
      ' compiled without them; compile a method without memory'
    )
  program = functools.partial(update_lib.update, alg)
  compiled = jax.jit(program, donate_argnums=0)
  now, kept = state(alg), report.copies(c, alg).past
  earlier = stale.seen(now, algorithm.reads(c, alg))
  return compiled.lower(now.replace(past=(earlier,) * kept), batch(job.work))


def prefill(c: Config, job: CompileJob):
  """Lowers the engine's reading of a chunk of every slot."""
  run, params, cache = _engine(c, job)
  slots = job.work.slots
  chunk = min(c.host.prefill_chunk, job.work.capacity)
  args = _held(slots), _held(slots, chunk), _held(slots), _held(slots)
  return run.read.lower(params, cache, *args)


def decode(c: Config, job: CompileJob):
  """Lowers the engine's burst of tokens in every slot."""
  run, params, cache = _engine(c, job)
  n = job.work.slots
  whole = _held(n)
  real = _held(n, dtype=jnp.float32)
  inputs = engine.DecodeInputs(
    live=_held(n, dtype=jnp.bool_),
    last=whole,
    filled=whole,
    length=whole,
    budget=whole,
    key=_held(n, 2, dtype=jnp.uint32),
    temperature=real,
    top_k=whole,
    top_p=real,
    adapter=whole,
  )
  return run.write.lower(params, cache, inputs)


def rollout(c: Config, job: CompileJob):
  """Lowers the rollout of an environment inside jit, with its rewards."""
  s = _experiment(c, job)
  plan = collect.plan(s)
  tasks = np.zeros(plan.batch, np.int32)
  attempts = make_attempts(tasks, plan.group, plan.limit, plan.temperature)
  key = jax.eval_shape(lambda: jax.random.key(0))

  def run(world, *args):
    return collect.rollout_and_score(s._replace(world=world), *args)

  world, attempts, key = jax.tree.map(_laid, (s.world, attempts, key))
  policy = mesh.abstract(transformer.specs(job.shape))
  return placement.sharded(run).lower(world, policy, attempts, key, _held())


def _experiment(c: Config, job: CompileJob) -> build.Experiment:
  """Returns the config's experiment at tasks that are all alike."""
  lm = report.language(c, job.model)._replace(shape=job.shape)
  alg = algorithm.make_algorithm(c, job.shape)
  with jax.set_mesh(jax.sharding.Mesh(np.array(jax.devices()[0]), ())):
    spec = jit_env.sized(c, lm.tokenizer, lm.chat)
    sets = jit_env.repeated_task_sets(c, spec.source)
    return build.assemble(c, lm, spec, alg, jit_env.parts(c, spec, sets))


PROGRAMS = {
  'update': update,
  'prefill': prefill,
  'decode': decode,
  'rollout': rollout,
}


def _engine(c: Config, job: CompileJob):
  """Returns the engine's programs, and the shapes of what it samples with."""
  burst, work = c.host.decode_steps_per_sync, job.work
  run = engine.programs(job.shape, work.slots, work.capacity, 0, burst)
  stored = mesh.abstract(transformer.specs(job.shape))
  params = jax.eval_shape(run.prepare, stored)
  return run, params, jax.eval_shape(run.empty)


def _held(*shape: int, dtype=jnp.int32):
  return _replicated(shape, dtype)


def state(alg: Algorithm) -> TrainState:
  """Returns the shapes and shardings of the state of training."""
  params = {
    role: mesh.abstract(module.specs)
    for role, module in alg.context.modules.items()
  }
  opt = {
    role: _moments(rule, alg.context.modules[role].specs, params[role])
    for role, rule in alg.context.rules.items()
  }
  signal = {n: jax.eval_shape(s.init) for n, s in alg.signals.items()}
  key = jax.eval_shape(lambda: jax.random.key(0))
  return TrainState(
    step=_replicated((), jnp.int32),
    params=params,
    opt=opt,
    signal=jax.tree.map(
      _laid, {n: x for n, x in signal.items() if x is not None}
    ),
    memory=(),
    key=_laid(key),
  )


def _moments(rule, specs, params):
  """Returns an optimizer's state, each moment where its parameter lies."""
  made = jax.eval_shape(functools.partial(optimizer.init, rule), params)

  def place(x, p):
    if p is None:
      return _laid(x)
    like = mesh.abstract(p)
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=like.sharding)

  return optimizer.by_parameter(place, made, specs)


def rows(n: int, t: int) -> Rows:
  """Returns shapes of rows [N, T], split over the mesh where one is set."""
  lies = None
  if mesh.active():
    lies = NamedSharding(jax.sharding.get_mesh(), mesh.spec('batch'))

  def of(dtype) -> Any:
    return jax.ShapeDtypeStruct((n, t), dtype, sharding=lies)

  ids, real, flag = of(jnp.int32), of(jnp.float32), of(jnp.bool_)
  return Rows(
    tokens=ids,
    seg=ids,
    traj=ids,
    turn=ids,
    span=of(jnp.int8),
    sampled=flag,
    weight=real,
    logp=real,
    version=ids,
  )


def batch(work: Workload) -> Batch:
  """Returns the shapes of a batch."""
  per_turn = functools.partial(_replicated, (work.batch, work.turns))
  each = functools.partial(_replicated, (work.batch,))
  names = ('task', 'group', 'arm', 'source', 'age')
  return Batch(
    rows=rows(work.rows, work.tokens),
    turns=Turns(
      reward=per_turn(jnp.float32),
      terms={},
      scored=per_turn(jnp.bool_),
      valid=per_turn(jnp.bool_),
      state=per_turn(jnp.int32),
      node=per_turn(jnp.int32),
      agent=per_turn(jnp.int32),
    ),
    ids={name: each(jnp.int32) for name in names},
    outcome=each(jnp.float32),
    status=each(jnp.int32),
    sampled={name: _replicated((), jnp.int32) for name in SAMPLED},
  )


def _replicated(shape, dtype):
  whole = NamedSharding(jax.sharding.get_mesh(), PartitionSpec())
  return jax.ShapeDtypeStruct(shape, dtype, sharding=whole)


def _laid(x):
  return _replicated(x.shape, x.dtype)
