"""Tabular training: methods with tables as policies, many seeds in seconds.

  out = curves(grpo.get_config(), 'key_door', rates=(0.1, 0.3),
                seeds=range(64), iterations=40)

What learns is what trains language models: the config's signals, chains of
links, loss, plan and optimizer (`learner.update`), with tables in place of
networks. Success is not sampled but computed, and the exact advantage of every
turn under the policy that played it is known, so that credit is held against
it. A seed fixes tasks, warm start and luck for every method; another salt is
other luck with the same tasks and warm start.

Rates are constant: neither warm-up nor decay. Other roles learn at the
config's multiple of the policy's rate, role.<name>.lr / role.policy.lr.
"""

import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.configs.config import Config
from agentrl.lab.tabular import build, diagnostics, mdp, policy, step_rewards
from agentrl.lab.tabular.build import TabularCase, TabularSize
from agentrl.learner import update
from agentrl.rollout.keys import Stream, step_key
from agentrl.run.check import fields
from agentrl.run.play import collect
from agentrl.types import Array, Batch, TrainState


def curves(
  config: Config,
  world: str,
  rates: Sequence[float],
  seeds: Sequence[int],
  iterations: int,
  salt: int = 0,
  *,
  size: TabularSize | None = None,
  optimizer: str = 'adam',
  settings: Mapping[str, float] | None = None,
) -> dict:
  """Returns learning curves of every rate and seed, and credit diagnostics.

  Args:
    world: of tabular_worlds.WORLDS; `settings` are that function's
    rates: the policy's learning rates
    salt: other luck for the same seeds
    optimizer: of tabular_case.OPTIMIZERS
  Returns: env_steps [R, S, I + 1], moves made before; success [R, S, I + 1];
    told {name: [R, S]}, see `diagnostics.summary`.
  Raises ValueError for a config that tables cannot stand for.
  """
  _check(rates, seeds, iterations)
  # What schedules of coefficients go by.
  config = fields.changed(config, {'steps': iterations})
  made = build.case(
    config, world, size or TabularSize(), optimizer, settings or {}
  )
  numbers = jnp.asarray(rates, jnp.float32), jnp.asarray(seeds, jnp.uint32)
  one = functools.partial(run, made, iterations, salt)
  every = jax.vmap(jax.vmap(one, (None, 0)), (0, None))
  success, metrics = jax.device_get(jax.jit(every)(*numbers))
  steps = np.cumsum(metrics.pop('steps'), axis=-1)
  return {
    'env_steps': np.pad(steps, ((0, 0), (0, 0), (1, 0))),
    'success': success,
    'told': diagnostics.summary(metrics),
  }


def _check(rates, seeds, iterations) -> None:
  if not len(rates) or not len(seeds) or iterations < 1 or min(rates) <= 0:
    raise ValueError(
      f'rates={tuple(rates)}, {len(seeds)} seeds and iterations={iterations}'
      ' make no curve; give at least one of each, rates above 0'
    )


def run(case: TabularCase, iterations: int, salt: int, rate, seed):
  """Trains one run -> success [I + 1], {measure: [I]}."""
  key = jax.random.key(seed)
  warm, train_key = (jax.random.fold_in(key, i) for i in (1, 2))
  world = draw_tasks(case.world, case.size.tasks, seed)
  learner = build.at_rate(case.learner, rate)
  state = update.init(learner, warm)
  table = warm_start(case, world, warm)
  own = {**state.params[update.POLICY], 'table': table}
  state = state.replace(
    params={**state.params, update.POLICY: own},
    key=jax.random.fold_in(train_key, salt),
  )
  state = update.init_roles_from_policy(learner, state)
  step = functools.partial(iterate, case, learner, world)
  start = state, step_rewards.no_errors(learner, case.table)
  (state, _), metrics = jax.lax.scan(step, start, None, length=iterations)
  table = state.params[update.POLICY]['table']
  p = policy.probabilities(case.table, table)
  last = mdp.success(world, p, case.world.turns)
  return jnp.append(metrics.pop('success'), last), metrics


def draw_tasks(world: mdp.MDPSize, tasks: int, seed) -> mdp.MDP:
  """Returns the tasks of a seed, whatever plays them."""
  return world.make(jax.random.fold_in(jax.random.key(seed), 0), tasks)


def warm_start(case: TabularCase, world: mdp.MDP, key) -> Array:
  """Returns normal logits [cells, A], raised for the best actions."""
  table, size = case.table, case.size
  logits = size.spread * jax.random.normal(key, (table.cells, table.actions))
  gain = world.potential[world.next]
  best = gain >= jnp.max(gain, axis=-1, keepdims=True)
  telling = jnp.any(~best, axis=-1, keepdims=True)  # where actions differ
  first = jnp.arange(table.states) * (table.cells // table.states)
  return logits.at[first].add(size.lift * (best & telling))


def iterate(case: TabularCase, learner, world, carry, _):
  """Runs one iteration -> carry, {measure: []} of what was before it.

  The carry holds the state, and the errors of the last step rewards.
  """
  state, errors = carry
  key = step_key(state.key, Stream.SFT, state.step)
  batch, v = sample(case, world, state, key)
  metrics = {'success': jnp.mean(v[0, world.start])}
  metrics['steps'] = batch.sampled['env_steps']
  measured, errors = diagnostics.measures(learner, state, batch, v, errors)
  metrics |= measured
  state, *_ = update.update(learner, state, batch)
  return (state, errors), metrics


def sample(
  case: TabularCase, world, state: TrainState, key
) -> tuple[Batch, Array]:
  """Samples a batch of the policy as it is, and its exact values [K + 1, X]."""
  turns, logits = case.world.turns, state.params[update.POLICY]['table']
  task = jnp.repeat(jnp.arange(case.size.tasks), case.size.group)
  p = policy.probabilities(case.table, logits)
  v, q = mdp.values(world, p, turns)
  trajs = policy.play(world, case.table, logits, task, turns, key)
  s = trajs.state[:, :-1]
  k = jnp.broadcast_to(jnp.arange(turns), s.shape)
  truth = q[k, s, trajs.action] - v[k, s]
  batch = policy.batch(world, case.table, trajs, logits, task, truth)
  return collect.score(case.learner.spec, batch), v
