"""Weights of a run: restores its state, loads and exports its policy."""

import os
import pathlib
import shutil
from collections.abc import Sequence
from typing import Any

import jax
from absl import logging

from agentrl.configs import envs, stages
from agentrl.configs.config import Config
from agentrl.learner import algorithm, update
from agentrl.model import hf_config, hf_weights, peft, shared_base
from agentrl.nn import lora
from agentrl.run import algorithm as algorithm_lib
from agentrl.run import build, pretrained
from agentrl.run import workdir as workdir_lib
from agentrl.run.experiment import Experiment
from agentrl.run.seed_axis import SeedAxis
from agentrl.run.stage import stage_state
from agentrl.runtime import checkpoint, objects
from agentrl.types import TrainState


def restore_or_init(
  axis: SeedAxis,
  experiments: Sequence[Experiment],
  checkpoints: Sequence[checkpoint.Checkpoints],
  stages: Sequence[Sequence[Experiment]] | None = None,
) -> tuple[TrainState, list[int | None], float]:
  """Returns the state of every seed, as it was saved or as a run begins.

  With the step that each was resumed after, and the seconds spent so far.

  Args:
    stages: of each of the experiments, those of all stages; None: itself
  """
  s = experiments[0]
  stages = stages or [[x] for x in experiments]
  whole = stage_state.union([x.algorithm for x in stages[0]])

  def fresh(key):
    state = update.init(whole, key)
    if axis.mesh:  # else it is the algorithm's own, on the mesh
      state = state.replace(key=key)
    state = stage_state.init_memory(stages[0], state)
    of = [(x.config, x.algorithm) for x in stages[0]]
    return stage_state.init_past(of, state)

  keys = axis.stack([jax.random.key(x.config.seed) for x in experiments])
  states = axis.unstack(axis.jit(fresh)(keys))
  restored = [k.latest(x) for k, x in zip(checkpoints, states, strict=True)]
  resumed = [x[0] if x else None for x in restored]
  if any(restored):
    logging.info('Resuming after step %s', ', '.join(map(str, resumed)))
  spent = max(x[2]['seconds'] if x else 0.0 for x in restored)
  states = [x[1] if x else y for x, y in zip(restored, states, strict=True)]
  for i in range(len(experiments)):
    if not restored[i]:
      states[i] = load_roles(stages[i], states[i])
  begun = s.config.init or s.config.model.path
  if not begun or all(restored):
    return axis.stack(states), resumed, spent
  inits = {x.config.init: x.config for x in experiments}
  policies = {k: start(c, s.shape) for k, c in inits.items()}
  for i, x in enumerate(experiments):
    params = policies[x.config.init]
    if not restored[i] and params is not None:
      states[i] = load_policy_params(whole, params, states[i])

  def begin(state):
    new = update.init_roles_from_policy(whole, state)
    return axis.where_at_step(0, new, state)

  return axis.jit(begin)(axis.stack(states)), resumed, spent


def load(c: Config, shape, workdir: str) -> tuple[int, TrainState]:
  """Loads (step, state) of the newest checkpoint of the run of config c."""
  configs = [plan.config for plan in stages.plans(c)] or [c]
  algorithms = [algorithm_lib.make_algorithm(x, shape) for x in configs]
  state = update.init(stage_state.union(algorithms), jax.random.key(c.seed))
  # Memories are part of what was saved, and as large as batches make them.
  if remembering := [x for x in configs if x.memory]:
    built = [build.experiment(x) for x in remembering]
    state = stage_state.init_memory(built, state)
  of = list(zip(configs, algorithms, strict=True))
  state = stage_state.init_past(of, state)
  checkpoints = checkpoint.Checkpoints(os.path.join(workdir, 'checkpoints'))
  restored = checkpoints.latest(state)
  checkpoints.close()
  if not restored:
    raise ValueError(
      f'{workdir} holds no checkpoint yet; let that run go on until it saves'
      f' one (every {c.checkpoint.every} steps and at its end)'
    )
  return restored[0], restored[1]


def start(c: Config, shape) -> dict[str, Any] | None:
  """Loads the policy that a run begins with; None: randomly initialised."""
  if c.init:
    logging.info('Beginning with the policy of %s', c.init)
    return policy(shape, c.init)
  if c.model.path and not c.model.random:
    logging.info('Beginning with the weights of %s', c.model.path)
    params = pretrained.weights(c, shape)
    if c.lora.path:
      logging.info('Beginning with the adapter of %s', c.lora.path)
      params |= {shared_base.OWN: peft.read(c.lora.path, shape)[1]}
    return params
  return None


def policy(shape, workdir: str) -> dict[str, Any]:
  """Loads a run's newest policy, an adapter merged into its parameters."""
  c = workdir_lib.read_config(workdir)
  # Weights need no environment; memories do, since they hold what was played.
  if not c.memory and any(map(objects.is_missing, c.env.values())):
    c.env = envs.settings(envs.JITTED[0])
  _, state = load(c, shape, workdir)
  context = algorithm_lib.make_algorithm(c, shape).context
  return lora.merge(algorithm.full_params(context, state.params))


def load_roles(
  experiments: Sequence[Experiment], state: TrainState
) -> TrainState:
  """Loads the roles that are policies of other runs, as they are now."""
  params, loaded = {**state.params}, dict[str, str]()
  for s in experiments:
    loaded |= {name: x.run for name, x in s.config.role.items() if x.run}
  for name, run in loaded.items():
    logging.info('Role %s is the policy of %s', name, run)
    params[name] = policy(experiments[0].shape, run)
  return state.replace(params=params)


def export(workdir: str, out: str) -> None:
  """Writes a run's newest policy as a checkpoint, with its tokenizer's files.

  Value heads and other roles are left out; numbers are of the dtype that the
  checkpoint it began from names.

  Raises: ValueError if the run began from none, or `out` holds weights.
  """
  c = workdir_lib.read_config(workdir)
  if not c.model.path:
    raise ValueError(
      f'{workdir} is a run of a model of its own, which is of no family of'
      ' checkpoints; export a run that began with --config.model.path'
    )
  source, folder = hf_weights.locate(c.model.path), pathlib.Path(out)
  shape = pretrained.language(c).shape
  hf_weights.write(folder, hf_config.read(source), policy(shape, workdir))
  for pattern in hf_weights.TEXTS:
    for file in source.glob(pattern):
      if not (folder / file.name).exists() and file.name != hf_weights.INDEX:
        shutil.copy(file, folder)


def load_policy_params(
  alg, weights: dict[str, Any], state: TrainState
) -> TrainState:
  """Loads policy parameters into the state; those it lacks stay as they are.

  An adapter that is not among them stays, on another base.
  """
  share = alg.context.modules[update.POLICY].share
  params = {**state.params}
  for role in (update.POLICY, *([share.role] if share else [])):
    ours = params[role]
    params[role] = {name: weights.get(name, x) for name, x in ours.items()}
  return state.replace(params=params)
