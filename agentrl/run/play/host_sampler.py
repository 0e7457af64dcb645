"""Sampler of host environments: one slot engine, one set of workers."""

import collections
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import loop
from agentrl.configs.config import to_dict
from agentrl.curate import select
from agentrl.env import base, proposals
from agentrl.hooks import NothingPlayedError
from agentrl.judge import verdicts
from agentrl.judge.panel import Judgement
from agentrl.recall import base as recall
from agentrl.rollout import (
  host_seats,
  message_spans,
  pack,
  purify,
  registered,
  units,
)
from agentrl.rollout import record as record_lib
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.engine.engine import Engine
from agentrl.rollout.engine.generator import Generator
from agentrl.rollout.record import Record
from agentrl.rollout.remote.generator import RemoteGenerator
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.rollout.workers.pool import env_workers
from agentrl.run import placement
from agentrl.run.experiment import Experiment
from agentrl.run.play import collect as collect_lib
from agentrl.run.play import (
  host_env,
  judges,
  played,
  remote_engine,
  writing,
)
from agentrl.run.play.base import Newest, Script
from agentrl.run.play.judges import Judges
from agentrl.run.play.services import Services
from agentrl.runtime import distributed
from agentrl.service.base import Service
from agentrl.types import (
  Attempts,
  Batch,
  CollectInputs,
  Metrics,
  PyTree,
  Status,
  Written,
)


