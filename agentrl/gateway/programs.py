"""Rollouts in which programs drive: each attempt is a session of the gateway.

  program ─► gateway ─► generator     one thread a program, one server; the
     │          │                     caller's thread drives the generator
     └─ reward ─┴─► Episode           calls in rows, as host rollouts give them

Message k of trajectory b is sampled by the key of (b, k), as in host.py, k
being the order in which its calls came: a program that plays an environment as
our own loop does gets the same tokens.
"""

import dataclasses
import queue
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
from absl import logging

from agentrl.env import base
from agentrl.env.files.program_run import ProgramExitError
from agentrl.gateway.episodes import conversation, turns_of
from agentrl.gateway.server import Gateway
from agentrl.gateway.session import (
  Session,
  SessionLimits,
  attempt_sampling,
)
from agentrl.rollout import keys, pack
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.engine.driver import GeneratorDriver
from agentrl.rollout.engine.generator import Generator
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.pack import Episode
from agentrl.text.tool_calls import format_of
from agentrl.types import Attempts, Status

_WAIT = 0.2  # seconds until an idle generator looks at the clock


@dataclasses.dataclass
class _Play:
  """A program under way."""

  attempt: int
  name: str  # of its session
  session: Session
  run: base.ProgramRun
  until: float
  fault: str = ''  # how it failed, where it did


class _Ended(NamedTuple):
  """A program that has ended."""

  attempt: int
  error: Exception | None


class ProgramRunner:
  """Server and driver of a run's programs, open until `close`."""

  def __init__(
    self, stage: HostEnvBundle, generator: Generator, count: int, model: str
  ):
    """Opens the server; nothing is played yet.

    Args:
      count: programs under way at a time
      model: name of the policy for clients
    """
    if not isinstance(stage.family, base.PlaysPrograms):
      raise ValueError(f'{type(stage.family).__name__} names no programs')
    self._stage, self._family, self._count = stage, stage.family, count
    self._driver = GeneratorDriver(generator)
    self._gateway = Gateway(
      self._driver, model=model, context=stage.limits.context
    )

  def close(self) -> None:
    self._driver.close()
    self._gateway.close()

  def run(
    self,
    generator: Generator,
    attempts: Attempts,
    key: jax.Array,
    *,
    indices: Sequence[int] | None = None,
    stopping: Callable[[], None] = lambda: None,
    ended: Callable[[int, Episode], None] = lambda attempt, episode: None,
  ) -> tuple[list[Episode], dict[str, int]]:
    """Runs attempts to their end; see host.run_episodes.

    Returns: a trajectory for each attempt; counts: 'fault/<kind>',
      'program/<what was counted in sessions>'
    """
    indices = range(len(attempts.task)) if indices is None else indices
    self._driver.generator = generator
    batch = _Batch(self._stage, self._family, self._gateway, attempts, key)
    return batch.run(self._driver, self._count, indices, stopping, ended)


