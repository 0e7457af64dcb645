"""Conversations whose turns the policy drops itself.

  task, m_1, o_1, m_2, o_2, m_3 = drop 1     turn k is message k and its answer
    → task, m_2, o_2, m_3, 'dropped 1', ...  another segment of the row

The rollout answers the call, and the environment is not stepped. All that stays
stands in the new segment by its tokens: what was read is not encoded again and
what the policy wrote, notes too, stands as it was sampled. Every sampled token
is so trained once, behind all that it was sampled behind. `own` is the method;
the other arms tell what it is worth:

  own      the turns are dropped
  ignored  the call is answered alike, and nothing is dropped
  window   the same, and where the next turn has no room the oldest turns are
           dropped until it has

Edits that are trained: MemAct, 2510.12635.
"""

import dataclasses
from typing import NamedTuple

from agentrl.text import context_edits
from agentrl.text.chat_template import Conversation
from agentrl.text.context_edits import Edit
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import Format

EDIT = 'edit'  # the term that is 1 on turns that edit
READ = 'read'  # the term of the tokens that a turn reads
TERMS = (EDIT, READ)
ARMS = ('own', 'ignored', 'window')
OFTEN = 'no more edits'  # the answer to one too many


class Standing(NamedTuple):
  """A conversation in parts that can be dropped: all but the first."""

  task: Conversation  # up to where the policy speaks first
  turns: tuple[tuple[int, Conversation], ...] = ()  # (number, the turn alone)
  gone: tuple[int, ...] = ()  # numbers of those that only seem to be dropped

  @property
  def numbers(self) -> tuple[int, ...]:
    """The numbers of the turns that can be dropped."""
    return tuple(number for number, _ in self.turns if number not in self.gone)

  @property
  def whole(self) -> Conversation:
    """The conversation, up to where the policy speaks."""
    return self.task.longer(part for _, part in self.turns)

  def longer(self, number: int, whole: Conversation) -> 'Standing':
    """Adds a turn: what `whole` has behind this conversation."""
    own = self.whole
    part = whole._replace(
      messages=whole.messages[len(own.messages) :],
      ids=whole.ids[len(own.ids) :],
      agent=whole.agent[len(own.ids) :],
      text=whole.text[len(own.text) :],
    )
    return self._replace(turns=(*self.turns, (number, part)))

  def without(self, numbers: tuple[int, ...]) -> 'Standing':
    """Drops turns; the tokens of the others stay as they are."""
    kept = tuple(x for x in self.turns if x[0] not in numbers)
    return self._replace(turns=kept)


@dataclasses.dataclass(frozen=True)
class ContextEdits:
  """How the calls of a policy edit its conversation. Sizes are in tokens."""

  context: int  # of a conversation, at most
  turns: int  # of a trajectory, at most
  most: int  # edits of a trajectory
  calls: str = 'tagged'  # the format of its calls
  arm: str = 'own'

  @property
  def format(self) -> Format:
    return format_of(self.calls)

  @property
  def row(self) -> int:
    """The most tokens of a trajectory, all of its segments."""
    count = {'own': 1 + self.most, 'ignored': 1, 'window': self.turns}
    return min(count[self.arm], self.turns) * self.context

  def read(self, message: str, standing: Standing, edits: int) -> Edit | None:
    """Reads the edit of a message; None if it is for the environment.

    Args:
      edits: that were done before
    """
    edit = context_edits.read(self.format, message, standing.numbers)
    if edit is not None and edit.turns and edits == self.most:
      return Edit((), OFTEN, invalid=True)
    return edit

  def edited(self, standing: Standing, edit: Edit) -> Standing:
    """Returns the conversation that the policy goes on from."""
    if self.arm == 'own':
      return standing.without(edit.turns)
    return standing._replace(gone=(*standing.gone, *edit.turns))

  def slid(self, standing: Standing) -> Standing | None:
    """Drops the oldest turn to make room; None: this arm keeps it."""
    if self.arm != 'window' or not standing.turns:
      return None
    return standing.without((standing.turns[0][0],))
