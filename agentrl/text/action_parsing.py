"""Actions from sampled tokens, inside jit, and from text, on the host."""

import itertools
from collections.abc import Sequence

import chex
import jax.numpy as jnp
from flax import struct
from jax import Array

from agentrl.text.observation_tokens import as_tokens, pad_lists
from agentrl.text.tokenizer import Tokenizer


@struct.dataclass
class ActionTable:
  """The tokens that name each of A actions, at most m each, after a tag."""

  tokens: Array  # [A, m] i32
  length: Array  # [A] i32, tokens of each action, 1..m
  tag: Array  # [t] i32; t == 0: the whole message is the action
  eot: int = struct.field(pytree_node=False)


def action_table(
  tokenizer: Tokenizer, actions: Sequence[str], *, tag: str = ''
) -> ActionTable:
  """Encodes tag and actions, each by itself; both may hold specials.

  Raises:
    ValueError: if an action has no tokens, or a message could mean two: they
      are equal, or one with its tag is how the other with its tag ends.
  """
  if not actions:
    raise ValueError('an action table needs at least one action, got none')
  encoded = [tokenizer.encode(text, specials=True) for text in actions]
  for text, ids in zip(actions, encoded, strict=True):
    if not ids:
      raise ValueError(
        f'action {text!r} has no tokens in tokenizer {tokenizer.name}; give '
        'it a name that has'
      )
  tag_ids = tokenizer.encode(tag, specials=True)
  _assert_one_meaning(actions, [tag_ids + ids for ids in encoded], bool(tag))
  _assert_one_meaning(actions, [tag + text for text in actions], bool(tag))
  tokens, length = pad_lists(encoded, tokenizer.pad)
  return ActionTable(
    tokens=jnp.asarray(tokens),
    length=jnp.asarray(length),
    tag=as_tokens(tokenizer, tag),
    eot=tokenizer.eot,
  )


def _assert_one_meaning(
  actions: Sequence[str], full: Sequence[Sequence], tagged: bool
) -> None:
  """Checks `full`: tag and action, each as a list of ids or as a string."""
  for (a, one), (b, two) in itertools.permutations(
    zip(actions, full, strict=True), 2
  ):
    if one == two or (tagged and one == two[-len(one) :]):
      raise ValueError(
        f'actions {a!r} and {b!r} can be meant by one message: they are '
        'equal or end alike in text or tokens; rename one or change the tag'
      )


def parse(table: ActionTable, tokens: Array, n: Array) -> Array:
  """Returns the action that a sampled message names, -1 if none.

  One trailing `eot` is stripped. Without a tag the message must be the
  action's tokens and nothing else; with one, it must end with the tag's
  tokens and then the action's, after any thought. Another tokenization of the
  same text names nothing: what is trained on are the tokens.

  Args:
    table: A actions.
    tokens: [M] i32, the message; anything beyond n.
    n: [] i32, how many were sampled, in [0, M].

  Returns:
    [] i32 in [-1, A).
  """
  chex.assert_rank([tokens, n], [1, 0])
  last = tokens[jnp.maximum(n - 1, 0)]
  n = n - ((n > 0) & (last == table.eot)).astype(n.dtype)
  # The actions that tokens[:n] ends with, and where each of them would begin.
  start = n - table.length  # [A]
  offset = jnp.arange(table.tokens.shape[1])[None, :]  # [1, m]
  place = jnp.clip(start[:, None] + offset, 0, tokens.shape[0] - 1)  # [A, m]
  same = (tokens[place] == table.tokens) | (offset >= table.length[:, None])
  named = jnp.all(same, axis=1) & (start >= 0)
  size = table.tag.shape[0]
  if size == 0:
    named &= start == 0
  else:
    place = start[:, None] - size + jnp.arange(size)[None, :]  # [A, t]
    before = tokens[jnp.clip(place, 0, tokens.shape[0] - 1)]
    named &= jnp.all((before == table.tag[None, :]) & (place >= 0), axis=1)
  return jnp.where(named.any(), jnp.argmax(named), -1).astype(jnp.int32)
