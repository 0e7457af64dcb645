"""A chat template around the turns of a rollout inside jit: constant tokens.

  first obs₁ after message₁ [eot] later obs₂ after message₂ [eot] later ...

An observation is what a user says, without the white space at its ends: some
templates trim it, and the frame separates turns. `eot` is written for a message
that was cut short. All of it is taken from text/chat_template.py, and compared
with it.
"""

from collections.abc import Sequence

import chex
import jax.numpy as jnp
from flax import struct
from jax import Array

from agentrl.text import chat_template, observation_tokens
from agentrl.text.chat_template import Chat, Message

# Placeholder for a message while the tokens around it are located.
_MARK = 'whatever'


@struct.dataclass
class JitTemplate:
  """Template tokens around observations and messages."""

  first: Array  # [f] i32, before the first observation: system, user's head
  after: Array  # [s] i32, after an observation, up to where the agent speaks
  later: Array  # [l] i32, after an ended message, up to the next observation
  blank: Array  # [n] bool, pieces of observations that are white space alone
  eot: int = struct.field(pytree_node=False)

  @property
  def between(self) -> int:
    """The most tokens between a message and the next observation."""
    return 1 + self.later.shape[0]


def jit_template(
  chat: Chat,
  pieces: Sequence[str],
  replies: Sequence[Sequence[int]],
  *,
  system: str = '',
) -> JitTemplate:
  """Extracts the constant tokens of a template around an environment's turns.

  Args:
    pieces: that observations are made of
    replies: messages of the agent, with their end of turn
    system: the system's message; '': none, or what the template has for it
  Raises: ValueError for a template whose frame is not the same tokens around
    every observation and at every turn. One that rewrites earlier turns is
    logged, as by chat_template.add_messages; they stay as they were sampled.
  """
  if chat.words.dated:
    raise ValueError(
      f'the chat template of tokenizer {chat.words.name} writes the date, so'
      ' that a run would go on tomorrow as another; put a date into it in the'
      " place of strftime_now(...), or set rollout.chat_format to 'bare'"
    )
  begin = [Message('system', system)] if system else []
  talk = chat_template.start(chat, [*begin, Message('user', _MARK)])
  mark = tuple(chat.words.encode(_MARK))
  first, after = _split(chat, talk.text, talk.ids)
  talk = chat_template.add_reply(chat, talk, (*mark, chat.eot))
  more = chat_template.add_messages(chat, talk, [Message('user', _MARK)])
  text, ids = more.text[len(talk.text) :], more.ids[len(talk.ids) :]
  later, again = _split(chat, text, ids)
  if again != after:
    raise _varies(chat, 'what follows the first observation and the second')
  _check(chat, begin, pieces, replies, (first, after, later))
  blank = jnp.array([not piece.strip() for piece in pieces])
  return JitTemplate(
    jnp.array(first, jnp.int32),
    jnp.array(after, jnp.int32),
    jnp.array(later, jnp.int32),
    blank,
    chat.eot,
  )


def _split(chat: Chat, text: str, ids: tuple) -> tuple[tuple, tuple]:
  """Splits the ids before and behind the one place of the mark."""
  places = chat_template.places(chat, text, ids, _MARK)
  if not places:
    raise chat_template.joined(chat, 'observations')
  if len(places) > 1:
    raise _varies(chat, 'the text of a first turn')
  size = len(chat.words.encode(_MARK))
  return ids[: places[0]], ids[places[0] + size :]


def _check(chat: Chat, begin, pieces, replies, parts) -> None:
  """Checks a conversation: each piece begins and ends an observation."""
  first, after, later = parts
  turns = len(pieces)
  observations = [
    ''.join((*pieces[i:], *pieces[:i])).strip() for i in range(turns)
  ]
  talk = chat_template.start(chat, [*begin, Message('user', observations[0])])
  want = (*first, *chat.words.encode(observations[0]), *after)
  for i, text in enumerate(observations[1:]):
    if talk.ids != want:
      break
    talk = chat_template.add_reply(chat, talk, replies[i % len(replies)])
    before = len(talk.text)
    want = (*talk.ids, *later, *chat.words.encode(text), *after)
    talk = chat_template.add_messages(chat, talk, [Message('user', text)])
    messages = [message._asdict() for message in talk.messages]
    if not chat.words.render(messages, ask=True).endswith(talk.text[before:]):
      raise _varies(chat, f'turn {i + 1} and turn 1')
  if talk.ids != want:
    raise _varies(chat, f'observations such as {talk.messages[-1].content!r}')


def _varies(chat: Chat, where: str) -> ValueError:
  return ValueError(
    f'the chat template of tokenizer {chat.words.name} does not write the same'
    f" tokens around {where}; set rollout.chat_format to 'bare', or take"
    ' another template'
  )


def strip(f: JitTemplate, obs: Array) -> Array:
  """Returns an observation i32[O] with -1 for the blank pieces at its ends."""
  chex.assert_rank(obs, 1)
  ink = (obs >= 0) & ~f.blank[jnp.maximum(obs, 0)]
  begun = jnp.cumsum(ink) > 0
  goes_on = jnp.cumsum(ink[::-1])[::-1] > 0
  return jnp.where(begun & goes_on, obs, -1)


def alone(f: JitTemplate, tokens: Array) -> Array:
  """Returns the conversation of this observation alone."""
  return jnp.concatenate([f.first, tokens, f.after])


def ended(f: JitTemplate, last: Array) -> tuple[Array, Array]:
  """Returns tokens [1 + l] up to the next observation, and their number [].

  Args:
    last: [] i32, of the message; the turn is ended for it if it is no eot
  """
  cut = (last != f.eot).astype(jnp.int32)
  eot = jnp.full(1, f.eot, jnp.int32)
  return observation_tokens.concat(
    [(eot, cut), (f.later, jnp.int32(f.later.shape[0]))]
  )


def opening(f: JitTemplate, turn: Array, last: Array) -> tuple[Array, Array]:
  """Returns tokens [max(f, 1 + l)] before a turn's observation, and how many.

  Args:
    turn: [] i32; before turn 0 nothing was said
    last: [] i32, of the message before
  """
  size = max(f.first.shape[0], f.between)
  first = jnp.pad(f.first, (0, size - f.first.shape[0]))
  then, length = ended(f, last)
  then = jnp.pad(then, (0, size - f.between))
  begins = turn == 0
  return (
    jnp.where(begins, first, then),
    jnp.where(begins, f.first.shape[0], length).astype(jnp.int32),
  )
