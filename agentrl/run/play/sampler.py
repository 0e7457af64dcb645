"""Samplers of a run: play its environment, inside jit or on hosts."""

import collections
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import jax
import numpy as np

from agentrl import loop
from agentrl.judge.panel import Judgement
from agentrl.rollout.record import Record
from agentrl.run import build, placement
from agentrl.run.play import collect as collect_lib
from agentrl.run.play import judges
from agentrl.run.play.host_sampler import HostSampler
from agentrl.run.play.judges import Judges
from agentrl.run.play.services import Services
from agentrl.run.stage.demonstrations import Script
from agentrl.runtime import distributed
from agentrl.types import Attempts, Batch, CollectInputs, Metrics, PyTree


class EvalPlayer(Protocol):
  """Plays held-out tasks."""

  def play(self, policy: PyTree, attempts: Attempts, key) -> Record:
    """Plays without rewards, for an evaluation."""

  def eval_counts(self) -> dict[str, float]:
    """Counts of what was played since the last call, by name."""

  def unplayed(self) -> str:
    """Says that nothing was played since the last call; '': something was."""

  def update_service_params(self, params: dict[str, PyTree]) -> None:
    """Takes the parameters of all roles, before any of the others plays."""


class EnvSampler(EvalPlayer, Protocol):
  """Plays the environment of a run for stages and evaluations."""

  def demo_batch(self, index: np.ndarray) -> Any:
    """Returns what `demonstrate` takes for these training tasks."""

  def demonstrate(self, demos: Any, key) -> Batch:
    """Returns rows of solutions."""

  def replay(self, index: np.ndarray, scripts: Sequence[Script], key) -> Batch:
    """Returns rows of these messages, played at these training tasks."""

  def collect(self, policy: PyTree, attempts: Attempts, key, step) -> Batch:
    """Returns the batch of an iteration, with rewards."""

  def observe(self, batch: Batch) -> Metrics:
    """Measures what was collected."""

  def verdicts(self, key: str) -> list[Judgement]:
    """What judges said of a trajectory, by judge.item.trajectory_key."""


class JitSampler:
  """Plays an environment inside jit; every program is compiled once."""

  def __init__(self, s: build.Experiment):
    self._s, bind = s, functools.partial
    self._replay = placement.sharded(bind(collect_lib.demonstrate, s))
    self._collect = placement.sharded(bind(collect_lib.collect, s))
    self._play = placement.jit_replicated_out(bind(collect_lib.play, s))
    self._messages = functools.cache(lambda: collect_lib.messages(s, s.train))

  def demo_batch(self, index: np.ndarray):
    messages, length = self._messages()
    attempts = collect_lib.demo_attempts(self._s, index)
    return attempts, messages[index], length[index]

  def demonstrate(self, demos, key) -> Batch:
    return self._replay(*placement.replicated(demos), key)

  def replay(self, index: np.ndarray, scripts: Sequence[Script], key) -> Batch:
    plan = self._s.plan
    size = len(index), plan.turns, plan.message
    tokens, length = np.zeros(size, np.int32), np.zeros(size[:2], np.int32)
    for b, script in enumerate(scripts):
      for k, ids in enumerate(script):
        tokens[b, k, : len(ids)], length[b, k] = ids, len(ids)
    attempts = collect_lib.attempts_at(index, [len(x) for x in scripts])
    return self.demonstrate((attempts, tokens, length), key)

  def collect(self, policy, attempts: Attempts, key, step) -> Batch:
    return self._collect(policy, placement.replicated(attempts), key, step)

  def observe(self, batch: Batch) -> Metrics:
    return loop.observe(batch)

  def play(self, policy, attempts: Attempts, key) -> Record:
    return self._play(policy, placement.replicated(attempts), key)

  def eval_counts(self) -> dict[str, float]:
    """Nothing goes wrong inside jit."""
    return {}

  def unplayed(self) -> str:
    """Nothing goes wrong inside jit."""
    return ''

  def update_service_params(self, params) -> None:
    """Environments inside jit ask no service."""

  def verdicts(self, key: str) -> list[Judgement]:
    """Nobody judges."""
    return []


class JudgedJitSampler(JitSampler):
  """The same, with a batch that judges see on the host before its rewards.

  Open until `close`. Rollout and rewards are two programs then, and the record
  comes to the host once between them.
  """

  def __init__(self, s: build.Experiment, workdir: str):
    """Opens services.

    Args:
      workdir: folder of the run, where answers are kept
    """
    super().__init__(s)
    bind, whole = functools.partial, placement.jit_replicated_out
    self._services = Services(s, workdir)
    self._judges = Judges(s, self._services, workdir)
    self._sample = whole(
      lambda *args: collect_lib.mark_spans(s, collect_lib.play_groups(s, *args))
    )
    self._arrays = placement.sharded(bind(collect_lib.arrays, s))
    self._score = placement.sharded(bind(collect_lib.score, s.algorithm.spec))
    self._counts: collections.Counter[str] = collections.Counter()

  def __enter__(self) -> 'JudgedJitSampler':
    return self

  def __exit__(self, *_) -> None:
    self._judges.close()
    self._services.close()

  def collect(self, policy, attempts: Attempts, key, step) -> Batch:
    def sample(attempts, key):
      attempts = placement.replicated(attempts)
      record = jax.device_get(self._sample(policy, attempts, key))
      record = self._judged(record, jax.device_get(attempts.group))
      return self._arrays(placement.replicated(record), attempts, step)

    x = CollectInputs(
      sample=sample, score=self._score, attempts=attempts, key=key
    )
    return collect_lib.collector(self._s.algorithm.spec)(x)

  def observe(self, batch: Batch) -> Metrics:
    counts, self._counts = self._counts, collections.Counter()
    return super().observe(batch) | judges.metrics(counts)

  def update_service_params(self, params) -> None:
    self._services.update_params(params)

  def verdicts(self, key: str) -> list[Judgement]:
    return self._judges.of(key)

  def _judged(self, record: Record, group: np.ndarray) -> Record:
    lines = distributed.share(len(group))

    def mine():
      self._judges.begin(group, lines)
      for b in lines:
        item = judges.of_record(record, b, self._s.tokenizer)
        self._judges.submit(b, item, record.status[b])
      verdicts = self._judges.verdicts()
      return verdicts, self._services.taken() | self._judges.taken()

    gathered = distributed.allgather_objects(mine)
    for _, counts in gathered:
      self._counts.update(counts)
    verdicts = {b: x for of, _ in gathered for b, x in of.items()}
    return self._judges.filled(record, verdicts)


def open_sampler(
  s: build.Experiment,
  stopping: Callable[[], None] = lambda: None,
  workdir: str = '',
) -> AbstractContextManager[EnvSampler]:
  """Opens the sampler of a run.

  stopping: raises when the run is to end; asked while environments are waited
    for
  workdir: folder of the run, where answers of servers are kept
  """
  if s.on_host:
    return HostSampler(s, stopping, workdir)
  if s.algorithm.spec.judge:
    return JudgedJitSampler(s, workdir)
  return nullcontext(JitSampler(s))
