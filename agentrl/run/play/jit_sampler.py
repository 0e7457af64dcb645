"""Samplers of environments inside jit; every program is compiled once."""

import collections
import functools
from collections.abc import Sequence

import jax
import numpy as np

from agentrl import loop, registry
from agentrl.env.jit import base as env_base
from agentrl.judge.panel import Judgement
from agentrl.rollout.jit_sizes import TokenizedEnv
from agentrl.rollout.record import Record
from agentrl.run import placement
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect as collect_lib
from agentrl.run.play import demonstrations, judges
from agentrl.run.play.base import Newest, Script
from agentrl.run.play.judges import Judges
from agentrl.run.play.services import Services
from agentrl.runtime import distributed
from agentrl.service.base import Service
from agentrl.types import Attempts, Batch, CollectInputs, Metrics, Notes


class JitSampler:
  """Plays an environment inside jit; every program is compiled once."""

  def __init__(self, s: Experiment):
    self._s, bind = s, functools.partial
    self._replay = placement.sharded(bind(collect_lib.demonstrate, s))
    self._collect = placement.sharded(bind(collect_lib.rollout_and_score, s))
    self._play = placement.jit_replicated_out(bind(collect_lib.play, s))
    self._messages = functools.cache(lambda: demonstrations.messages(s))

  def play(self, policy, attempts: Attempts, key) -> Record:
    return self._play(policy, placement.replicated(attempts), key)

  def collect(
    self,
    policy,
    attempts: Attempts,
    key,
    step,
    *,
    newest: Newest | None = None,
  ) -> tuple[Batch, Metrics]:
    attempts = placement.replicated(attempts)
    # A batch is one program: others are for who branches by two policies.
    two = 'newest_branches' in registry.provided(self._s.algorithm.spec)
    now = newest() if newest and two else None
    batch = self._collect(policy, attempts, key, step, now)
    return batch, loop.observe(batch)

  def demos(
    self, index: np.ndarray, scripts: Sequence[Script] | None = None
  ) -> tuple[Attempts, np.ndarray, np.ndarray]:
    assert isinstance(self._s.world, TokenizedEnv)
    env = self._s.world.env
    if isinstance(env, env_base.Demonstrates):
      if scripts is not None:
        raise ValueError(
          f'env.name={self._s.config.env.name!r} moves by itself in'
          ' demonstrations; leave the source out of sft.mix and prefix_source'
        )
      seats = self._s.seats
      index = np.repeat(index[::seats], seats)  # a match has one task
      attempts = collect_lib.attempts_at(index, self._s.plan.turns)
      return attempts, *demonstrations.moves(self._s)
    if scripts is None:
      messages, length = self._messages()
      attempts = collect_lib.demo_attempts(self._s, index)
      return attempts, messages[index], length[index]
    plan = self._s.plan
    size = len(index), plan.turns, plan.message
    tokens, length = np.zeros(size, np.int32), np.zeros(size[:2], np.int32)
    for b, script in enumerate(scripts):
      for k, ids in enumerate(script):
        tokens[b, k, : len(ids)], length[b, k] = ids, len(ids)
    attempts = collect_lib.attempts_at(index, [len(x) for x in scripts])
    return attempts, tokens, length

  def replay(self, demos, key) -> Batch:
    return self._replay(*placement.replicated(demos), key)

  def taken(self) -> dict[str, float]:
    """Counts nothing: nothing goes wrong inside jit."""
    return {}

  def verdicts(self, key: str) -> list[Judgement]:
    """Returns an empty list: no judges run."""
    return []

  def update_service_params(self, params) -> None:
    """Does nothing: environments inside jit ask no service."""

  def service(self, name: str) -> Service:
    """Raises KeyError: nothing asks one."""
    raise KeyError(name)


class JudgedJitSampler(JitSampler):
  """The same, with a batch that judges see on the host before its rewards.

  Open until `close`. Rollout and rewards are two programs then, and the record
  comes to the host once between them.
  """

  def __init__(self, s: Experiment, services: Services, workdir: str):
    """Opens judges.

    Args:
      services: that judges ask; closed with the sampler
      workdir: folder of the run, where answers are kept
    """
    super().__init__(s)
    bind, whole = functools.partial, placement.jit_replicated_out
    self._services = services
    self._judges = Judges(s, services, workdir)
    self._sample = whole(
      lambda params, attempts, key: collect_lib.mark_spans(
        s,
        collect_lib.play(s, params, attempts, key, s.config.rollout.group_size),
      )
    )
    self._arrays = placement.sharded(bind(collect_lib.arrays, s))
    self._score = placement.sharded(bind(collect_lib.score, s.algorithm.spec))
    self._counts: collections.Counter[str] = collections.Counter()

  def __enter__(self) -> 'JudgedJitSampler':
    return self

  def __exit__(self, *_) -> None:
    self._judges.close()
    self._services.close()

  def collect(
    self,
    policy,
    attempts: Attempts,
    key,
    step,
    *,
    newest: Newest | None = None,
  ) -> tuple[Batch, Metrics]:
    del newest  # a batch is one program

    def sample(attempts, key):
      attempts = placement.replicated(attempts)
      record = jax.device_get(self._sample(policy, attempts, key))
      read = jax.device_get((attempts.group, attempts.notes))
      record = self._judged(record, *read, int(np.max(step)))
      return self._arrays(placement.replicated(record), attempts, step)

    x = CollectInputs(
      sample=sample, score=self._score, attempts=attempts, key=key
    )
    batch = collect_lib.collector(self._s.algorithm.spec)(x)
    counts, self._counts = self._counts, collections.Counter()
    return batch, loop.observe(batch) | judges.metrics(counts)

  def update_service_params(self, params) -> None:
    self._services.update_params(params)

  def service(self, name: str) -> Service:
    return self._services.named(name)

  def verdicts(self, key: str) -> list[Judgement]:
    return self._judges.of(key)

  def _judged(
    self, record: Record, group: np.ndarray, notes: Notes | None, step: int
  ) -> Record:
    lines = distributed.share(len(group))
    how = dict(notes=notes, history=self._s.plan.history)

    def mine():
      self._judges.begin(group, lines, step)
      for b in lines:
        item = judges.of_record(record, b, self._s.tokenizer, **how)
        self._judges.submit(b, item, record.status[b])
      verdicts = self._judges.verdicts()
      return verdicts, self._services.taken() | self._judges.taken()

    gathered = distributed.allgather_objects(mine)
    for _, counts in gathered:
      self._counts.update(counts)
    verdicts = {b: x for of, _ in gathered for b, x in of.items()}
    return self._judges.filled(record, verdicts)
