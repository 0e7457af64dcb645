"""Prefixes of a run: attempts that begin with turns of a demonstration."""

import dataclasses
import functools
from typing import Any

import numpy as np
from absl import logging

from agentrl import registry
from agentrl.dataset import host_tasks
from agentrl.prefix import lengths
from agentrl.run import build, collect, describe, host_env
from agentrl.types import Attempts, Messages, Prefix


@dataclasses.dataclass(frozen=True)
class Demonstrations:
  """What the demonstrations of the training tasks say, message by message."""

  experiment: build.Experiment

  def prefixed(self, attempts: Attempts, step: int) -> Attempts:
    """The attempts with the prefixes that the method gives them at a step."""
    spec = self.experiment.algorithm.spec
    values = spec.values('prefix', spec.prefix)
    choose = registry.bind('prefix', spec.prefix, values, 'c.prefix')
    task: Any = attempts.task
    turns = self.turns[task]
    count: Any = choose(collect.plan(self.experiment), attempts, turns, step)
    count = lengths.clipped(count, turns, attempts.limit)
    return attempts.replace(prefix=Prefix(count, self._of(task)))

  @functools.cached_property
  def turns(self) -> np.ndarray:
    """Turns of the demonstration of each training task: [n], 0: there is none.

    Nor is there one that no attempt is long enough for: its beginning would
    lead nowhere.

    Raises ValueError where nothing is left.
    """
    s, c = self.experiment, self.experiment.config
    if isinstance(s.train, host_tasks.HostTaskSet):
      counts = np.array([len(texts) for texts in s.train.demonstration])
    else:
      counts = np.sum(s.train.actions >= 0, axis=1)
    if not np.any(counts > 1):
      raise ValueError(
        f'c.prefix={c.prefix!r} gives attempts turns of a demonstration and'
        f' leaves them the last, and no task of {describe.task_name(s)} has one'
        " of two turns; set c.prefix to 'none'"
      )
    fits, longest = counts <= c.rollout.max_turns, np.max(counts)
    if not np.any(counts[fits] > 1):
      raise ValueError(
        f'c.prefix={c.prefix!r} gives attempts turns of a demonstration, and'
        f' rollout.max_turns={c.rollout.max_turns} allows none of two turns or'
        f' more; set that to {longest}'
      )
    if not np.all(fits):
      text = '%d of %d demonstrations have more than rollout.max_turns=%d turns'
      text += ' and are not given; the longest has %d'
      values = np.sum(~fits), np.sum(counts > 0), c.rollout.max_turns, longest
      logging.warning(text, *values)
    return np.where(fits, counts, 0)

  def _of(self, tasks: np.ndarray) -> Messages:
    """The demonstrations of these tasks, padded to the run's capacities."""
    plan = self.experiment.plan
    if isinstance(self._said, tuple):
      return Messages(*(x[tasks] for x in self._said))
    size = len(tasks), plan.turns, plan.message
    tokens: Any = np.zeros(size, np.int32)
    length: Any = np.zeros(size[:2], np.int32)
    for b, task in enumerate(tasks):
      for k, ids in enumerate(self._said[task]):
        tokens[b, k, : len(ids)], length[b, k] = ids, len(ids)
    return Messages(tokens, length)

  @functools.cached_property
  def _said(self):
    """Tokens [n, K, M] and lengths [n, K], or lists of ids where ragged."""
    s = self.experiment
    if isinstance(s.train, host_tasks.HostTaskSet):
      texts = s.train.demonstration
      return host_env.messages(s.config, s.tokenizer, texts)
    return collect.messages(s, s.train)


def check(s: build.Experiment) -> None:
  """Raises ValueError where there is nothing to give, or too much."""
  if s.algorithm.spec.prefix != 'none':
    _ = Demonstrations(s).turns