class HostSampler:
  """Open from the first play to `close`."""

  def __init__(
    self,
    s: Experiment,
    services: Services,
    *,
    stopping: Callable[[], None],
    workdir: str = '',
  ):
    """Opens judges and workers.

    Args:
      services: that environments and judges ask; closed with the sampler
      stopping: raises when the run is to end
      workdir: folder of the run, where answers of judges are kept
    """
    c = s.config
    self._s, self._stopping = s, stopping
    writing.check(recall.writer(s.algorithm.spec), s.tokenizer)
    world = host_env.recalling(c, s.world, s.tokenizer)
    self._world = host_env.guided(world, s.algorithm.spec, s.hints, s.train)
    self._demo_world = host_env.demonstrated(c, self._world)
    self._engine = self._generator()
    self._policy: tuple[PyTree, PyTree] = None, None  # given, brought here
    attempts = collect_lib.num_attempts(s.algorithm.spec, c.rollout.batch)
    count = min(c.host.num_envs or c.rollout.slots, attempts)
    count = -(-count // jax.process_count())
    self._services = services
    self._judges = Judges(s, services, workdir)
    self._run, self._closing = self._opened(count)
    self._arrays = placement.sharded(functools.partial(_arrays, s))
    self._score = placement.sharded(
      functools.partial(collect_lib.score, s.algorithm.spec)
    )
    self._shown: dict[int, list[pack.Episode]] = {}  # by task
    self._watch = played.Watch()
    # Of what was played and not counted in a batch yet; of evaluations.
    self._counts: collections.Counter[str] = collections.Counter()
    self._eval_counts: collections.Counter[str] = collections.Counter()

  def _opened(self, count: int) -> tuple[Callable, Callable[[], None]]:
    """Opens workers that play `count` trajectories at a time, or their matches.

    Returns: (generator, attempts, key, ...) -> episodes, and what closes them
    """
    s = self._s
    if isinstance(s.world.family, base.PlaysPrograms):
      from agentrl.gateway.programs import ProgramRunner  # has its own extra

      runner = ProgramRunner(s.world, self._engine, count, 'policy')
      return runner.run, runner.close
    family = self._services.serve(s.world.family)
    workers = host_env.workers(s.config, family, max(count // s.seats, 1))

    def run(generator, attempts, key, *, tasks=None, **fields):
      scripted = isinstance(generator, ScriptedGenerator)
      world = self._demo_world if scripted else self._world
      if tasks is not None:
        world = world._replace(tasks=tasks)
      ended, counts = host_seats.run_episodes(
        world, generator, workers, attempts, key, **fields
      )
      more = {f'workers/{k}': n for k, n in workers.taken().items()}
      return ended, counts | more

    return run, workers.close

  def _generator(self) -> Engine | RemoteGenerator:
    """Opens the engine of this process, or a client of another machine."""
    s, c = self._s, self._s.config
    if remote_engine.wanted(c):
      return remote_engine.open_generator(c, s.shape, s.tokenizer)
    guidance = self._world.guidance
    more = guidance.growth if guidance else 0
    sizes = host_env.sizes(c, s.plan.context + more)
    with placement.local_mesh():
      return Engine(s.shape, sizes, eot=s.tokenizer.eot)

  def __enter__(self) -> 'HostSampler':
    return self

  def __exit__(self, *_) -> None:
    self._closing()
    if isinstance(self._engine, RemoteGenerator):
      self._engine.close()
    self._judges.close()
    self._services.close()

  def update_service_params(self, params) -> None:
    """Takes the parameters of all roles, for services that are one of them."""
    self._services.update_params(params)

  def service(self, name: str) -> Service:
    """Returns a service that components ask."""
    return self._services.named(name)

  def play(self, policy, attempts: Attempts, key, version: int = 0) -> Record:
    """Plays the attempts to their end: host arrays."""
    self._update_weights(policy, version)
    ended, _ = self._sessions(
      self._engine, attempts, key, self._stopping, counts=self._eval_counts
    )
    return self._record(ended)

  def taken(self) -> dict[str, float]:
    """Returns counts of what `play` has played since the last call.

    Raises:
      NothingPlayedError: every episode was broken.
    """
    counts, self._eval_counts = self._eval_counts, collections.Counter()
    if text := self._watch.unplayed():
      raise NothingPlayedError(text)
    return dict(counts)

  def play_with(
    self,
    wrap: Callable[[Generator], Generator],
    policy,
    attempts: Attempts,
    key,
  ) -> list[pack.Episode]:
    """Plays the attempts with a generator around the engine."""
    self._update_weights(policy, 0)
    generator = wrap(self._engine)
    return self._sessions(generator, attempts, key, self._stopping)[0]

  def play_in(
    self,
    world: HostEnvBundle,
    policy,
    attempts: Attempts,
    key,
  ) -> Record:
    """Plays the attempts in another world, one at a time: a host record."""
    self._update_weights(policy, 0)
    with env_workers(world.family, 1) as pool:
      workers = [pool[0]]
      ended, _ = host_seats.run_episodes(
        world, self._engine, workers, attempts, key
      )
    return self._record(ended)

  def served_family(self) -> base.EnvFamily:
    """Returns the run's family, with environments that ask its services."""
    return self._services.serve(self._s.world.family)

  def collect(
    self,
    policy,
    attempts: Attempts,
    key,
    version,
    *,
    newest: Newest | None = None,
  ) -> tuple[Batch, Metrics]:
    """Collects rollouts and rewards; metrics count what went wrong, too."""
    version = int(version)

    def between() -> None:
      self._stopping()
      if newest is not None:
        self._swap_weights(*newest())

    def sample(attempts, key):
      attempts = jax.device_get(attempts)
      # A collect component may sample more than once.
      now = newest() if newest else (policy, version)
      self._update_weights(*now)
      if registered.kind_of(self._s.algorithm.spec).proposed:
        ended, attempts, record = self._units(attempts, key, between)
      else:
        ended, verdicts = self._sessions(
          self._engine, attempts, key, between, judged=version
        )
        record = self._judges.filled(self._record(ended), verdicts)
      clean = self._purified(record, key)
      batch = self._batch(clean, attempts.replace(texts=None), version)
      batch = batch.replace(written=self._written(attempts, ended))
      # What was sampled, with the failures that made way.
      return batch.replace(sampled=record_lib.sampled(record, attempts))

    x = CollectInputs(
      sample=sample, score=self._score, attempts=attempts, key=key
    )
    batch = collect_lib.collector(self._s.algorithm.spec)(x)
    self._watch.end_iteration()
    counts, self._counts = self._counts, collections.Counter()
    return batch, loop.observe(batch) | judges.metrics(counts)

  def _units(
    self, attempts: Attempts, key, stopping: Callable[[], None]
  ) -> tuple[list[pack.Episode], Attempts, Record]:
    """Plays attempts as units of a proposer and its solvers."""
    world, base_family = self._world, base.of(to_dict(self._s.config.env))
    assert isinstance(base_family, proposals.ProposesTasks)  # it was checked

    def said(turn: pack.TurnData) -> str:
      words, prefix = world.talk.words, world.action_prefix
      return message_spans.split(words, turn.spoken.ids, prefix)[1]

    def session(tasks, attempts: Attempts) -> list[pack.Episode]:
      how = dict(tasks=tasks)
      return self._sessions(self._engine, attempts, key, stopping, **how)[0]

    made = units.play(
      base_family,
      world.tasks,
      said,
      attempts,
      self._s.config.rollout.group_size,
      session,
    )
    self._counts.update(made.counts)
    record = self._record(made.episodes)
    scored = made.scored[:, None] & record.valid
    seats = dict(seat=made.agent, match=made.unit, scored=scored)
    return made.episodes, made.attempts, record.replace(**seats)

  def demos(
    self, index: np.ndarray, scripts: Sequence[Script] | None = None
  ) -> tuple[np.ndarray, Sequence[Script] | None]:
    seats = self._s.seats
    if scripts is not None and seats > 1:
      raise ValueError(
        f'env.name={self._s.config.env.name!r} is a match of {seats} seats,'
        ' whose demonstrations have no errors; leave the source out of sft.mix'
        ' and prefix_source'
      )
    return np.repeat(index[::seats], seats), scripts  # a match has one task

  def replay(self, demos, key) -> Batch:
    """Plays messages at training tasks; a demonstration only once in a run."""
    index, scripts = demos
    if scripts is None:
      return self._demonstrated(index, self._demonstrations(index, key))
    attempts = collect_lib.attempts_at(index, [len(x) for x in scripts])
    return self._demonstrated(index, self._scripted(attempts, scripts, key))

  def _demonstrations(self, index: np.ndarray, key) -> list[pack.Episode]:
    """Returns the episodes of demonstrations; plays those that are new.

    Matches are told by the task of their first seat.
    """
    shown, seats = self._shown, self._s.seats
    index = index[::seats]
    new = [int(i) for i in dict.fromkeys(index) if int(i) not in shown]
    if new:
      texts = [self._s.train.demonstration[i] for i in new]
      words = self._s.tokenizer
      demos = host_env.messages(self._s.config, words, texts, seats=seats)
      turns = [len(m) for m in demos]
      attempts = collect_lib.attempts_at(
        np.repeat(new, seats), np.repeat(turns, seats)
      )
      earlier = len(set(map(int, index))) - len(new)
      ended = self._scripted(attempts, demos, key, earlier)
      each = [ended[i : i + seats] for i in range(0, len(ended), seats)]
      shown = shown | dict(zip(new, each, strict=True))
      broken = Status.ENV_ERROR
      whole = {i: e for i, e in shown.items() if e[0].status != broken}
      self._shown = whole  # others are tried again
      # In a match not every seat can win; it is played to its end.
      good = [Status.SOLVED] + [Status.FAILED] * (seats > 1)
      if wrong := sum(e.status not in good for e in ended):
        text = '%d of %d demonstrations did not solve their task.'
        logging.warning(text, wrong, len(ended))
    return [episode for i in index for episode in shown[int(i)]]

  def _scripted(
    self, attempts: Attempts, scripts: Sequence[Script], key, earlier: int = 0
  ) -> list[pack.Episode]:
    eot, seats = self._s.tokenizer.eot, self._s.seats
    script = ScriptedGenerator(dict(enumerate(scripts)), eot, seats=seats)
    ended, _ = self._sessions(script, attempts, key, self._stopping)
    self._watch.end_iteration(earlier=earlier)
    return ended

  def _demonstrated(
    self, index: np.ndarray, ended: list[pack.Episode]
  ) -> Batch:
    attempts = collect_lib.attempts_at(index, np.ones(len(index)))
    batch = self._batch(self._record(ended), attempts, 0)
    return collect_lib.as_demonstrations(batch)

  def _update_weights(self, policy, version: int) -> None:
    if policy is not self._policy[0]:
      self._policy = policy, placement.to_local_mesh(policy)
    with placement.local_mesh():
      self._engine.update_weights(self._policy[1], version)

  def _swap_weights(self, policy, version: int) -> None:
    """Takes a newer policy for what is being played."""
    if policy is self._policy[0]:
      return
    self._policy = policy, placement.to_local_mesh(policy)
    drain = self._s.config.staleness.swap == 'turn'
    self._engine.swap_weights(self._policy[1], version, drain=drain)

  def verdicts(self, key: str) -> list[Judgement]:
    """Returns what judges said of a trajectory; [] of one long past."""
    return self._judges.of(key)

  def _sessions(
    self,
    generator,
    attempts: Attempts,
    key,
    stopping,
    *,
    judged: int | None = None,
    counts: collections.Counter[str] | None = None,
    tasks: Sequence[Mapping[str, Any]] | None = None,
  ) -> tuple[list[pack.Episode], dict[int, list[Judgement]]]:
    """Plays each process's share of the attempts and gathers all episodes.

    Args:
      tasks: that attempts are at; None: those of the run
      judged: the step at which judges are asked about trajectories, as soon as
        they have ended; None: none are
      counts: what was counted is added there; None: to those of training
    """
    attempts, bits = jax.device_get((attempts, jax.random.key_data(key)))
    indices = host_seats.share(len(attempts.task), self._s.seats)
    others = {} if tasks is None else {'tasks': tasks}
    asked = judged is not None and self._judges.any

    def judge(attempt: int, episode: pack.Episode) -> None:
      world = self._s.world
      task = world.tasks[attempts.task[attempt]]
      columns, words = world.columns, self._s.tokenizer
      item = judges.of_episode(task, episode, columns, words)
      self._judges.submit(attempt, item, episode.status)

    def mine():
      self._judges.begin(attempts.group, indices, judged)
      with placement.local_mesh():
        ended, counts = self._run(
          generator,
          attempts,
          jax.random.wrap_key_data(bits),
          indices=indices,
          stopping=stopping,
          ended=judge if asked else (lambda attempt, episode: None),
          **others,
        )
      stopping()  # what a signal ended beside this process was no failure
      verdicts = self._judges.verdicts()
      counts |= self._services.taken() | self._judges.taken()
      counts |= {f'engine/{k}': n for k, n in self._engine.taken().items()}
      return ended, counts, verdicts

    gathered = distributed.allgather_objects(mine)
    total = self._counts if counts is None else counts
    for _, some, _ in gathered:
      total.update(some)
    verdicts = {b: x for _, _, of in gathered for b, x in of.items()}
    episodes = [x for ended, _, _ in gathered for x in ended]
    self._watch.see(episodes)
    return episodes, verdicts

  def _record(self, ended: list[pack.Episode]) -> Record:
    return self._s.world.record(ended)

  def _purified(self, record: Record, key) -> Record:
    """Returns the record as c.rollout.kind wants it to be trained on."""
    rule = registered.kind_of(self._s.algorithm.spec).purify
    if rule is None:
      return record
    b = len(record.status)
    noise = jax.random.uniform(jax.random.fold_in(key, b), (b,))
    chosen = np.asarray(noise) < rule.chance
    return purify.purified(record, rule, chosen, self._s.tokenizer.decode)

  def _written(
    self, attempts: Attempts, ended: Sequence[pack.Episode]
  ) -> Written | None:
    """Returns what a service writes about the attempts; None: none does."""
    settings, words = recall.writer(self._s.algorithm.spec), self._s.tokenizer
    if not settings:
      return None
    service, world = self._services.named(settings['service']), self._world

    def conversation(b: int) -> str:
      task = world.tasks[int(attempts.task[b])]
      item = judges.of_episode(task, ended[b], world.columns, words)
      return verdicts.conversation(item)

    written, refused = writing.write(
      service, settings, words, attempts, ended, conversation
    )
    self._counts['refused'] += refused
    return placement.replicated(written)

  def _batch(self, record: Record, attempts: Attempts, version) -> Batch:
    record, attempts = placement.replicated((record, attempts))
    return self._arrays(record, attempts, jnp.int32(version))


def _arrays(
  s: Experiment, record: Record, attempts: Attempts, version
) -> Batch:
  """Makes a batch; what an environment broke is not trained on."""
  batch = collect_lib.arrays(s, record, attempts, version)
  return select.keep(batch, batch.status != Status.ENV_ERROR)
