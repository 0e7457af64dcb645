"""Conversations of other programs as stored trajectories.

Token ids in the file are kept; otherwise text is encoded once in a chat format
and the trajectory is marked `encoded`: its log-probs are unknown (0), and its
tokens may differ from the ones originally sampled.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from agentrl.dataset import numbers
from agentrl.dataset.trajectory import (
  StoredTrajectory,
  StoredTurn,
  make_turn,
  status_of,
  task_number,
)
from agentrl.text.chat_format import ChatFormat
from agentrl.text.message import AGENT, Message
from agentrl.types import Span


class ForeignMessage(NamedTuple):
  """Message of a file, with its tokens if the file has them."""

  message: Message
  prompt: Sequence[int] | None = None  # all that the model read before it
  tokens: Sequence[int] | None = None  # of the message, its end of turn too
  logp: Sequence[float] | None = None  # of each of the tokens, nats
  weight: float = 1.0  # 0: not trained on
  reward: float = 0.0


def trajectory(
  messages: Sequence[ForeignMessage],
  talk: ChatFormat | None,
  *,
  task: int | str,
  outcome: float,
  terms: Mapping[str, float] | None = None,
) -> StoredTrajectory:
  """Converts a conversation; messages after its last turn are dropped.

  Args:
    talk: encodes text; None: the file must hold token ids
    terms: of the last turn
  Raises:
    ValueError: a role is missing, or text without a tokenizer.
  """
  if isinstance(task, bool) or not isinstance(task, str | int):
    raise ValueError(f'task must be a string or an integer, got {task!r:.80}')
  if isinstance(task, int):
    numbers.whole('task', task, low=-(2**63), high=2**63 - 1)
  last = max((i for i, x in enumerate(messages) if _ours(x)), default=-1)
  if last < 0:
    raise ValueError(
      f'a conversation must have a message of role {AGENT!r}; add it, or leave'
      ' the conversation out'
    )
  vocab = 0 if talk is None else talk.words.vocab_size
  messages = [_checked(x, vocab) for x in messages[: last + 1]]
  own = [x for x in messages if _ours(x)]
  if all(x.prompt is not None and x.tokens is not None for x in own):
    turns, history = _of_tokens(own)
    encoded = False
  elif talk is None:
    raise ValueError(
      'token ids are missing, and encoding the text needs a tokenizer; pass'
      ' the one of the model to be trained'
    )
  else:
    turns, history, encoded = _of_text(messages, talk), 'full', True
  terms = {name: numbers.number(name, x) for name, x in (terms or {}).items()}
  turns[-1] = turns[-1]._replace(terms=terms)
  return StoredTrajectory(
    turns=tuple(turns),
    task=task,
    group=task_number(task) & 0x7FFFFFFF,
    outcome=numbers.number('outcome', outcome),
    status=status_of(outcome),
    source='import',
    step=-1,
    history=history,
    encoded=encoded,
  )


def _ours(x: ForeignMessage) -> bool:
  return x.message.role == AGENT


def _checked(x: ForeignMessage, vocab: int) -> ForeignMessage:
  """Returns the message if its tokens fit the vocabulary; 0: unknown."""
  if not _ours(x):
    return x
  for name, ids in (('prompt', x.prompt), ('message', x.tokens)):
    if ids is not None and not len(numbers.token_ids(name, ids, vocab)):
      raise ValueError(
        f'a {name} of {AGENT!r} must have at least one token id, got none; or'
        ' leave the field out'
      )
  return x


def _of_tokens(own: Sequence[ForeignMessage]) -> tuple[list[StoredTurn], str]:
  """Returns the turns and the history: whether each prompt extends the last."""
  prompts = [list(x.prompt or ()) for x in own]
  wholes = [p + list(x.tokens or ()) for p, x in zip(prompts, own, strict=True)]
  starts = [0, *map(len, wholes[:-1])]
  pairs = zip(prompts[1:], wholes, strict=False)
  grows = all(prompt[: len(whole)] == whole for prompt, whole in pairs)
  turns = []
  for x, prompt, start in zip(own, prompts, starts, strict=True):
    turns.append(_turn(prompt[start:] if grows else prompt, x.tokens or (), x))
  return turns, 'full' if grows else 'turn'


def _of_text(
  messages: Sequence[ForeignMessage], talk: ChatFormat
) -> list[StoredTurn]:
  """Encodes the turns, each context after the tokens before it."""
  turns: list[StoredTurn] = []
  waiting: list[Message] = []
  made = None
  for x in messages:
    if not _ours(x):
      waiting.append(x.message)
      continue
    if not waiting:
      raise ValueError(
        f'turn {len(turns)} of the agent must follow a message of another'
        ' role; add one, or merge it into the message before'
      )
    before = 0 if made is None else len(made.ids)
    made = (
      talk.start(waiting)
      if made is None
      else (talk.add_messages(made, waiting))
    )
    waiting = []
    ids = x.tokens
    if ids is None:
      ids = [*talk.words.encode(x.message.content), talk.words.eot]
    turns.append(_turn(made.ids[before:], ids, x))
    made = talk.add_reply(made, ids)
  return turns


def _turn(
  context: Sequence[int], ids: Sequence[int], x: ForeignMessage
) -> StoredTurn:
  logp: float | np.ndarray = 0.0
  if x.logp is not None:
    logp = numbers.log_probs('logp', x.logp)
    if len(logp) != len(ids):
      raise ValueError(
        f'a message must have one log-prob per token id, got {len(logp)} for'
        f' {len(ids)}; or leave log-probs out'
      )
  return make_turn(
    context,
    ids,
    context_span=Span.INFORMATION,
    weight=numbers.number('weight', x.weight, low=0.0),
    logp=logp,
    reward=numbers.number('reward', x.reward),
  )
