"""Judges of a run: what rollouts made as items, verdicts as terms of turns."""

import collections
import dataclasses
import functools
import inspect
import json
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from agentrl import registry
from agentrl.configs.config import Config
from agentrl.judge import item as judge_item
from agentrl.judge import late, panel, planted
from agentrl.judge.item import Exchange, Item
from agentrl.judge.panel import Judge, Judgement, JudgePanel
from agentrl.judge.workers import Workers
from agentrl.rollout import pack
from agentrl.rollout.record import Record
from agentrl.run.experiment import Experiment
from agentrl.run.play.services import Services
from agentrl.runtime import storage
from agentrl.service.answer_file import AnswerFile
from agentrl.service.base import load_function
from agentrl.text import chat_format
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Metrics, Notes, Status

HELD = 3  # iterations whose verdicts are there for the trajectory log
_OF_ANSWERS = ('function', 'run', 'temperature', 'message', 'system')


class Judges:
  """The judges of a config, if it has any, open until `close`."""

  def __init__(self, s: Experiment, services: Services, workdir: str):
    """Opens the judges; none is asked yet.

    Args:
      workdir: folder of the run, for answers; '': remembered only
    """
    c, self._words = s.config, s.tokenizer
    spec = s.algorithm.spec
    every = [_judge(c, spec, n, services) for n in spec.judge]
    lags, terms = late.lags(spec), terms_read(spec)
    self._late_terms = tuple(x.term for x in every if x.term in lags)
    self._judges = [x for x in every if x.term not in lags]
    self._read = {x.name for x in self._judges if x.term in terms}
    settings = panel.Settings(
      c.judging.threads,
      c.judging.seconds,
      -(-c.judging.budget // jax.process_count()),
    )
    # Late judges have threads of their own, so that no rollout waits for them.
    self._workers, late_workers = (
      Workers(settings.threads, settings.seconds) for _ in range(2)
    )
    self._late_workers = late_workers
    opened = functools.partial(
      JudgePanel,
      settings=settings,
      error=planted.PlantedError(
        *(getattr(c.judging, name) for name in planted.PlantedError._fields)
      ),
      answers=AnswerFile(_file(workdir)),
    )
    self._panel = opened(self._judges, workers=self._workers)
    later = [x for x in every if x.term in lags]
    self._late = late.LatePanel(
      lambda: opened(later, workers=late_workers),
      max(lags.values(), default=0),
      _folder(workdir) if self._late_terms else '',
      c.checkpoint.keep * c.checkpoint.every,
    )
    self._log: collections.deque[dict[str, list[Judgement]]]
    self._log = collections.deque(maxlen=HELD)
    self._groups: dict[int, dict[int, Item]] = {}
    self._missing: collections.Counter[int] = collections.Counter()

  @property
  def any(self) -> bool:
    """Whether there is one. If not, nothing has to be decoded for them."""
    return bool(self._judges or self._late_terms)

  @property
  def terms(self) -> tuple[str, ...]:
    """The terms that they fill with their scores of the batch."""
    return self._panel.terms

  def begin(
    self, group: np.ndarray, lines: Sequence[int], step: int | None = None
  ) -> None:
    """Begins a batch, of which this process plays some lines.

    Args:
      group: [B], of all attempts
      step: that the batch is of; None: late judges are not asked about it
    """
    self._panel.forget()
    if step is not None and self._late_terms:
      self._late.begin(step)
    self._group, self._groups = group, {}
    self._missing = collections.Counter(group[list(lines)].tolist())

  def submit(self, line: int, item: Item, status: Status) -> None:
    """Asks about a trajectory that has ended, and about its group after it."""
    group = int(self._group[line])
    self._missing[group] -= 1
    if status != Status.ENV_ERROR and item.turns:
      self._panel.submit(line, item)
      self._late.submit(line, item)
      self._groups.setdefault(group, {})[line] = item
    if not self._missing[group]:
      members = dict(sorted(self._groups.pop(group, {}).items()))
      self._panel.submit_group(list(members), list(members.values()))
      self._late.submit_group(list(members), list(members.values()))

  def verdicts(self) -> dict[int, list[Judgement]]:
    """Waits for the verdicts on what was submitted, by line.

    Late judges are not waited for: theirs are on an earlier batch.
    """
    verdicts, earlier = self._panel.collect(), self._late.verdicts()
    lines = verdicts | earlier
    return {b: verdicts.get(b, []) + earlier.get(b, []) for b in lines}

  def filled(
    self, record: Record, verdicts: Mapping[int, Sequence[Judgement]]
  ) -> Record:
    """Returns the record with the verdicts as columns, host arrays."""
    if not self.any:
      return record
    valid, later = np.asarray(record.valid), self._late_terms
    columns: dict[str, Any] = late.columns(valid.shape, later, verdicts)
    verdicts = {
      b: [x for x in of if x.term not in later] for b, of in verdicts.items()
    }
    own, scored = tables(valid, self.terms, verdicts, self._read)
    columns |= own
    self._log.append(
      {
        judge_item.trajectory_key(*_tokens(record, b)): list(v)
        for b, v in verdicts.items()
      }
    )
    columns = record.columns | columns
    return dataclasses.replace(record, columns=columns, scored=scored)

  def of(self, key: str) -> list[Judgement]:
    """Finds the verdicts on a trajectory of the last iterations, by its key."""
    return next((x[key] for x in reversed(self._log) if key in x), [])

  def taken(self) -> dict[str, float]:
    """Returns the counts since the last call."""
    return self._panel.taken() | self._late.taken()

  def close(self) -> None:
    self._workers.close()
    self._late_workers.close()


def _tokens(record: Record, b: int):
  """Returns the tokens read and written in each turn of a trajectory."""
  ks = np.flatnonzero(record.valid[b])
  read = [record.context[b, k, : record.context_len[b, k]] for k in ks]
  return read, [record.message[b, k, : record.message_len[b, k]] for k in ks]


def terms_read(spec: registry.MethodSpec) -> set[str]:
  """Lists terms that the method reads; a judge of another one is a monitor."""
  needs = [
    need.partition(':')
    for scope, slot, name in registry.parts(spec)
    for need in registry.needs(spec, scope, slot, name)
  ]
  return {name for kind, _, name in needs if kind == 'term'}


def tables(
  valid: np.ndarray,
  terms: Sequence[str],
  verdicts: Mapping[int, Sequence[Judgement]],
  read: Collection[str],
) -> tuple[dict[str, Any], Any]:
  """Lays verdicts out as arrays: terms [B, K] by name, what is scored [B, K].

  A score of a whole trajectory stands on its last turn; without one, all of
  the trajectory is unscored.

  Args:
    read: names of the judges whose scores matter; faults of others cost nothing
  """
  columns = {name: np.zeros(valid.shape, np.float32) for name in terms}
  scored, last = np.ones(valid.shape, bool), np.sum(valid, axis=1) - 1
  for b, of_b in verdicts.items():
    for x in of_b:
      alone = x.turn >= 0
      if x.fault and x.judge in read:
        scored[b, x.turn if alone else slice(None)] = False
      elif not x.fault:
        columns[x.term][b, x.turn if alone else last[b]] = x.score
  return columns, scored


def metrics(counts: Mapping[str, float]) -> Metrics:
  """Returns a rollout's counts as metrics; totals of scores as their means."""
  out: dict[str, Any] = {}
  for name, x in counts.items():
    prefix, _, last = f'rollout/{name}'.rpartition('/')
    if name.startswith('judge/') and last == 'total':
      scores = counts[name.removesuffix('total') + 'scores']
      out[f'{prefix}/score'] = np.float32(x), np.float32(scores)
    elif not (name.startswith('judge/') and last == 'scores'):
      out[f'{prefix}/{last}'] = np.float32(x), np.float32(1)
  return out


def of_episode(
  task: Mapping[str, Any],
  episode: pack.Episode,
  columns: Sequence[str],
  words: Tokenizer,
) -> Item:
  """Returns the item of a trajectory of a host environment."""

  def exchange(x: pack.TurnData) -> Exchange:
    terms = {name: float(x.info.get(name, 0.0)) for name in columns}
    terms |= {
      'env': x.reward,
      'tokens': float(len(x.spoken.ids)),
      'entropy': float(sum(x.spoken.entropy)),
      'invalid': float(x.invalid),
    }
    message = chat_format.content(words, x.spoken.ids)
    return Exchange(x.observation, message, terms)

  turns = tuple(map(exchange, episode.turns))
  return Item(task, turns, -1, float(episode.score))


def of_record(
  record: Record,
  b: int,
  words: Tokenizer,
  *,
  notes: Notes | None = None,
  history: str = 'full',
) -> Item:
  """Returns the item of a trajectory from inside jit, host arrays.

  As on hosts, what the agent has read of a memory is left out: a judge is shown
  the world and the agent's messages, and no note can speak to it.

  Args:
    notes: that attempts have read; None: none
    history: of rollouts; 'turn' has the notes in every turn
  """
  turns = []
  read, written = _tokens(record, b)
  note = [] if notes is None else notes.tokens[b, : notes.length[b]].tolist()
  for k, context, message in zip(
    np.flatnonzero(record.valid[b]), read, written, strict=True
  ):
    terms = {name: float(x[b, k]) for name, x in record.columns.items()}
    terms |= {
      'env': float(record.reward[b, k]),
      'tokens': float(len(message)),
      'entropy': float(record.entropy[b, k]),
      'invalid': float(record.action[b, k] < 0),
    }
    seen = context.tolist()
    if history == 'turn' or _begins(record, b, int(k)):
      seen = _without(seen, note)
    text = chat_format.content(words, message.tolist())
    turns.append(Exchange(words.decode(seen), text, terms))
  return Item({}, tuple(turns), -1, float(record.outcome[b]))


def _begins(record: Record, b: int, k: int) -> bool:
  """Tells whether turn k is the first of a context."""
  if k == 0 or record.seg is None:
    return k == 0
  return bool(record.seg[b, k] != record.seg[b, k - 1])


def _without(ids: list[int], note: list[int]) -> list[int]:
  """Returns a context without its note, which stands before what was seen."""
  n = len(note)
  for i in range(len(ids) - n + 1 if n else 0):
    if ids[i : i + n] == note:
      return ids[:i] + ids[i + n :]
  return ids


def _judge(
  c: Config, spec: registry.MethodSpec, name: str, services: Services
) -> Judge:
  values = spec.values('judge', name)
  component = registry.get('judge', name, 'c.judge')
  hp = registry.settings(component, values, 'c.judge')
  service = services.named(hp['service']) if 'service' in hp else None
  return Judge(
    name,
    registry.bind('judge', name, values, 'c.judge'),
    hp['term'],
    judge_item.unit(component, hp),
    service,
    _identity(c, hp),
    tuple(x[6:] for x in component.gives if x.startswith('count:')),
  )


def _identity(c: Config, hp: Mapping[str, Any]) -> str:
  """Returns a content id of what answers; '' if answers are not kept.

  A model of this run changes, and a server has a file of its own.
  """
  if 'path' in hp:
    return f'{hp["path"]} {_source(hp["path"])}'
  if 'service' not in hp:
    return ''
  service = c.service[hp['service']]
  if service.role or service.address:
    return ''
  source = _source(service.function) if service.function else ''
  return json.dumps([*(getattr(service, x) for x in _OF_ANSWERS), source])


def _source(path: str) -> str:
  """Returns the text of a function: one that was edited answers anew."""
  try:
    return inspect.getsource(load_function(path, '(item) -> float'))
  except (OSError, TypeError):
    return ''


def _file(workdir: str) -> str | None:
  if not workdir or storage.in_bucket(storage.path(workdir)):
    return None
  return os.path.join(workdir, 'judges', f'{jax.process_index()}.jsonl')


def _folder(workdir: str) -> str:
  """Returns the folder of what late judges are asked; '': there is none."""
  return f'{workdir}/judges/late/{jax.process_index()}' if workdir else ''
