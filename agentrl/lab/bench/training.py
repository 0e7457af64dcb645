"""Training benchmarks of `experiments.bench`: an update, an iteration."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh, optimizer
from agentrl.configs import grpo, oprl
from agentrl.lab.bench import roofline, sampling
from agentrl.lab.bench.roofline import KernelWork
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize
from agentrl.learner import update as update_lib
from agentrl.model import fold, microbatch, policy
from agentrl.model.pieces import MicroBatch
from agentrl.nn import lora, transformer
from agentrl.rollout import actor
from agentrl.rollout import record as record_lib
from agentrl.run import algorithm
from agentrl.run.play import collect as collect_lib
from agentrl.task.base import make_attempts
from agentrl.types import Batch, Rows


def train(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Times `learner.update` of default GRPO and OPRL on the same rollout."""
  s = sampling.setup(size, data)
  params = update_lib.init(s.algorithm, jax.random.key(0)).params['policy']
  collect = jax.jit(functools.partial(collect_lib.rollout_and_score, s))
  batch = collect(params, sampling.attempts(s), jax.random.key(1), jnp.int32(0))
  other = algorithm.make_algorithm(oprl.get_config(size.arg), s.shape)
  return {
    'train_grpo': _train(s.algorithm, s.shape, batch),
    'train_oprl': _train(other, s.shape, batch),
  }


def _train(learner: update_lib.Algorithm, shape, batch: Batch) -> BenchCase:
  update = _updater(learner)
  roles, parts = len(learner.context.rules), _update_work(learner, shape, batch)
  rows, t = batch.rows.tokens.shape
  tokens = int(jnp.sum(batch.rows.seg >= 0))
  text = f'{rows} rows of {t}, {tokens} tokens, {roles} role(s) trained'
  makes = {'updates': 1, 'tokens': tokens}
  return BenchCase(text, lambda: update(lambda state: batch), parts, makes)


def _update_work(learner, shape, batch: Batch) -> tuple[KernelWork, ...]:
  rows = jax.device_get(batch.rows)
  size, length = learner.context.micro, np.sum(rows.seg >= 0, axis=1)
  if isinstance(size, MicroBatch) and size.fold:
    # Tokens that differ, and of what they see that which their row adds alone.
    order = fold.order(rows.tokens, rows.seg, length > 0)
    begun = fold.shared(rows.tokens[order], rows.seg[order])
    length = length[order] - np.asarray(begun)
  return roofline.updating(
    shape,
    length,
    int(np.sum(rows.sampled)),
    roles=len(learner.context.rules),
  )


def _updater(learner: update_lib.Algorithm):
  """Returns collect -> metrics of an update; the state goes on, donated."""
  state = update_lib.init(learner, jax.random.key(0))
  update = jax.jit(
    functools.partial(update_lib.update, learner), donate_argnums=0
  )

  def run(collect):
    nonlocal state
    state, metrics, _ = update(state, collect(state))
    return metrics

  return run


