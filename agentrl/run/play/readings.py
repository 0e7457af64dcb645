"""Readings of a config: the batch's messages in contexts of another kind.

`nulled` has one observation replaced (rollout.null_observation); those of
c.reading have a hint before what was read, which the policy does not see:

  text           the same for everyone
  demonstration  the messages that solve the task, a line each
  task           a field of a host environment's task, such as its answer
  outcome        one of two texts, by how the trajectory ended
  solution       the messages of another solved attempt of the group
  memory         what c.recall chooses of a memory of texts, for the attempt

All but the last two are tables made once, before anything is compiled.
"""

import json
from collections.abc import Sequence

import jax.numpy as jnp

from agentrl import registry
from agentrl.configs import base as base_config
from agentrl.configs.config import Config
from agentrl.configs.sections import ReadingConfig
from agentrl.dataset import host_tasks, jit_tasks
from agentrl.recall import base as recall_base
from agentrl.rollout import hinted, registered
from agentrl.rollout import record as record_lib
from agentrl.rollout.counterfactual import NullObservation
from agentrl.rollout.hinted import Hint, HintFrame
from agentrl.text import chat_template, observation_tokens
from agentrl.text.chat_template import Chat
from agentrl.text.message import Message
from agentrl.text.tokenizer import Tokenizer
from agentrl.types import Array, Attempts, Batch, Rows

# Source of hints that stand in the place of what prompts read of a memory.
MEMORY = 'memory'
# Placeholder for a hint while the template's tokens around it are located.
_MARK = 'whatever'


def hints(
  c: Config,
  words: Tokenizer,
  chat: Chat | None,
  system: str,
  tasks: jit_tasks.JitTaskSet | host_tasks.HostTaskSet,
  actions: Sequence[str] = (),
) -> dict[str, Hint]:
  """Returns the hints of every reading of c.reading, by its name.

  Args:
    system: the system message of conversations; '': none
    tasks: that are trained on
    actions: texts of the actions of an environment inside jit
  Raises: ValueError, one sentence, for a hint that cannot be made, or one
    longer than its reading allows.
  """
  out = {}
  for name, reading in c.reading.items():
    if reading.source == MEMORY:
      made = [[words.pad] * _recalled(c)]
    else:
      texts = _texts(name, reading, tasks, actions)
      made = [words.encode(x) for x in texts]
    longest = max(map(len, made))
    if 0 < reading.max_tokens < longest:
      raise ValueError(
        f'reading.{name}.max_tokens must be >= {longest}, the tokens of the'
        f' longest hint, or 0 for no limit, got {reading.max_tokens}'
      )
    tokens, length = observation_tokens.pad_lists(made, words.pad)
    line = words.encode('\n')[-1]
    out[name] = Hint(reading.source, tokens, length, _frame(chat, system), line)
  return out


def _recalled(c: Config) -> int:
  """Returns the most tokens that an attempt recalls; 0: nothing is."""
  recall = recall_base.of(base_config.wiring(c))
  return recall.tokens if recall else 0


def tokens_of_notes(c: Config) -> int:
  """Returns the most tokens of a memory that stand before a prompt.

  0 where nothing is recalled, or where it is for a reading.
  """
  apart = any(x.source == MEMORY for x in c.reading.values())
  return 0 if apart else _recalled(c)


def sampled_behind(spec: registry.MethodSpec) -> str:
  """Names the reading whose hints some attempts begin with; '': none."""
  needs = registry.needs(spec, 'collect', 'collect', spec.collect)
  read = (x.removeprefix('reading:') for x in needs if x.startswith('reading:'))
  return next(read, '')


def guidance(hint: Hint, tasks: int) -> hinted.Guidance:
  """Returns the hints of a reading for attempts that are sampled behind them.

  Args:
    tasks: that are trained on
  """
  texts = [
    tuple(x[:n].tolist()) for x, n in zip(hint.tokens, hint.length, strict=True)
  ]
  if hint.source == 'text':
    texts *= tasks
  return hinted.Guidance(hint.frame, texts)


def null_observation(
  c: Config, words: Tokenizer, chat: Chat | None, system: str, width: int
) -> NullObservation | None:
  """Returns the observation of the reading `nulled`; None: there is none.

  Args:
    width: tokens that are new to the model in a turn, at most
  Raises: ValueError for one that is longer.
  """
  r = c.rollout
  text, by_turn = r.null_observation, r.history == 'turn'
  if not text:
    return None
  begin = [Message('system', system)] if system and by_turn else []
  end = None
  if chat is None:
    lines = _lines([*(m.content for m in begin), text])
    ids = tuple(words.encode(lines if registered.on_host(r.kind) else text))
  elif by_turn:
    ids = chat_template.start(chat, [*begin, Message('user', text)]).ids
  else:
    talk = chat_template.start(chat, [Message('user', _MARK)])
    mine = (*chat.words.encode(_MARK), chat.eot)
    talk = chat_template.add_reply(chat, talk, mine)
    more = chat_template.add_messages(chat, talk, [Message('user', text)])
    ids, end = more.ids[len(talk.ids) :], chat.eot
  if len(ids) + (end is not None) > width:
    raise ValueError(
      f'rollout.null_observation={text!r} takes {len(ids)} tokens, and what is'
      f' new in a turn has at most {width}; shorten it'
    )
  return NullObservation(ids, end)


