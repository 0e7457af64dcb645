"""Matches of host games: every seat is a trajectory, a conversation of its own.

Trajectories m S .. m S + S - 1 of a batch are the seats of match m, as in
matches inside jit (rollout/seats.py), and a worker plays a whole match: its
referee asks one seat after another (env/seats.py).

  referee ─► seat 0: generate ─► referee ─► seat 1: generate ─► referee ─► ...

So a seat's rows hold what its referee has told it and its own messages, and
nothing of another's. Seats of other matches speak meanwhile. Whatever ends one
seat, a fault or a limit, ends its match for all of them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl.env import base
from agentrl.rollout import host, pack
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.engine.generator import Generator
from agentrl.rollout.episode import OpenEpisode
from agentrl.rollout.workers.pool import EnvError, EnvWorker
from agentrl.rollout.workers.replies import MOST
from agentrl.runtime import distributed
from agentrl.types import Attempts, Status


class Told(NamedTuple):
  """A ruling as it came from a worker, checked; seats are numbers."""

  seat: int | None  # None: the match is over
  text: str
  role: str
  reward: list[float]  # [S]
  score: list[float]  # [S]
  info: list[dict[str, float]]  # [S]


def run_episodes(
  stage: HostEnvBundle,
  generator: Generator,
  workers: Sequence[EnvWorker],
  attempts: Attempts,
  key: jax.Array,
  *,
  indices: Sequence[int] | None = None,
  **fields: Any,
) -> tuple[list[pack.Episode], dict[str, int]]:
  """Runs attempts to their end, as `host.run_episodes` does, seat by seat.

  Where environments have one seat, an attempt is a trajectory of its own.

  Args:
    workers: as many matches are under way at a time
    attempts: B trajectories; with S seats each run of S shares a task and a
      limit, which are the first one's
    indices: of whole matches
    fields: as of `host.run_episodes`

  Raises:
    ValueError: matches are cut by B, or begin with turns that are given.
  """
  if not stage.systems:
    return host.run_episodes(
      stage, generator, workers, attempts, key, indices=indices, **fields
    )
  count = len(attempts.task) if indices is None else len(indices)
  given = attempts.prefix is not None
  if count % stage.seats or given:
    raise ValueError(
      f'attempts at matches must be a multiple of {stage.seats} seats without'
      f' turns that are given, got {count}'
      + (' with a prefix' if given else '')
    )
  first = np.arange(len(attempts.limit)) // stage.seats * stage.seats
  attempts = attempts.replace(limit=np.asarray(attempts.limit)[first])
  return host.run_episodes(
    stage,
    generator,
    workers,
    attempts,
    key,
    indices=indices,
    kind=MatchLoop,
    **fields,
  )


def share(n: int, seats: int) -> range:
  """Returns which of n trajectories belong to this process: whole matches."""
  matches = distributed.share(n // seats)
  return range(matches.start * seats, matches.stop * seats)


class MatchLoop(host.EpisodeLoop):
  """Matches under way: S open episodes for each, which share a worker.

  The episode whose message the referee is hearing holds the worker's call; at
  the beginning that is the first seat's.
  """

  def __init__(self, stage: HostEnvBundle, *args):
    super().__init__(stage, *args)
    # By attempt: what it has earned before its first turn.
    self.owed: dict[int, tuple[float, Mapping[str, float]]] = {}
    waiting = [b for b in self.waiting if b % stage.seats == 0]
    self.waiting = iter(waiting)

  def begin(self) -> None:
    """Starts matches in all free workers."""
    while self.free and (first := next(self.waiting, None)) is not None:
      worker = self.free.pop()
      seats = range(first, first + self.stage.seats)
      begun = [self.opening(b, worker) for b in seats]
      self.reset(begun[0])

  def seats_of(self, episode: OpenEpisode) -> list[OpenEpisode]:
    """Returns the open episodes of a match, seat by seat."""
    first = episode.attempt // self.stage.seats * self.stage.seats
    return [self.open[b] for b in range(first, first + self.stage.seats)]

  def hear(self, episode: OpenEpisode, reply: str | base.Step) -> None:
    """Pays the seats of a match, and asks the next one."""
    step = reply if isinstance(reply, base.Step) else base.Step(reply)
    if isinstance(reply, base.Step):
      last = episode.turns[-1]
      invalid = last.invalid or step.invalid
      episode.turns[-1] = last._replace(invalid=invalid)
    seats = self.seats_of(episode)
    try:
      told = read(step.text, len(seats), self.stage.family.columns)
    except EnvError as error:
      self.fail(episode, error.kind, error.text)
      return
    for seat, reward, info in zip(seats, told.reward, told.info, strict=True):
      self.pay(seat, reward, info)
    if told.seat is None:
      self.settle(seats, told.score)
      return
    asked = seats[told.seat]
    if self.turns_left(asked):
      self.request_message(asked, told.text, told.role)
    else:
      self.end_early(asked)

  def pay(
    self, episode: OpenEpisode, reward: float, info: Mapping[str, float]
  ) -> None:
    """Counts what a seat has earned to its last turn, or to its first one."""
    if episode.turns:
      last = episode.turns[-1]
      episode.turns[-1] = last._replace(
        reward=last.reward + reward, info={**last.info, **info}
      )
    else:
      before, more = self.owed.pop(episode.attempt, (0.0, {}))
      self.owed[episode.attempt] = before + reward, {**more, **info}

  def act(self, episode: OpenEpisode, *args, **kwargs) -> None:
    """Has the referee hear a message."""
    super().act(episode, *args, **kwargs)
    if owed := self.owed.pop(episode.attempt, None):
      self.pay(episode, *owed)

  def settle(self, seats: Sequence[OpenEpisode], score: Sequence[float]):
    """Ends a match that was played out."""
    for episode, own in zip(seats, score, strict=True):
      status = Status.SOLVED if own > 0.5 else Status.FAILED
      self.put_down(episode, pack.Episode(episode.turns, status, own))
    self.release(seats[0].worker)

  def end(
    self,
    episode: OpenEpisode,
    status: Status,
    score: float = 0.0,
    fault: str = '',
  ) -> None:
    """Ends a match that was not played out, which scores 0 for every seat."""
    del score  # of what is not over
    for seat in self.seats_of(episode):
      self.put_down(seat, pack.Episode(seat.turns, status, 0.0, fault))
    self.release(episode.worker)


def read(text: str, seats: int, columns: Sequence[str]) -> Told:
  """Reads a ruling as `env.seats.encode` writes it, trusting nothing.

  Raises:
    EnvError: malformed; it is something else.
  """
  try:
    told = Told(**json.loads(text))
  except (ValueError, TypeError, RecursionError):
    raise EnvError(
      'malformed', f'a referee must answer with a ruling, got {text!r:.80}'
    ) from None
  known = type(told.seat) is int and told.seat in range(seats)
  if told.seat is not None and not known:
    raise _malformed('seat', f'a number below {seats}', told.seat)
  if not isinstance(told.text, str):
    raise _malformed('text', 'a str', told.text)
  if told.role not in ('user', 'tool'):
    raise _malformed('role', "'user' or 'tool'", told.role)
  for name in ('reward', 'score', 'info'):
    of = getattr(told, name)
    if not isinstance(of, list) or len(of) != seats:
      raise _malformed(name, f'a list of {seats}', of)
  most = {'reward': MOST, 'score': 1.0}
  for name, limit in most.items():
    low = -limit if name == 'reward' else 0.0
    for x in getattr(told, name):
      if not (_is_number(x) and low <= x <= limit):
        raise _malformed(name, f'within [{low:g}, {limit:g}]', x)
  for info in told.info:
    if not isinstance(info, dict) or not {*info} <= {*columns}:
      raise _malformed('info', f'among {tuple(columns)}', info)
    for x in info.values():
      if not (_is_number(x) and abs(x) <= MOST):
        raise _malformed('info', f'within ±{MOST:g}', x)
  return told


def _is_number(x: Any) -> bool:
  return isinstance(x, int | float) and not isinstance(x, bool)


def _malformed(name: str, rule: str, value: Any) -> EnvError:
  return EnvError(
    'malformed', f'{name} of a ruling must be {rule}, got {value!r:.80}'
  )