def gradient(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Times a training step on full rows: gradient in micro-batches, then Adam.

  Of all parameters, and of an adapter of `size.rank` on a frozen decoder.
  """
  del data
  shape = size.shape
  params = mesh.init(policy.module(shape).specs, jax.random.key(0))
  whole = step(size, params)
  rule = lora.Lora(rank=size.rank)
  specs = lora.specs(rule, transformer.specs(shape)['layers'])
  adapter = mesh.init(specs, jax.random.key(0))

  def adapted(adapter, base):
    return lora.attach(rule, base, adapter)

  part = _stepper(size, adapted, adapter, params)
  text = f'{whole.shapes}, rank {size.rank}'
  return {
    'gradient': whole,
    'gradient_lora': BenchCase(text, part, (), whole.makes),
  }


def step(size: SamplingBenchSize, params=None) -> BenchCase:
  """Times `gradient` of all parameters; None: drawn and held here alone."""
  shape, n, t = size.shape, size.rows, size.tokens
  if params is None:
    params = mesh.init(policy.module(shape).specs, jax.random.key(0))
  call = _stepper(size, lambda trained, _: trained, params, ())
  parts = roofline.updating(shape, np.full(n, t), n * (t - 1), roles=1)
  text = f'{n} rows of {t}, {size.micro} at a time, {shape.dtype}'
  return BenchCase(text, call, parts, {'updates': 1, 'tokens': n * t})


def _stepper(size: SamplingBenchSize, whole, trained, frozen):
  """Returns () -> state after another step.

  Args:
    whole: (trained, frozen) -> the decoder's parameters
  """
  module, rule = policy.module(size.shape), optimizer.OptimizerConfig()
  rows = _full_rows(size.shape.vocab, size.rows, size.tokens)

  def step(trained, opt, frozen):
    def total(trained, rows, scale):
      out = module.apply(whole(trained, frozen), rows, ('logp',))
      return jnp.sum(scale * out.logp), {}

    grads, _ = microbatch.gradient(
      total, trained, rows, rows.weight, size.micro
    )
    return optimizer.step(rule, grads, opt, trained)[:2]

  # Copied: the first call donates it, and others may read the original.
  trained = jax.tree.map(jnp.copy, trained)
  state = trained, optimizer.init(rule, trained, None)
  run = jax.jit(step, donate_argnums=(0, 1))

  def call():
    nonlocal state
    state = run(*state, frozen)
    return state

  return call


def _full_rows(vocab: int, n: int, t: int) -> Rows:
  """Makes rows without padding, all but the first token of each trained on."""
  trained = jnp.ones((n, t), bool).at[:, 0].set(False)
  zero = jnp.zeros((n, t), jnp.int32)
  traj = jnp.broadcast_to(jnp.arange(n, dtype=jnp.int32)[:, None], (n, t))
  return Rows(
    tokens=jax.random.randint(jax.random.key(0), (n, t), 0, vocab),
    seg=zero,
    traj=traj,
    turn=jnp.where(trained, 0, -1),
    span=zero.astype(jnp.int8),
    sampled=trained,
    weight=trained.astype(jnp.float32),
    logp=jnp.where(trained, -1.0, 0.0),
    version=zero,
  )


def iteration(size: SamplingBenchSize, data: str) -> dict[str, BenchCase]:
  """Times sampling, reward and one update of GRPO without a reference model."""
  del data
  c = grpo.get_config()
  c.micro_batch = min(4, size.batch)  # few: a last one that is not full costs
  c.hp.minibatch.minibatches.n = 1  # one optimizer step, as the peers take
  learner = algorithm.make_algorithm(c, size.shape)
  prompt, update = sampling.make_prompts(size), _updater(learner)
  answer = jax.jit(functools.partial(_answered, size))

  def collect(state):
    return answer(state.params['policy'], prompt, state.step)

  parts = sampling.message_work(size)
  batch = answer(sampling.params(size), prompt, jnp.int32(0))
  parts += _update_work(learner, size.shape, batch)
  text = (
    f'{size.batch // size.group} prompts of {size.prompt} x {size.group}'
    f' samples of {size.new}, 1 update'
  )
  makes = {'iterations': 1, 'tokens': size.batch * size.new}
  return {'iteration': BenchCase(text, lambda: update(collect), parts, makes)}


def _answered(
  size: SamplingBenchSize, params, prompt: actor.Prompt, step
) -> Batch:
  """Makes groups of answers to first prompts; reward: share of even tokens."""
  n, m = size.batch, size.new
  group = np.arange(n, dtype=np.int32) // size.group
  keys = jax.vmap(jax.random.fold_in, (0, None))(prompt.keys, step)
  prompt = prompt._replace(tokens=prompt.tokens[group], keys=keys)
  run = sampling.speaker(size)(size.prompt + m + 1, m)
  message = run(params, prompt, jnp.int32(size.shape.vocab))
  record = record_lib.empty(n, 1, size.prompt, m, ()).replace(
    context=prompt.tokens[:, None],
    context_len=prompt.length[:, None],
    message=message.tokens[:, None],
    message_len=message.length[:, None],
    logp=message.logp[:, None],
    entropy=message.entropy[:, None],
    valid=jnp.ones((n, 1), bool),
  )
  tasks = make_attempts(group, size.group, 1, 1.0)
  tasks = jax.tree.map(jnp.asarray, tasks)
  layout = record_lib.per_turn(record)
  batch = record_lib.batch(record, layout, tasks, step)
  reward = jnp.mean(message.tokens % 2 == 0, axis=1)[:, None]
  return batch.replace(turns=batch.turns.replace(reward=reward))