class _Batch:
  """The programs of one call of `ProgramRunner.run`."""

  def __init__(
    self,
    stage: HostEnvBundle,
    family: base.PlaysPrograms,
    gateway: Gateway,
    attempts: Attempts,
    key: jax.Array,
  ):
    self._stage, self._family, self._gateway = stage, family, gateway
    self._attempts = jax.device_get(attempts)
    limits = stage.limits
    self._keys, self._seeds = jax.device_get(
      keys.host_keys(attempts, key, limits.turns)
    )
    self._given = pack.given(attempts, limits.turns, limits.message)
    self._open: dict[int, _Play] = {}
    self._answers: queue.SimpleQueue[_Ended] = queue.SimpleQueue()
    self.counts: dict[str, int] = {}

  def run(
    self, driver: GeneratorDriver, count: int, indices, stopping, ended
  ) -> tuple[list[Episode], dict[str, int]]:
    waiting, episodes = iter(indices), {}
    try:
      while True:
        while len(self._open) < count:
          if (attempt := next(waiting, None)) is None:
            break
          self._begin(driver, attempt)
        if not self._open:
          break
        stopping()
        driver.round(_WAIT)
        for attempt, episode in self._take():
          episodes[attempt] = episode
          ended(attempt, episode)
    finally:
      for play in self._open.values():
        self._gateway.close_session(play.name)
        play.run.kill()
    return [episodes[attempt] for attempt in indices], self.counts

  def _begin(self, driver: GeneratorDriver, attempt: int) -> None:
    b, stage = attempt, self._stage
    limits = _limits(stage, int(self._attempts.limit[b]), self._attempts, b)
    session = Session(
      stage.talk,
      format_of(self._family.calls),
      limits,
      attempt_sampling(limits, self._keys[b]),
      lambda number: self._given(b, number, -1),
    )
    name = f'{b}.{secrets.token_hex(8)}'  # no program can guess another's
    address = self._gateway.open(name, session)
    task, seed = stage.tasks[self._attempts.task[b]], int(self._seeds[b])
    run = self._family.start(task, seed, address, self._gateway.key)
    until = time.monotonic() + stage.limits.patience
    self._open[b] = _Play(b, name, session, run, until)

    def live() -> None:
      error = None
      try:
        run.wait()
      except BaseException as raised:  # it may not end our thread either
        error = raised if isinstance(raised, Exception) else SystemError(raised)
      self._answers.put(_Ended(b, error))
      driver.order(lambda: None)  # wakes the one who waits for orders

    threading.Thread(target=live, daemon=True).start()

  def _take(self) -> list[tuple[int, Episode]]:
    """Takes episodes of the programs that have ended, or had their time."""
    out = []
    while not self._answers.empty():
      answer = self._answers.get()
      play = self._open.pop(answer.attempt, None)
      if play is not None:  # else its time was over
        self._gateway.close_session(play.name)
        out.append((answer.attempt, self._episode(play, answer.error)))
    now = time.monotonic()
    for play in [x for x in self._open.values() if now > x.until]:
      del self._open[play.attempt]
      self._gateway.close_session(play.name)
      play.run.kill()
      out.append((play.attempt, self._episode(play, TimeoutError())))
    return out

  def _episode(self, play: _Play, error: Exception | None) -> Episode:
    session = play.session
    for name, n in session.counts.items():
      self._count(f'program/{name}', n)
    turns = turns_of(self._stage, session)
    self._count('program/branches', sum(x.branch for x in turns))
    reward, score, status = self._result(play, error)
    if status == Status.ENV_ERROR:
      return Episode(turns, status, 0.0, play.fault)
    if turns:
      turns[-1] = turns[-1]._replace(
        reward=reward, info={**self._terms(session), **turns[-1].info}
      )
    return Episode(turns, status, score)

  def _result(
    self, play: _Play, error: Exception | None
  ) -> tuple[float, float, Status]:
    """Returns reward, score, status: the post, else grade, else how it ended.

    A program that failed after its session had met a limit, or over a message
    that was cut, may have failed because of it: the trajectory was truncated,
    and earned what it has. Some clients raise for a message that was cut.
    """
    session, limit = play.session, play.session.limit
    if session.reward is not None:
      reward, score = session.reward[:2]
      return reward, score, _status(score, limit)
    if isinstance(error, TimeoutError):
      return 0.0, 0.0, Status.TIME_LIMIT
    if error is not None and session.cut and limit is None:
      limit = Status.TOKEN_LIMIT
    if error is not None and limit is None:
      crashed = isinstance(error, ProgramExitError)
      return self._fault(play, 'crash' if crashed else 'exception', error)
    task = self._stage.tasks[self._attempts.task[play.attempt]]
    try:
      grade = self._family.grade(task, conversation(self._stage, session))
    except Exception as raised:
      return self._fault(play, 'malformed', raised)
    if grade is None and limit is None:
      error = ValueError('it posted no reward')
      return self._fault(play, 'malformed', error)
    score = grade or 0.0
    return score, score, _status(score, limit)

  def _terms(self, session: Session) -> dict[str, float]:
    """Returns posted numbers that the family names; others are counted."""
    posted = session.reward.terms if session.reward else {}
    names = posted.keys() & set(self._family.columns)
    if others := len(posted) - len(names):
      self._count('program/ignored/terms', others)
    return {name: posted[name] for name in names}

  def _fault(
    self, play: _Play, kind: str, error: Exception
  ) -> tuple[float, float, Status]:
    """Ends the trajectory of a program that failed, and no other."""
    text = 'A program failed (%s): %s: %s'
    name = type(error).__name__
    logging.log_first_n(logging.WARNING, text, 3, kind, name, error)
    play.fault = f'{kind}: {name}: {error}'
    self._count(f'fault/{kind}', 1)
    return 0.0, 0.0, Status.ENV_ERROR

  def _count(self, name: str, n: int) -> None:
    self.counts[name] = self.counts.get(name, 0) + n


def _status(score: float, limit: Status | None) -> Status:
  if score > 0.5:
    return Status.SOLVED
  return Status.FAILED if limit is None else limit


def _limits(
  stage: HostEnvBundle, calls: int, attempts: Attempts, b: int
) -> SessionLimits:
  limits: EpisodeLimits = stage.limits
  return SessionLimits(
    min(calls, limits.turns),
    limits.message,
    limits.context,
    limits.row,
    float(attempts.temperature[b]),
    stage.top_k,
    stage.top_p,
    stage.stop,
  )
