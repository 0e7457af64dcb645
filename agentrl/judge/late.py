"""Judges that no rollout waits for: scores come with a later batch.

A component that needs `late:<term>` has a hyper-parameter `lag`: the batch of
step n brings the scores of the turns of step n − lag, at the places of these
turns, and `<term>_known`, 1 where there is one. Judges have the time of lag
steps to answer. What they have not answered by then is waited for, an item at
most `judging.seconds`, so that no number depends on how fast they are.

What was asked is in the run folder while it may be asked for. A run that was
killed asks again about the batches whose scores are still to come, before it
asks about a new one, and has the same scores as one that was not killed.
"""

import collections
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from agentrl import registry
from agentrl.judge.item import Item
from agentrl.judge.panel import Judgement, JudgePanel
from agentrl.ops import counting
from agentrl.runtime import storage


class Need(NamedTuple):
  """A component that takes the scores of a term late."""

  term: str
  lag: int  # steps
  at: str  # field of the lag


def needs(spec: registry.MethodSpec) -> list[Need]:
  """Lists the components that take scores late, in loop order."""
  out = []
  for scope, slot, name in registry.parts(spec):
    for need in registry.needs(spec, scope, slot, name):
      kind, _, term = need.partition(':')
      if kind == 'late':
        piece = registry.get(slot, name)
        lag = registry.settings(piece, spec.values(scope, name))['lag']
        out.append(Need(term, lag, f'hp.{scope}.{name}.lag'))
  return out


def lags(spec: registry.MethodSpec) -> dict[str, int]:
  """Returns the steps by which scores are late, by term; {}: none are."""
  return {x.term: x.lag for x in needs(spec)}


def known(term: str) -> str:
  """Returns the name of the column that marks the turns with a score."""
  return term + counting.KNOWN


class Asked(NamedTuple):
  """What judges were asked about a batch."""

  panel: JudgePanel
  items: dict[int, Item]  # whole trajectories, by line
  groups: list[tuple[int, ...]]  # lines of each


class LatePanel:
  """Judges of a run whose scores come `lag` steps later, until `close`."""

  def __init__(
    self,
    panel: Callable[[], JudgePanel],
    lag: int,
    folder: str = '',
    keep: int = 0,
  ):
    """Stores the limits.

    Args:
      panel: makes a panel for a batch; panels share their threads, which
        nothing else may use, since rollouts would wait for them
      folder: of what is asked; '': a run that is killed forgets it
      keep: steps before `lag` ones at which a run may go on
    """
    self._panel, self._lag = panel, lag
    self._folder, self._keep = folder, keep
    self._waiting: dict[int, Asked] = {}  # by step
    self._now: tuple[int, Asked] | None = None
    self._counts: collections.Counter[str] = collections.Counter()

  def begin(self, step: int) -> None:
    """Begins the batch of a step; one that was not finished is dropped.

    Asks first about earlier batches that a run that was killed had asked about:
    results are waited for in the order of submission.

    Raises:
      ValueError: what was asked cannot be read.
    """
    for earlier in range(max(step - self._lag, 0), step):
      if earlier not in self._waiting:
        self._ask_again(earlier)
    self._now = step, Asked(self._panel(), {}, [])

  def submit(self, line: int, item: Item) -> None:
    """Asks about a trajectory, its index in the batch being `line`."""
    if self._now:
      _, asked = self._now
      asked.items[line] = item
      asked.panel.submit(line, item)

  def submit_group(self, lines: Sequence[int], items: Sequence[Item]) -> None:
    """Asks the judges of groups about a group, in member order."""
    if self._now:
      _, asked = self._now
      asked.groups.append(tuple(lines))
      asked.panel.submit_group(lines, items)

  def verdicts(self) -> dict[int, list[Judgement]]:
    """Ends a batch; returns verdicts on the one of `lag` steps ago, by line.

    A verdict on a trajectory is one on its last turn. Without a batch of that
    step there are none.
    """
    if self._now is None:
      return {}
    (step, asked), self._now = self._now, None
    due = step - self._lag
    asked.panel.ask_within_budget()
    self._write(step, asked)
    older = {at: x for at, x in self._waiting.items() if due <= at < step}
    self._waiting = older | {step: asked}
    found = self._waiting.pop(due, None)
    if found is None:
      return {}
    verdicts = found.panel.collect()
    self._counts.update(found.panel.taken())
    return {
      line: [_of_turn(x, found.items[line]) for x in of]
      for line, of in verdicts.items()
    }

  def taken(self) -> dict[str, float]:
    """Returns counts since the last call, of what came; see JudgePanel."""
    counts = self._panel().taken() | self._counts
    self._counts = collections.Counter()
    return counts

  def _path(self, step: int) -> storage.Path:
    return storage.path(f'{self._folder}/{step}.pickle')

  def _write(self, step: int, asked: Asked) -> None:
    if not self._folder:
      return
    place = self._path(step)
    place.parent.mkdir(parents=True, exist_ok=True)
    storage.write(place, pickle.dumps((asked.items, asked.groups)))
    self._path(step - self._lag - self._keep - 1).unlink(missing_ok=True)

  def _ask_again(self, step: int) -> None:
    """Asks once more about a batch that was judged when a run was killed."""
    if not self._folder or not self._path(step).exists():
      return
    try:
      items, groups = pickle.loads(storage.read(self._path(step)))
    except Exception as error:  # whatever a damaged file makes pickle raise
      raise ValueError(
        f'{self._path(step)} must hold what judges were asked in a step, got'
        f' {error!r:.80}; remove it to go on without the labels of that step'
      ) from error
    asked = Asked(self._panel(), items, groups)
    for line, item in items.items():
      asked.panel.submit(line, item)
    for lines in groups:
      asked.panel.submit_group(lines, [items[x] for x in lines])
    asked.panel.ask_within_budget()
    self._waiting[step] = asked


def _of_turn(x: Judgement, item: Item) -> Judgement:
  return x._replace(turn=x.turn if x.turn >= 0 else len(item.turns) - 1)


def columns(
  shape: tuple[int, int],
  terms: Sequence[str],
  verdicts: Mapping[int, Sequence[Judgement]],
) -> dict[str, np.ndarray]:
  """Lays late verdicts out: scores, 0 where none came, and which are known.

  Args:
    verdicts: by line, of other judges too
  Returns: arrays of the shape, f32, two for each term
  """
  out = {x: np.zeros(shape, np.float32) for t in terms for x in (t, known(t))}
  for b, of_b in verdicts.items():
    for x in of_b:
      if x.term in terms and not x.fault:
        out[x.term][b, x.turn] = x.score
        out[known(x.term)][b, x.turn] = 1
  return out
