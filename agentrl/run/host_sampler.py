"""What plays a run's host environments: one slot engine, one set of rooms."""

import collections
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import distributed, loop
from agentrl.curate import select
from agentrl.rollout import host as host_rollout
from agentrl.rollout import pack
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Engine
from agentrl.rollout.record import Record
from agentrl.rollout.scripted import Script
from agentrl.rollout.workers.pool import rooms
from agentrl.run import build, host_env, placement
from agentrl.run import collect as collect_lib
from agentrl.run.services import Services
from agentrl.types import Attempts, Batch, PyTree, Status


class Hosted:
  """Open from the first play to `close`."""

  def __init__(self, s: build.Setup, stopping: Callable[[], None]):
    """stopping: raises when the run is to end."""
    c = s.config
    self._s, self._stopping = s, stopping
    sizes = host_env.sizes(c, s.plan.context)
    with placement.near():
      self._engine = Engine(s.shape, sizes, eot=s.tokenizer.eot)
    self._policy: tuple[PyTree, PyTree] = None, None  # given, brought here
    count = min(c.host.sessions or c.rollout.slots, collect_lib.attempted(c))
    count = -(-count // jax.process_count())
    place = c.host.place or None
    self._services = Services(s)
    family = self._services.serve(s.world.family)
    self._rooms = rooms(family, count, place=place)
    self._arrays = placement.sharded(functools.partial(_arrays, s))
    self._score = placement.sharded(functools.partial(collect_lib.score, s))
    self._shown: dict[int, pack.Ended] = {}
    self._counts: collections.Counter[str] = collections.Counter()

  def __enter__(self) -> 'Hosted':
    return self

  def __exit__(self, *_) -> None:
    self._rooms.close()
    self._services.close()

  def lend(self, params) -> None:
    """Parameters of all roles, for services that are one of them."""
    self._services.lend(params)

  def play(self, policy, attempts: Attempts, key, version: int = 0) -> Record:
    """The policy at the attempts, to their end: host arrays."""
    return self._play(policy, attempts, key, version, lambda: None)

  def collect(self, policy, attempts: Attempts, key, version) -> Batch:
    """Rollouts and rewards."""
    version = int(version)

    def sample(attempts, key):
      attempts = jax.device_get(attempts)
      record = self._play(policy, attempts, key, version, self._stopping)
      return self._batch(record, attempts, version)

    batch, _ = collect_lib.collector(self._s.config)(
      sample, self._score, attempts, memory=(), carry=(), key=key
    )
    return batch

  def demonstrate(self, index: np.ndarray, key) -> Batch:
    """Demonstrations of training tasks; each is played once in a run."""
    new = [int(i) for i in dict.fromkeys(index) if int(i) not in self._shown]
    if new:
      said = [self._s.train.said[i] for i in new]
      told = host_env.messages(self._s.config, self._s.tokenizer, said)
      attempts = collect_lib.attempts_at(np.array(new), [len(m) for m in told])
      script = Script(dict(enumerate(told)), self._s.tokenizer.eot)
      found = self._sessions(script, attempts, key, self._stopping)
      self._learn(new, found)
    record = self._record([self._shown[int(i)] for i in index])
    batch = self._batch(
      record, collect_lib.attempts_at(index, np.ones(len(index))), 0
    )
    ids = {**batch.ids, 'source': batch.ids['source'] + 2}
    return batch.replace(ids=ids, sampled={})

  def observe(self, batch: Batch):
    """Metrics of what was collected, and of what went wrong."""
    counts, self._counts = self._counts, collections.Counter()
    one = np.ones((), np.float32)
    told = {f'rollout/{k}': (np.float32(n), one) for k, n in counts.items()}
    return loop.observe(batch) | told

  def _play(self, policy, attempts, key, version: int, stopping) -> Record:
    if policy is not self._policy[0]:
      self._policy = policy, placement.brought(policy)
    with placement.near():
      self._engine.swap(self._policy[1], version)
    ended = self._sessions(self._engine, attempts, key, stopping)
    return self._record(ended)

  def _learn(self, new: list[int], ended: list[pack.Ended]) -> None:
    self._shown |= dict(zip(new, ended, strict=True))
    wrong = sum(e.status != Status.SOLVED for e in ended)
    if wrong:
      logging.warning(
        '%d of %d demonstrations did not solve their task.', wrong, len(ended)
      )

  def _sessions(
    self, mouth, attempts: Attempts, key, stopping
  ) -> list[pack.Ended]:
    """Every process plays its share; all of them are told how they ended."""
    attempts, bits = jax.device_get((attempts, jax.random.key_data(key)))
    lines = distributed.share(len(attempts.task))

    def mine():
      with placement.near():
        ended, counts = host_rollout.sessions(
          self._s.world,
          mouth,
          self._rooms,
          attempts,
          jax.random.wrap_key_data(bits),
          lines=lines,
          stopping=stopping,
        )
      counts |= self._services.taken()
      counts |= {f'engine/{k}': n for k, n in self._engine.taken().items()}
      return ended, counts

    told = distributed.each(mine)
    for _, counts in told:
      self._counts.update(counts)
    return [x for ended, _ in told for x in ended]

  def _record(self, ended: list[pack.Ended]) -> Record:
    limits = self._s.plan
    sizes = limits.turns, limits.width, limits.message
    return pack.record(ended, *sizes, self._s.world.family.columns)

  def _batch(self, record: Record, attempts: Attempts, version) -> Batch:
    args = placement.replicated((record, attempts))
    return self._arrays(*args, jnp.int32(version))


def _arrays(
  s: build.Setup, record: Record, attempts: Attempts, version
) -> Batch:
  """The record as a Batch; what an environment broke is not trained on."""
  batch = record_lib.batch(
    record, collect_lib.layout(s, record), attempts, version
  )
  return select.keep(batch, batch.status != Status.ENV_ERROR)
