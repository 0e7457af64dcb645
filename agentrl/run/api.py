"""Library interface of a run: iterate its steps, generate with its policy."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
from ml_collections import ConfigDict

from agentrl.learner import algorithm
from agentrl.log import metrics as metrics_lib
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from agentrl.run import config_file, runner
from agentrl.run.experiment import Experiment
from agentrl.runtime import distributed, storage
from agentrl.types import TrainState

_NOT_OPEN = 'the run is not open; write `with Run(...) as run:`'


class Policy:
  """Text generator with the newest parameters of a run."""

  def __init__(self, run: 'Run'):
    self._run = run

  def generate(
    self,
    text: str,
    *,
    max_tokens: int = 64,
    temperature: float = 1.0,
    seed: int = 0,
  ) -> str:
    """Writes the message after a text; temperature 0 takes likeliest tokens.

    Raises: ValueError for an empty text, or a message that the model has no
      positions for.
    """
    s, state = self._run.experiment, self._run.state
    if state is None:
      raise ValueError(_NOT_OPEN)
    words, context = s.tokenizer, s.algorithm.context
    ids = words.encode(text, specials=True)
    if not ids or max_tokens < 1:
      raise ValueError(
        f'generate({text!r}, max_tokens={max_tokens}): give a text of at least'
        ' one token and ask for at least one'
      )
    sizes = Sizes(slots=1, capacity=len(ids) + max_tokens)
    engine = Engine(s.shape, sizes, eot=words.eot)
    engine.update_weights(algorithm.full_params(context, state.params), 0)
    key = np.asarray(jax.random.key_data(jax.random.key(seed)))
    engine.submit(0, ids, SamplingParams(key, max_tokens, temperature))
    messages = []
    while not messages:
      engine.dispatch()
      messages = engine.collect()
    (message,) = messages
    return words.decode([x for x in message.ids if x != words.eot])


class Run:
  """A run of a config in a workdir, begun or resumed.

  Iterating gives (step, state, metrics) after every step of reinforcement
  learning, behind the warm start if there is one. The workdir holds what the
  command `train` leaves there, and either goes on where the other stopped. A
  metric is NaN in a step that measured nothing of it. A
  state is donated to the next step; copy what is to outlive it.
  """

  experiment: Experiment
  state: TrainState | None

  def __init__(
    self,
    config: str | ConfigDict,
    *,
    workdir: str,
    changes: Mapping[str, Any] | None = None,
  ):
    """Raises ValueError, one sentence, for a config that cannot be read.

    Args:
      config: a method ('oprl:tiny'), the path of a config file, or its value
      changes: {field: value}, such as {'steps': 10, 'role.policy.lr': 1e-4}
    """
    c = config_file.load(config) if isinstance(config, str) else config
    self.config = config_file.change(c, changes or {})
    self.policy = Policy(self)
    self._workdir = storage.absolute(workdir)
    self._opened = runner.open_run([c], [self._workdir])
    self._steps, self.state = None, None

  def __enter__(self) -> 'Run':
    """Raises ValueError, one sentence, for a config that cannot run."""
    [self.experiment], self.state, self._steps = self._opened.__enter__()
    return self

  def __exit__(self, *error) -> None:
    self._opened.__exit__(*error)
    self._steps = None

  def __iter__(self) -> Iterator[tuple[int, TrainState, dict[str, float]]]:
    if self._steps is None:
      raise ValueError(_NOT_OPEN)
    for kind, step, state, metrics in self._steps:
      self.state = state
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
