"""Selection over k attempts at evaluation: what is read of records, the table.

The rules stand in stats/selection.
"""

import itertools
import zlib
from collections.abc import Callable, Sequence

import jax
import numpy as np

from agentrl import types
from agentrl.rollout.record import Record
from agentrl.stats import paired, reward_quality, selection
from agentrl.stats.selection import Attempts
from agentrl.types import Span, Status

THINKING = 'least_overthinking'
Play = Callable[..., Record]
# (attempts, record) -> [B] reward by what a run has learned of it
Score = Callable[[types.Attempts, Record], np.ndarray]


def attempts_of(
  record: Record, learned: np.ndarray | None = None
) -> tuple[Attempts, np.ndarray]:
  """Reads the attempts of a record, [B] each, and which broke, [B] bool.

  The answer is what the last message says in its answer, or, if it marks none,
  all of it but thoughts. Host arrays.
  """
  m = record.message.shape[2]
  used = np.arange(m) < record.message_len[..., None]  # [B, K, M]
  used &= record.valid[..., None]
  own = used & (record.span != Span.PREFIX)
  count = lambda x: x.sum(axis=(1, 2))  # noqa: E731
  valid, understood = np.asarray(record.valid), np.asarray(record.action) >= 0
  made = Attempts(
    solved=np.asarray(record.outcome) > 0.5,
    answer=np.array([_answer(record, used, b) for b in range(len(used))]),
    logp=np.where(own, record.logp, 0).sum(axis=(1, 2), dtype=np.float64),
    tokens=count(own),
    thoughts=count(own & (record.span == Span.THOUGHT)),
    calls=own.any(axis=2).sum(axis=1),
    actions=(valid & understood).sum(axis=1),
    outcome=np.asarray(record.outcome, np.float64),
    learned=np.zeros(len(used)) if learned is None else learned,
  )
  return made, np.asarray(record.status) == Status.ENV_ERROR


def _answer(record: Record, used: np.ndarray, b: int) -> int:
  turns = np.flatnonzero(record.valid[b])
  if not turns.size:
    return selection.NO_ANSWER
  k = turns[-1]
  said = used[b, k] & (record.span[b, k] == Span.ANSWER)
  if not said.any():
    said = used[b, k] & (record.span[b, k] != Span.THOUGHT)
  tokens = np.ascontiguousarray(record.message[b, k][said], np.int32)
  return zlib.crc32(tokens.tobytes()) if tokens.size else selection.NO_ANSWER


def check(episodes: int, attempts: int) -> None:
  """Raises ValueError if there are fewer episodes than attempts at a task."""
  if episodes < attempts:
    raise ValueError(
      f'--episodes must be >= --attempts {attempts}, the attempts at one task,'
      f' got {episodes}'
    )


