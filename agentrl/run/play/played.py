"""Sees whether anything is played, and ends a run in which nothing is.

A world, a program or a server that is broken costs its own episodes only. Where
it costs all of them there is nothing to learn from, however long the run goes
on. Tools that always fail are said too, but may be what the agent asks of them.
"""

import collections
import re
from collections.abc import Sequence

from absl import logging

from agentrl.hooks import NothingPlayedError
from agentrl.rollout.pack import Episode
from agentrl.tool import base
from agentrl.types import Status

MOST = 3  # iterations in a row; then the run ends
_CALLS = 16  # of tools that have all failed, from which on it is said
_SPOKEN = ('malformed', 'unknown', 'arguments')  # faults of the message
_BEGINNING, _END = 120, 180  # characters of a cause that are told
_OWN = re.compile(r'[0-9a-f]{8,}|\d+')  # what equal causes may differ in


class Watch:
  """What was played since the last call of `unplayed` or `end_iteration`."""

  def __init__(self):
    self._played, self._in_a_row = 0, 0
    self._causes: list[str] = []
    # Since a tool last answered; None: it was said that none does.
    self._failing: collections.Counter[str] | None = collections.Counter()

  def see(self, ended: Sequence[Episode]) -> None:
    """Takes episodes; an attempt that had no turn to take is none."""
    for episode in ended:
      if cause := _cause(episode):
        self._causes.append(cause)
      elif episode.turns:
        self._played += 1
      self._see_tools(episode)

  def unplayed(self) -> str:
    """Says that nothing was played, and mostly why; '': something was."""
    played, causes = self._played, self._causes
    self._played, self._causes = 0, []
    if played or not causes:
      return ''
    kinds = collections.Counter(_OWN.sub('', x) for x in causes)
    [(kind, count)] = kinds.most_common(1)
    cause = next(x for x in causes if _OWN.sub('', x) == kind)
    return (
      f'none of {len(causes)} episodes could be played; most often'
      f' ({count} of them): {_short(cause)}'
    )

  def end_iteration(self, *, earlier: int = 0) -> None:
    """Says that nothing was played.

    Args:
      earlier: episodes of the iteration that earlier ones have played
    Raises:
      NothingPlayedError: in several iterations in a row.
    """
    text = self.unplayed()
    if earlier:
      text = ''
    self._in_a_row = self._in_a_row + 1 if text else 0
    if self._in_a_row >= MOST:
      raise NothingPlayedError(f'{MOST} iterations in a row: {text}')
    if text:
      logging.warning('iteration: %s', text)
    if self._failing is not None and self._failing.total() >= _CALLS:
      [(kind, count)] = self._failing.most_common(1)
      text = 'All of the last %d calls of tools failed, %d of them by: %s'
      logging.warning(text, self._failing.total(), count, kind)
      self._failing = None

  def _see_tools(self, episode: Episode) -> None:
    """Counts calls that failed in a row, through no fault of the message."""
    for turn in episode.turns:
      info, faults = turn.info, collections.Counter[str]()
      for kind in base.KINDS:
        faults[kind] = int(info.get(f'fault_{kind}', 0))
      if info.get('calls', 0) > faults.total():
        self._failing = collections.Counter()
      elif self._failing is not None:
        self._failing.update({x: faults[x] for x in faults.keys() - {*_SPOKEN}})


def _cause(episode: Episode) -> str:
  """Says why an episode was not played; '' if it was, or was not to be."""
  if episode.status == Status.ENV_ERROR:
    return episode.fault or 'its environment broke'
  if episode.turns or episode.status == Status.SCHEDULE:
    return ''
  status = Status(episode.status).name.lower()
  return f'it ended before its first message ({status})'


def _short(text: str) -> str:
  text = ' '.join(text.split())
  if len(text) <= _BEGINNING + _END:
    return text
  return f'{text[:_BEGINNING]} ... {text[-_END:]}'
