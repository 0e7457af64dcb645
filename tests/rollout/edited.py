"""A world whose conversations are edited, and how it is played."""

import dataclasses
import functools

from agentrl.rollout import record as record_lib
from agentrl.rollout.edits import ContextEdits
from agentrl.text.context_edits import Edit
from tests.rollout import hosted
from tests.rollout.compacted import (
  TURNS,
  Chapters,
  ChaptersEnv,
  attempts,
  engine,
  stage,
)

CONTEXT = 96
MOST = 4


@dataclasses.dataclass(frozen=True)
class Whims(ContextEdits):
  """Edits of a policy that knows no call: by the length of its messages."""

  def read(self, message, standing, edits):
    there = standing.numbers
    named = tuple(x for x in there if (x + len(message)) % 3 == 0)
    if not named or len(message) % 2 or edits == self.most:
      return None
    return Edit(named, 'ok')


def rule(kind=Whims, *, context=CONTEXT, most=MOST, turns=TURNS, **fields):
  return kind(context, turns, most, **fields)


def edited(made, **fields):
  """The bundle of a rule; fields as of `stage`."""
  world = stage(turns=made.turns, **fields)
  limits = dataclasses.replace(
    world.limits,
    history='edit',
    edits=made,
    context=made.context,
    row=made.row,
  )
  return world._replace(limits=limits)


class Numbered(ChaptersEnv):
  """Writes the numbers itself that edited conversations are given."""

  def step(self, message):
    reply = super().step(message)
    return reply._replace(text=f'[{self.turn}] {reply.text}')


class NumberedChapters(Chapters):
  def env(self):
    return Numbered()


@functools.cache
def played(made=None, *, alone=False):
  """-> episodes, record, rows.

  Args:
    made: the rule; None: the whole history, with numbers of its world
    alone: one after the other, so that timing changes no rounding
  """
  if made is not None:
    world = edited(made)
  else:
    world = stage(family=NumberedChapters())
    limits = dataclasses.replace(world.limits, context=CONTEXT)
    world = world._replace(limits=limits)
  how = engine.__wrapped__(1) if alone else engine()
  count = 1 if alone else 5
  ended, counts = hosted.play(world, how, attempts(), count=count, key=7)
  assert counts == {'cut': 0}
  record = world.record(ended)
  layout = record_lib.full_history(record, world.limits.capacity.row)
  return ended, record, record_lib.rows(record, layout, 5)


def edits(episode):
  return [k for k, x in enumerate(episode.turns) if x.info.get('edit')]


RULES = {x: rule(arm=x) for x in ('own', 'ignored', 'window')}
