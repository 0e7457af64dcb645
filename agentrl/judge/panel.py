"""Panel of judges: asks the judges of a config about items, in threads.

Items are judged during the rollout, as soon as they are complete. A judge that
hangs, dies or answers nonsense costs only the scores of the items in question:
nothing is retried, and a judge that has hung too often is not asked again.
"""

import collections
import hashlib
import math
import numbers
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from agentrl.judge import answers, item, planted
from agentrl.judge.item import Item, JudgeFault, JudgeInputs
from agentrl.judge.workers import Late, Workers
from agentrl.service.answer_file import AnswerFile, content_id
from agentrl.service.base import Service, ServiceFault
from agentrl.text.message import Message

COUNTS = (
  'items',
  'questions',
  'cached',
  'failed',
  'late',
  'over_budget',
  'unscored',
)


class Judge(NamedTuple):
  """Component with its hyper-parameters and its service."""

  name: str
  piece: Callable[[JudgeInputs], item.Score]
  term: str  # what it fills
  unit: str  # one of item.UNITS
  service: Service | None = None
  identity: str = ''  # of whoever answers; '': answers change, none are kept
  counts: tuple[str, ...] = ()  # names of those that it keeps itself


class Judgement(NamedTuple):
  """Verdict of a judge on an item."""

  judge: str
  term: str
  turn: int  # -1: the trajectory
  score: float  # NaN: none
  fault: str  # why there is none
  # Prompts and answers; of several scores that came of them, with the first.
  questions: tuple[tuple[str, str], ...]


class Settings(NamedTuple):
  """Limits of a panel."""

  threads: int = 256  # items that are asked about at a time
  seconds: float = 60.0  # for an item
  budget: int = 0  # items of an iteration that each judge sees; 0: all


_DEFAULT, _NO_ERROR = Settings(), planted.PlantedError()


class _Ask:
  """`item.Ask` for one item; called in its thread only."""

  def __init__(self, judge: Judge, file: AnswerFile, delay: float):
    self._judge, self._file, self._delay = judge, file, delay
    self.passed: list[tuple[str, str]] = []
    self.counts: collections.Counter[str] = collections.Counter()

  def __call__(self, prompt: str) -> str:
    service = self._judge.service
    if service is None:
      raise JudgeFault(f'judge {self._judge.name!r} must have a service')
    seed = int(
      hashlib.sha256(prompt.encode(errors='replace')).hexdigest()[:7], 16
    )
    messages = [Message('user', prompt)]
    text = self.cached(prompt, lambda: service(messages, seed=seed))
    self.passed.append((prompt, text))
    return text

  def cached(self, content: str, compute: Callable[[], str]) -> str:
    self.counts['questions'] += 1
    if not self._judge.identity:
      return self._fresh(compute)
    key = content_id(self._judge.name, self._judge.identity, content)
    text = self._file.get(key)
    if text is not None:
      self.counts['cached'] += 1
      return text
    return self._file.put(key, self._fresh(compute))

  def _fresh(self, compute: Callable[[], str]) -> str:
    if self._delay:
      time.sleep(self._delay)
    return answers.check_size(compute())


class _Job(NamedTuple):
  judge: Judge
  items: tuple[Item, ...]  # one, or those of a group
  places: tuple[int, ...]  # their trajectories
  ask: _Ask
  result: Any  # of Workers.submit; None: over the budget


