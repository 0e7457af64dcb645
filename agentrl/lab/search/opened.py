"""Opens what a search plays: the newest policy of a run, in a world that forks.

Held-out tasks, limits and prompts are those of the run's own evaluation.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import numpy as np
from scipy import special

from agentrl.configs import stages as stage_list
from agentrl.env import base as env_base
from agentrl.lab.search import run as run_lib
from agentrl.lab.search import values
from agentrl.lab.search.run import Evaluator
from agentrl.learner import algorithm
from agentrl.recall import base as recall_base
from agentrl.rollout import actor, forks, host_forks, jit_forks
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.engine.engine import Engine
from agentrl.rollout.jit_sizes import RolloutSizes, TokenizedEnv
from agentrl.rollout.keys import Stream, stream_key
from agentrl.rollout.workers.process import ProcessEnv, sendable
from agentrl.rollout.workers.replies import CHARACTERS, InProcessEnv
from agentrl.run import build, placement, weights
from agentrl.run import workdir as workdir_lib
from agentrl.run.experiment import Experiment
from agentrl.run.play import host_env, jit_env, learned_reward
from agentrl.service.base import Function
from agentrl.task.base import make_attempts
from agentrl.types import TrainState

IN_THREADS, IN_PROCESSES = 4096, 32  # environments that are kept standing
EVALUATORS = (
  *('truth', 'outcome', 'learned', 'learned_ends'),
  *('likelihood', 'mean_likelihood', 'random'),
)
OF_ENDS = ('outcome', 'learned_ends', 'random')  # unknown before an end


class Opened(NamedTuple):
  """A run that searches play."""

  experiment: Experiment
  state: TrainState
  step: int  # of the checkpoint
  forks: forks.Forks
  seed: int  # of the sampling

  def evaluator(self, name: str) -> Evaluator:
    """Returns what values are by: one of EVALUATORS.

    A learned value is σ(Σ r) of the learned rewards of a trajectory's turns; it
    sees no end, and is below 1, which only a known success has.

    Raises:
      ValueError: the environment or the method does not know any.
    """
    match name:
      case 'outcome':
        return run_lib.outcome
      case 'truth':
        return self._truth()
      case 'learned':
        return self._learned(name)
      case 'learned_ends':
        return values.of_ends(self._learned(name))
      case 'random':
        return values.of_ends(values.chance(self.forks, self.seed))
    return values.likelihood(self.forks, mean=name == 'mean_likelihood')

  def _truth(self) -> Evaluator:
    s = self.experiment
    if not knows_values(s.world):
      raise ValueError(
        "--evaluator must not be 'truth' where an environment does not value"
        f" its states, got 'truth' for env={s.config.env.name}; try 'outcome'"
      )
    return run_lib.truth

  def _learned(self, name: str) -> Evaluator:
    s = self.experiment
    scorer = learned_reward.scorer(s, self.state)
    if scorer is None:
      raise ValueError(
        '--evaluator must not be of learned values for a method that learns no'
        f" reward of turns, got {name!r} for {s.config.method!r}; try 'outcome'"
      )
    size = s.plan.slots if isinstance(s.plan, RolloutSizes) else 64

    def evaluate(played: Sequence[forks.Played]) -> list[float | None]:
      out: list[float | None] = []
      for i in range(0, len(played), size):
        places = [x.place for x in played[i : i + size]]
        count = len(places)
        places += [places[0]] * (size - count)  # one shape for the compiler
        attempts = make_attempts(np.zeros(size, np.int32), 1, s.plan.turns, 1.0)
        total = scorer(attempts, self.forks.record(places))[:count]
        out += (special.expit(total) * values.BELOW_1).tolist()
      return out

    return evaluate


def knows_values(world: TokenizedEnv | HostEnvBundle) -> bool:
  """Returns whether a world says what its states are worth."""
  if isinstance(world, TokenizedEnv):
    return jit_forks.valued(world.env)
  return host_forks.valued(world)


@contextlib.contextmanager
def opened(
  workdir: str,
  *,
  tasks: int,
  calls: int,
  temperature: float = 1.0,
  limit: int | None = None,
  seed: int = 0,
) -> Iterator[Opened]:
  """Opens a run to search `tasks` tasks at a time with `calls` calls each.

  Raises:
    ValueError: there is no checkpoint, or its world cannot be searched.
  """
  whole = workdir_lib.read_config(workdir)
  plans = stage_list.plans(whole)
  c = plans[-1].config if plans else whole
  s = build.experiment(jit_env.for_evaluation(c, None, limit))
  if recall_base.of(s.algorithm.spec):
    raise forks.refused(f'c.recall={c.recall!r}', 'what it reads is not kept')
  key = stream_key(jax.random.key(seed), Stream.EVAL)
  with contextlib.ExitStack() as stack:
    with placement.on_mesh(c):
      step, state = weights.load(whole, s.shape, workdir)
      params = algorithm.full_params(s.algorithm.context, state.params)
    if isinstance(s.world, TokenizedEnv):
      made: forks.Forks = _inside(
        s, params, key, places=tasks * (calls + 1), temperature=temperature
      )
    else:
      made = outside = _outside(s, s.world, params, key, temperature)
      stack.callback(outside.close)
    yield Opened(s, state, step, made, seed)


def _inside(
  s: Experiment, params, key: jax.Array, *, places: int, temperature: float
) -> jit_forks.JitForks:
  """Returns forks of an environment inside jit."""
  sizes, world, r = s.plan, s.world, s.config.rollout
  assert isinstance(sizes, RolloutSizes)
  assert isinstance(world, TokenizedEnv)

  def speaker(params):
    return actor.model(
      s.shape,
      params,
      message=sizes.message,
      eot=s.tokenizer.eot,
      top_k=r.top_k,
      top_p=r.top_p,
    )

  return jit_forks.JitForks(
    world, sizes, speaker, params, key, places=places, temperature=temperature
  )


def _outside(
  s: Experiment,
  world: HostEnvBundle,
  params,
  key: jax.Array,
  temperature: float,
) -> host_forks.HostForks:
  """Returns forks of a host environment."""
  c = s.config
  functions = {
    name: Function(x.function) for name, x in c.service.items() if x.function
  }
  family = env_base.with_services(world.family, functions)
  world = world._replace(family=family)
  worker = c.host.worker or family.worker
  if worker in env_base.CLUSTERS:
    raise forks.refused(f'host.worker={worker!r}', 'episodes are elsewhere')
  backend = InProcessEnv if worker == 'thread' else ProcessEnv
  if worker == 'process':
    sendable(family)
  sizes = host_env.sizes(c, world.limits.context)
  engine = Engine(s.shape, sizes, eot=s.tokenizer.eot)
  engine.update_weights(params, 0)
  return host_forks.HostForks(
    world,
    engine,
    lambda: backend(family, CHARACTERS),
    key,
    workers=c.host.num_envs or c.rollout.slots,
    temperature=temperature,
    standing=IN_THREADS if worker == 'thread' else IN_PROCESSES,
  )