def _texts(
  name: str, reading: ReadingConfig, tasks, actions: Sequence[str]
) -> list[str]:
  """Returns the texts of a reading's table."""
  before = _lines([reading.text])
  match reading.source:
    case 'text' | 'solution':
      return [before]
    case 'outcome':
      return [_lines([reading.failed]), before]
    case 'demonstration':
      bodies = _demonstrations(tasks, actions)
    case _:
      bodies = [[_field(name, reading.field, task)] for task in tasks.tasks]
  shift = reading.shift % len(bodies)
  bodies = bodies[shift:] + bodies[:shift]
  return [before + _lines(body) if any(body) else '' for body in bodies]


def _lines(texts: Sequence[str]) -> str:
  return ''.join(x if x.endswith('\n') else f'{x}\n' for x in texts if x)


def _demonstrations(tasks, actions: Sequence[str]) -> list[list[str]]:
  if isinstance(tasks, jit_tasks.JitTaskSet):
    return [[actions[i] for i in row if i >= 0] for row in tasks.actions]
  return [list(messages) for messages in tasks.demonstration]


def _field(name: str, field: str, task) -> str:
  if field not in task:
    raise ValueError(
      f'reading.{name}.field must be a field of the tasks, one of'
      f' {sorted(task)}, got {field!r}'
    )
  value = task[field]
  return value if isinstance(value, str) else json.dumps(value)


def _frame(chat: Chat | None, system: str) -> HintFrame:
  """Returns what frames a hint: nothing, or the template's system message."""
  if chat is None:
    return HintFrame()
  begin = [Message('system', system)] if system else []
  plain = chat_template.start(chat, [*begin, Message('user', _MARK)])
  text = f'{system}\n{_MARK}' if system else _MARK
  more = [Message('system', text), Message('user', _MARK)]
  talk = chat_template.start(chat, more)
  ends, size = _places(chat, plain), len(chat.words.encode(_MARK))
  places = _places(chat, talk)
  if (len(ends), len(places)) != (1, 2):
    raise ValueError(
      f'the chat template of tokenizer {chat.words.name} does not write a'
      " system message as it stands; set rollout.chat_format to 'bare', or take"
      ' another template'
    )
  first, second = places
  after = talk.ids[first + size : second]
  return HintFrame(talk.ids[:first], after, ends[0])


def _places(chat: Chat, talk: chat_template.Conversation) -> list[int]:
  return chat_template.places(chat, talk.text, talk.ids, _MARK)


def hinted_rows(
  hint: Hint,
  r: record_lib.Record,
  batch: Batch,
  version,
  *,
  attempts: Attempts,
  eot: int,
  t: int | None,
) -> Rows:
  """Returns the hinted reading of a record, whose batch is made already.

  Args:
    attempts: what was played
    eot: the end of a turn
    t: columns of a row of a full history; None: one row for each turn
  """
  tokens, length = jnp.asarray(hint.tokens), jnp.asarray(hint.length)
  if hint.source == 'solution':
    which = hinted.solved_sibling(batch)
    text, size = _solutions(hint, r, which, eot)
  elif hint.source == MEMORY:
    text, size = _recollections(hint, attempts)
  else:
    at = _rows_of_table(hint, batch)
    text, size = tokens[at], length[at]
  return hinted.hinted_rows(r, text, size, hint.frame, version, t)


def _rows_of_table(hint: Hint, batch: Batch) -> Array:
  """Returns which of a table's hints each trajectory has: [B] i32."""
  match hint.source:
    case 'text':
      return jnp.zeros(batch.outcome.shape, jnp.int32)
    case 'outcome':
      return (batch.outcome > 0.5).astype(jnp.int32)
  return batch.ids['task']


def _solutions(hint: Hint, r: record_lib.Record, which: Array, eot: int):
  """Makes hints of the messages of the trajectories `which`; -1: none."""
  body, size = hinted.messages_as_text(r, which, eot, hint.line)
  begin = jnp.asarray(hint.tokens[0, : hint.length[0]])
  begin = jnp.broadcast_to(begin, (*which.shape, begin.shape[0]))
  parts = jnp.concatenate([begin, body], axis=1)
  whole = jnp.where(size > 0, begin.shape[1] + size, 0)
  return parts, whole


def _recollections(hint: Hint, attempts: Attempts) -> tuple[Array, Array]:
  """Returns what each attempt recalls; a demonstration recalls nothing."""
  if (notes := attempts.notes) is None:
    b = attempts.task.shape[0]
    tokens = jnp.zeros((b, hint.tokens.shape[1]), jnp.int32)
    return tokens, jnp.zeros(b, jnp.int32)
  return jnp.asarray(notes.tokens), jnp.asarray(notes.length)