class JudgePanel:
  """Judges of a run, open until `close`."""

  def __init__(
    self,
    judges: Sequence[Judge],
    settings: Settings = _DEFAULT,
    error: planted.PlantedError = _NO_ERROR,
    *,
    answers: AnswerFile | None = None,
    workers: Workers | None = None,
  ):
    """Stores the judges; `submit` asks them.

    Args:
      error: planted in every score
      answers: file of earlier answers; None: they are kept in memory
      workers: threads that several panels share; None: its own
    """
    self._judges, self._settings, self._error = judges, settings, error
    self._file = answers or AnswerFile(None)
    self._workers = workers or Workers(settings.threads, settings.seconds)
    self._jobs: list[_Job] = []
    self._waiting: list[tuple[Judge, tuple[Item, ...], tuple[int, ...]]] = []
    self._counts: dict[str, collections.defaultdict[str, float]] = {
      x.name: collections.defaultdict(float) for x in judges
    }

  @property
  def terms(self) -> tuple[str, ...]:
    return tuple(x.term for x in self._judges)

  def submit(self, place: int, whole: Item) -> None:
    """Asks the judges of turns and trajectories about a trajectory.

    Args:
      place: its index in the batch
      whole: the whole trajectory, turn -1
    """
    for judge in self._judges:
      if judge.unit == 'turn':
        items = [whole._replace(turn=k) for k in range(len(whole.turns))]
      else:
        items = [whole] * (judge.unit == 'trajectory')
      for one in items:
        self._ask(judge, (one,), (place,))

  def submit_group(self, places: Sequence[int], items: Sequence[Item]) -> None:
    """Asks the judges of groups about a group, in member order."""
    for judge in self._judges:
      if judge.unit == 'group':
        self._ask(judge, tuple(items), tuple(places))

  def collect(self) -> dict[int, list[Judgement]]:
    """Waits for all submitted items; returns each trajectory's verdicts.

    Every turn or trajectory submitted to a judge has a verdict, scored or not.
    """
    self.ask_within_budget()
    out: dict[int, list[Judgement]] = collections.defaultdict(list)
    for job in self._jobs:
      counts = self._counts[job.judge.name]
      counts['items'] += 1
      scores, sequence, fault = self._result(job)
      for name, n in dict(job.ask.counts).items():  # a late one goes on
        counts[name] += n
      for place, verdict in self._verdicts(job, scores, sequence, fault):
        if verdict.fault:
          counts['unscored'] += 1
        else:
          counts['total'] += verdict.score
          counts['scores'] += 1
        out[place].append(verdict)
    self._jobs.clear()
    return dict(out)

  def forget(self) -> None:
    """Drops the submitted items of an abandoned rollout."""
    self._jobs.clear()
    self._waiting.clear()

  def taken(self) -> dict[str, float]:
    """Returns counts since the last call: 'judge/<name>/<count>'.

    Besides COUNTS and those of the judge: 'total', the sum of the scores, and
    'scores', their number.
    """
    out: dict[str, float] = {}
    for judge in self._judges:
      name, counts = judge.name, self._counts[judge.name]
      names = (*COUNTS, *judge.counts, 'total', 'scores')
      out |= {f'judge/{name}/{x}': counts[x] for x in names}
      counts.clear()
    return out

  def close(self) -> None:
    self._workers.close()

  def _ask(self, judge: Judge, items, places) -> None:
    if self._settings.budget:
      self._waiting.append((judge, items, places))
    else:
      self._start(judge, items, places)

  def _start(self, judge: Judge, items, places, within: bool = True) -> None:
    ask = _Ask(judge, self._file, self._error.delay)
    result = None
    if within:
      x = JudgeInputs(items=items, ask=ask, counts=ask.counts)
      result = self._workers.submit(lambda: judge.piece(x))
    self._jobs.append(_Job(judge, items, places, ask, result))

  def ask_within_budget(self) -> None:
    """Asks about the items with the lowest content ids, within the budget.

    The choice depends on contents alone, not on the order of arrival.
    """
    ranked: dict[str, list[int]] = collections.defaultdict(list)
    for i, (judge, _, _) in enumerate(self._waiting):
      ranked[judge.name].append(i)
    for name, places in ranked.items():
      places.sort(key=lambda i: item.content_key(self._waiting[i][1]))
      ranked[name] = places[: self._settings.budget]
    chosen = {i for places in ranked.values() for i in places}
    for i, entry in enumerate(self._waiting):
      self._start(*entry, within=i in chosen)
    self._waiting.clear()

  def _result(self, job: _Job) -> tuple[list[float], bool, str]:
    """Returns scores, whether they are a sequence, and why they are missing."""
    counts = self._counts[job.judge.name]
    try:
      if job.result is None:
        counts['over_budget'] += 1
        return [], False, 'the budget of the iteration is spent'
      score = self._workers.result(job.result)
      group = job.judge.unit == 'group'
      single = isinstance(score, numbers.Real) and not group
      if single or job.judge.unit == 'turn':
        return item.scores(score, None), False, ''
      count = len(job.items if group else job.items[0].turns)
      return item.scores(score, count), True, ''
    except Late as error:
      counts['late'] += 1
      return [], False, str(error)
    except ServiceFault as error:
      counts['failed'] += 1
      return [], False, str(error)
    except Exception as error:  # of a piece of the user's
      counts['failed'] += 1
      why = f'{type(error).__name__}: {error}'
      logging.log_first_n(
        logging.WARNING, 'judge %r failed: %s', 3, job.judge.name, why
      )
      return [], False, why

  def _verdicts(
    self, job: _Job, scores: list[float], sequence: bool, fault: str
  ) -> Iterator[tuple[int, Judgement]]:
    """Yields (trajectory, verdict) of every turn or trajectory of the job."""
    of = _targets(job, sequence)
    values = np.array(scores or [math.nan] * len(of))
    if self._error.wrong:  # ids of contents are as long as trajectories
      values = planted.distort(
        values,
        np.array([item.content_key(x) for _, x in of]),
        np.array([_length(x) for _, x in of], np.float64),
        np.array([(x.turn + 1) / len(x.turns) or 1.0 for _, x in of]),
        self._error,
      )
    name, term, questions = job.judge.name, job.judge.term, job.ask.passed
    for (place, x), value in zip(of, values.tolist(), strict=True):
      why = fault or ('the judge gave no score' if math.isnan(value) else '')
      yield place, Judgement(name, term, x.turn, value, why, tuple(questions))
      questions = []


def _targets(job: _Job, sequence: bool) -> list[tuple[int, Item]]:
  """Lists (trajectory, turn or trajectory) of each score of a job."""
  if job.judge.unit == 'group':
    return list(zip(job.places, job.items, strict=True))
  (place,), (one,) = job.places, job.items
  if sequence and job.judge.unit == 'trajectory':
    turns = range(len(one.turns))
    return [(place, one._replace(turn=k)) for k in turns]
  return [(place, one)]


def _length(x: Item) -> int:
  """Counts the agent's characters in the judged item."""
  turns = x.turns if x.turn < 0 else (x.here,)
  return sum(len(turn.message) for turn in turns)