class Watch:
  """Attempts that are played: k at each of the first tasks."""

  def __init__(self, episodes: int, tasks: int, attempts: int):
    """Divides the episodes among the tasks.

    Args:
      tasks: how many there are
      attempts: k, at each task; with 1 nothing is watched

    Raises:
      ValueError: there are fewer episodes than attempts.
    """
    check(episodes, attempts)
    self._k = attempts
    self.count = min(tasks, episodes // attempts)  # T, of tasks
    self.episodes = self.count * attempts if attempts > 1 else episodes
    self._seen: list[tuple[Attempts, np.ndarray]] = []

  def tasks(self, tasks: np.ndarray) -> np.ndarray:
    """Returns the tasks to play, of all of them."""
    return tasks[: self.count] if self._k > 1 else tasks

  def of(self, play: Play, score: Score | None = None) -> Play:
    """Returns `play`, watched.

    Args:
      score: of attempts by what the run has learned; None: nothing
    """

    def watched(attempts: types.Attempts, key: jax.Array) -> Record:
      record = jax.device_get(play(attempts, key))
      learned = score(attempts, record) if score else None
      self._seen.append(attempts_of(record, learned))
      return record

    return watched if self._k > 1 else play

  def by_task(self) -> tuple[Attempts, int]:
    """Returns the attempts at each task, [T, k], and how many tasks broke.

    A task is left out if one of its attempts broke with its environment.
    """
    shape = self._k, self.count  # episode i attempts task i mod T
    each, broke = jax.tree.map(
      lambda *x: np.concatenate(x)[: self.episodes].reshape(shape).T,
      *self._seen,
    )
    whole = ~broke.any(axis=1)
    return Attempts(*(x[whole] for x in each)), int(np.sum(~whole))

  def table(self) -> str:
    """Formats success by rule; '' with one attempt."""
    return '' if self._k == 1 else f'\n\n{table(*self.by_task())}'


def table(x: Attempts, broken: int = 0) -> str:
  """Formats what each rule makes of 1, 2, 4, ... and all k attempts.

  A rule that prefers no attempt to another is left out.
  """
  tasks, k = x.solved.shape
  if not tasks:
    return 'no task has all its attempts: environments broke'
  one, alone = selection.point('random', x, 1)
  lines = [
    f'{tasks} tasks, {k} attempts at each; success by rule and attempts, with'
    ' 95% intervals over tasks' + _left_out(broken),
    '',
    '| rule | attempts | success | more than one attempt | calls | tokens |'
    ' tokens returned |',
    '|---|---|---|---|---|---|---|',
    _line('random', 1, one, ''),
  ]
  for rule in selection.RULES:
    if selection.tells(rule, x):
      for n in [*itertools.takewhile(k.__gt__, (2, 4, 8)), k]:
        made, success = selection.point(rule, x, n)
        lines.append(_line(rule, n, made, _gain(success, alone)))
  lines += ['', _thinking(x)]
  if selection.tells(THINKING, x):
    lines += ['', _against(x)]
  if selection.tells('learned_reward', x):
    lines += ['', *_overoptimisation(x)]
  return '\n'.join(lines)


def _against(x: Attempts) -> str:
  """Says what choosing by thoughts gains on choosing otherwise, of all k.

  Task by task. Another rule that prefers no attempt to another is random.
  """
  k = x.solved.shape[1]
  _, own = selection.point(THINKING, x, k)
  told = []
  for rule in ('random', 'fewest_tokens', 'majority'):
    if rule == 'random' or selection.tells(rule, x):
      _, other = selection.point(rule, x, k)
      told.append(f'{rule} {_gain(own, other)}')
  return f'{THINKING} of {k} attempts, more than {", ".join(told)}'


def _overoptimisation(x: Attempts) -> list[str]:
  """Writes lines of what the learned reward chooses, and its true outcome."""
  k = x.solved.shape[1]
  sizes = [*itertools.takewhile(k.__gt__, (1, 2, 4, 8)), k]
  curve = reward_quality.best_of_n(x.learned, x.outcome, sizes)
  lines = [
    'best of n by the learned reward; KL from one attempt in nats',
    '',
    '| n | KL | learned reward | outcome | more than one attempt |',
    '|---|---|---|---|---|',
  ]
  for i, n in enumerate(sizes):
    gain = _gain(curve.truth[:, i], curve.truth[:, 0]) if i else ''
    proxy, truth = curve.proxy[:, i].mean(), curve.truth[:, i].mean()
    lines.append(
      f'| {n} | {curve.kl[i]:.2f} | {proxy:.3f} | {truth:.1%} | {gain} |'
    )
  # Half of the tasks say where the outcome is highest, the others what is lost.
  best = int(curve.truth[::2].mean(axis=0).argmax())
  lost = curve.truth[1::2]
  if best == len(sizes) - 1 or not len(lost):
    end = 'the outcome still rises with the learned reward'
  else:
    end = (
      f'of half of the tasks the outcome is highest at n={sizes[best]},'
      f' {curve.kl[best]:.2f} nats; of the others it changes from there to'
      f' n={k} by {_gain(lost[:, -1], lost[:, best])}'
    )
  return [*lines, '', end]


def _left_out(broken: int) -> str:
  return f'; {broken} more tasks broke with their environment' if broken else ''


def _gain(success: np.ndarray, alone: np.ndarray) -> str:
  if len(success) < 2:
    return f'{np.mean(success - alone):+.1%}'
  x = paired.compare(success.tolist(), alone.tolist())
  return f'{x.mean:+.1%} [{x.low:+.1%}, {x.high:+.1%}]'


def _line(rule: str, n: int, x: selection.Point, gain: str) -> str:
  cells: Sequence[str] = (
    rule,
    str(n),
    f'{x.success:.1%} [{x.low:.1%}, {x.high:.1%}]',
    gain,
    f'{x.calls:.1f}',
    f'{x.tokens:.1f}',
    f'{x.returned:.1f}',
  )
  return f'| {" | ".join(cells)} |'


def _thinking(x: Attempts) -> str:
  score = selection.overthinking(x)
  rate = selection.concordance(score, x.solved)
  if not x.thoughts.any():
    return 'no thoughts: overthinking cannot be scored'
  if np.isnan(rate):
    return 'no task has both a success and a failure: no rule can matter'
  low, high = selection.concordance_interval(score, x.solved)
  return (
    'thought tokens per action are higher in the failure than in the success of'
    f' one task with probability {rate:.2f} [{low:.2f}, {high:.2f}]; 0.50 tells'
    ' nothing'
  )
