"""Sections of what a turn reads: conversations that begin anew or are edited.

`rollout.history` chooses between them.
"""

import dataclasses
from typing import Annotated

from agentrl.domain import Count, Flag, OneOf, Text, Tuple, Whole
from agentrl.rollout.edits import ARMS
from agentrl.text.tool_calls import FormatName


@dataclasses.dataclass(frozen=True)
class CompactionConfig:
  """Conversations that begin anew, with rollout.history='compact'."""

  threshold: Annotated[
    tuple[int, int],
    Tuple(Whole(1), length=2),
    'fewest and most tokens of a conversation; the length is drawn per task,'
    ' and a group shares it',
  ] = (192, 256)
  summary: Annotated[
    str,
    OneOf('own', 'masked', 'shuffled', 'none'),
    "what follows: the policy's summary ('own'), one that is written and not"
    " trained ('masked'), its tokens in another order ('shuffled'), or"
    " none of it ('none')",
  ] = 'own'
  tokens: Annotated[Count, 'most tokens of a summary'] = 32
  most: Annotated[Count, 'most compactions of a trajectory'] = 4
  keep_task: Annotated[
    bool,
    Flag(),
    'the first observation stays; False: summaries have to carry it',
  ] = True
  request: Annotated[
    str, Text('a text', empty=False), 'message that asks for a summary'
  ] = 'Sum up what you need to go on.'


@dataclasses.dataclass(frozen=True)
class EditsConfig:
  """Turns that the policy drops by a call, with rollout.history='edit'."""

  arm: Annotated[
    str,
    OneOf(*ARMS),
    "what a call does: drops turns ('own'), is answered and drops nothing"
    " ('ignored'), or that, and the oldest turns go once room runs out"
    " ('window')",
  ] = 'own'
  most: Annotated[Count, 'most edits of a trajectory'] = 4
  calls: Annotated[
    FormatName, 'format of the call; tagged: <drop>1 2</drop>'
  ] = 'tagged'
  teach: Annotated[bool, Flag(), 'the system message describes the call'] = (
    False
  )
