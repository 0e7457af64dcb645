"""Library interface of a run: iterate its steps, generate with its policy."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agentrl.learner import algorithm
from agentrl.log import metrics as metrics_lib
from agentrl.run import config_objects, runner
from agentrl.run.experiment import Experiment
from agentrl.run.policy import Policy
from agentrl.runtime import distributed, storage
from agentrl.types import TrainState

_NOT_OPEN = 'the run is not open; write `with Run(...) as run:`'


class Run:
  """A run of a config in a workdir, begun or resumed.

  Iterating gives (step, state, metrics) after every step of reinforcement
  learning, behind the warm start if there is one. The workdir holds what the
  command `train` leaves there, and either goes on where the other stopped. A
  metric is NaN in a step that measured nothing of it. A
  state is donated to the next step; copy what is to outlive it.

  Functions and classes may be Python objects. The config names those that can
  be imported 'module:name'; of others (lambdas, closures, what a notebook or a
  main script defines) it has a fingerprint, so that the run goes on only where
  the same object is passed again.
  """

  experiment: Experiment
  state: TrainState | None

  def __init__(
    self,
    config: config_objects.Given,
    *,
    workdir: str,
    changes: Mapping[str, Any] | None = None,
    env: Any = None,
    rows: Iterable[Mapping[str, Any]] | None = None,
    verifier: Callable[[str, dict[str, Any]], Any] | str | None = None,
    reward: Callable | str | Sequence[Callable | str] | None = None,
  ):
    """Raises ValueError, one sentence, for a config that cannot be read.

    Args:
      config: a method ('oprl:tiny'), the path of a config file, or its value
      changes: {field: value}, such as {'steps': 10, 'role.policy.lr': 1e-4};
        a function where the field takes a 'module:function'
      env: an EnvFamily (env.base), the class or an instance, or a name
      rows: dicts with a 'prompt', in place of a file, for env=jsonl
      verifier: of answers to them, (completion, row) -> True, False, a number
        in [0, 1], or a tuple of that and numbers to log; or a name
      reward: functions of RewardInputs in jax.numpy -> [B, K], of each turn, or
        [B], of each trajectory; names of c.reward; or a list of both, summed
    """
    self.config = config_objects.config(
      config,
      changes or {},
      env=env,
      rows=rows,
      verifier=verifier,
      reward=reward,
    )
    self._workdir = storage.absolute(workdir)
    self._opened = runner.open_run([self.config], [self._workdir])
    self._steps, self.state = None, None
    self._policy: Policy | None = None

  @property
  def policy(self) -> Policy:
    """The policy, always with the newest parameters of the run."""
    if self._policy is None:
      raise ValueError(_NOT_OPEN)
    return self._policy

  def __enter__(self) -> 'Run':
    """Raises ValueError, one sentence, for a config that cannot run."""
    [self.experiment], self.state, self._steps = self._opened.__enter__()
    s = self.experiment
    self._policy = Policy(
      s.shape,
      self._policy_params(),
      eot=s.tokenizer.eot,
      tokenizer=s.tokenizer,
      chat=s.talk,
    )
    return self

  def __exit__(self, *error) -> None:
    self._opened.__exit__(*error)
    self._steps = None

  def __iter__(self) -> Iterator[tuple[int, TrainState, dict[str, float]]]:
    if self._steps is None:
      raise ValueError(_NOT_OPEN)
    for kind, step, state, metrics in self._steps:
      self.state = state
      self.policy.params = self._policy_params()
      if kind == 'rl':
        delayed = metrics_lib.DelayedFetch()
        delayed.push(step, metrics)
        _, scalars = delayed.drain()
        yield (
          step,
          state,
          {k: math.nan if x is None else x for k, x in scalars.items()},
        )
    if distributed.first():
      runner.finish(self.experiment, self._workdir)

  def _policy_params(self):
    context = self.experiment.algorithm.context
    return algorithm.full_params(context, self.state.params)
