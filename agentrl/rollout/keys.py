"""PRNG keys of a run: one stream for each purpose, one key for each step.

  key of a stream         fold_in(key of the run, Stream)
  of an iteration         fold_in(·, step)
  key of trajectory b     fold_in(key of the iteration, b)
  of its beginning        fold_in(·, 0)
  of turn k               fold_in(·, k + 1): 0: message, 1: environment
  of token t of a message fold_in(·, t), in actor.py and engine/programs.py
  of compaction (hosts)   numpy's generator of (task or message key, COMPACTION)
  of a placebo inside jit fold_in(message key, COMPACTION); lengths as on hosts

So nothing depends on the slot or on the rest of the batch. Turns copied from
another trajectory (types.Copies) repeat the environment's random draws, as do
attempts of one luck (types.Attempts); an attempt that goes on has the key that
it began with.
"""

import dataclasses
import enum
import hashlib
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.types import Array, Attempts, Copies

COMPACTION = 0xC0DA  # apart from other uses of a task's index or a message key


class Stream(enum.IntEnum):
  """Purpose of randomness in a run; numbers are unique."""

  UPDATE = 1  # signals and losses; who is in which minibatch
  SFT = 2  # demonstrations; also the rollouts of tabular policies
  ROLLOUT = 3
  MEMORY = 4
  LOG = 5  # which trajectories are logged
  EVAL = 6  # the same at every evaluation: folded with its rounds, not a step
  ERROR = 7  # planted in step rewards: by step, or the same for the run
  LEAGUE = 8  # which past self is the next rival
  PLAYER = 9  # the keys of policies beside the first, see learner/policies.py
  LABELS = 10  # which labels a reward model is shown, and what it draws


def stream_key(key: Array, stream: Stream) -> Array:
  """Derives the key of a stream from the run's."""
  return jax.random.fold_in(key, int(stream))


@jax.jit(static_argnames='stream', inline=True)
def step_key(key: Array, stream: Stream, step: Array | int) -> Array:
  """Derives the key of a stream at a step from the run's.

  Compiled: a small model's step takes milliseconds, of which it was one.
  """
  return jax.random.fold_in(stream_key(key, stream), step)


@struct.dataclass
class Keys:
  """Keys of B trajectories."""

  own: Array  # [B] typed keys
  origin: Array  # [B] or [B, K] typed keys  in the first `turns` turns
  turns: Array  # [B] i32
  begun: Array | None = None  # [B] bool  begins as its origin; None: turns > 0
  world: Array | None = None  # [B] typed keys of environments; None: as above

  def of(self, at, turn):
    """Derives keys of trajectories at turns: [n] each -> [n]."""
    origin = self.origin
    if origin.ndim == 1:
      origin = origin[at]
    else:
      origin = origin[at, jnp.minimum(turn, origin.shape[1] - 1)]
    return jnp.where(turn < self.turns[at], origin, self.own[at])


def keys(attempts: Attempts, key) -> Keys:
  """Derives trajectory keys from an iteration's; branches count on.

  Attempts that go on keep theirs.
  """
  made = _of_messages(attempts, key)
  if attempts.luck is None:
    return made
  fold = jax.vmap(jax.random.fold_in, (None, 0))
  return dataclasses.replace(made, world=fold(key, attempts.luck))


def _of_messages(attempts: Attempts, key) -> Keys:
  """Derives the keys of trajectories whose environments have none of theirs."""
  index = jnp.arange(attempts.task.shape[0])
  fold = jax.vmap(jax.random.fold_in, (None, 0))
  p = attempts.prefix
  of = p.messages if p else None
  if p is None or not isinstance(of, Copies):
    own = fold(key, index)
    return Keys(own, own, jnp.zeros_like(attempts.task))
  if of.key is not None:
    begun = jax.random.wrap_key_data(of.key, impl=jax.random.key_impl(key))
    own = jnp.where(p.turns > 0, begun, fold(key, index))
    return Keys(own, own, jnp.zeros_like(p.turns))
  own, begun = fold(key, of.count + index), None
  if of.tokens is not None:
    begun = (p.turns > 0) | (of.tokens > 0)
  if of.drawn is None:
    return Keys(own, fold(key, of.origin), p.turns, begun)
  return Keys(own, jax.vmap(fold, (None, 0))(key, of.drawn), p.turns, begun)


def start(keys: Keys, at):
  """Derives keys for the starts of trajectories [n]: [n]."""
  first = keys.of(at, jnp.zeros_like(at))
  if keys.begun is not None:
    origin = keys.origin if keys.origin.ndim == 1 else keys.origin[:, 0]
    first = jnp.where(keys.begun[at], origin[at], keys.own[at])
  if keys.world is not None:
    first = keys.world[at]
  return jax.vmap(jax.random.fold_in, (0, None))(first, 0)


def turn(keys: Keys, at, turn):
  """Derives keys of messages and environment steps: [n] each -> [n], [n]."""
  fold = jax.vmap(jax.random.fold_in)
  of = [keys.of(at, turn)] * 2
  if keys.world is not None:
    of[1] = keys.world[at]
  return tuple(
    fold(fold(x, turn + 1), jnp.full_like(at, i)) for i, x in enumerate(of)
  )


@jax.jit(static_argnums=2)
def host_keys(attempts: Attempts, key, k: int):
  """Derives host message keys [B, K, 2] u32 and seeds [B] i32 >= 0."""
  attempts = jax.tree.map(jnp.asarray, attempts)
  of, at = keys(attempts, key), jnp.arange(attempts.task.shape[0])
  several = jax.vmap(lambda k: turn(of, at, jnp.full_like(at, k))[0])
  message = jax.random.key_data(several(jnp.arange(k)))
  bits = jax.vmap(jax.random.bits)(start(of, at))
  return jnp.swapaxes(message, 0, 1), (bits >> 1).astype(jnp.int32)


def message_key(seed: int, context: Sequence[int], index: int) -> np.ndarray:
  """Derives the key of a message outside of a run: [2] u32.

  Args:
    context: ids that it follows
    index: of the message among those sampled behind equal contexts
  """
  content = repr((seed, index, list(map(int, context))))
  digest = hashlib.sha256(content.encode()).digest()
  return np.frombuffer(digest[:8], np.uint32)
