"""Turns of the last iterations, and what an annotator says of them later.

An annotator beside the rollouts labels turns, and none waits for it
(judge/late.py): the batch of step n brings the labels of the batch of step
n − lag, which is still held here. They count from step n + 1 on.

A turn is known again by what was read and what was said, in a deterministic
world also by what that led to. Looked up, a label is

  l(x) = mean of the labels that have come of held turns equal to x, else 0

which is the retrieval form of ONI (arXiv 2410.23022); models that learn from
what is held are signals.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import mesh, registry, segment
from agentrl.advantage import returns
from agentrl.domain import Count, Named, Whole
from agentrl.judge import late
from agentrl.memory import trajectory_ring
from agentrl.memory.base import Memory
from agentrl.memory.trajectory_ring import StoredTrajectories
from agentrl.types import Array, Batch, Credit, Metrics

NAME = 'annotations'
_PRIMES = 0x9E3779B1, 0x85EBCA6B  # odd, without small factors


class Annotations(struct.PyTreeNode):
  """A ring of batches: C trajectories, B of each step."""

  trajectories: StoredTrajectories
  key: Array  # [C, K, 2] i32  equal: the same was read and said
  label: Array  # [C, K] f32  0 where none has come
  known: Array  # [C, K] bool  a label has come
  born: Array  # [C] i32  step that sampled it; -1 nothing here


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if batches come in order and stay until their labels do."""
  ((_, hp),) = registry.settings_of(spec, 'memory', NAME)
  at, term = f'hp.memory.{NAME}', hp['term']
  if hp['batches'] <= hp['lag']:
    return (
      f'{at}.batches must be > lag={hp["lag"]}, so that a batch is held when'
      f' its labels come, got {hp["batches"]}'
    )
  if spec.collect != 'once' or config.staleness.bound:
    return (
      f"c.collect must be 'once' and staleness.bound 0 for memory {NAME!r},"
      f' which numbers batches by their step, got {spec.collect!r} and'
      f' {config.staleness.bound}'
    )
  for scope, slot, name in registry.parts(spec):
    if f'term:{term}' in registry.needs(spec, scope, slot, name):
      return (
        f'{at}.term must be one that nothing else reads, since its scores are'
        f' late, got {term!r}, which {slot} {name!r} reads'
      )
    if 'memory:replayed' in registry.get(slot, name).gives:
      return (
        f'c.memory must not have {name!r} beside {NAME!r}, which holds batches'
        ' as they were sampled; leave one out'
      )
  return ''


@registry.register(
  'memory',
  needs=('late:{term}',),
  gives=(f'memory:{NAME}', f'signal:{NAME}.label'),
  check=fits,
)
def annotations(
  *,
  term: Named = 'judged',
  lag: Count = 2,
  batches: Annotated[int, Whole(2)] = 32,
) -> Memory:
  """Adds signal 'annotations.label' [B, K], l above, of turns of this batch.

  Args:
    term: of a judge; a label is its score, 1 good and 0 bad
    lag: steps after which a batch brings the labels of an earlier one
    batches: that are held, more than lag; labels of older ones are forgotten
  """

  def read(state: Annotations, batch: Batch, step, key):
    del step, key
    return batch, {f'{NAME}.label': looked_up(state, batch)}

  def write(state: Annotations, batch: Batch, credit: Credit, step):
    del credit
    return written(state, batch, step, term, lag)

  return Memory(
    init=lambda batch, tasks: empty(batch, batches),
    read=read,
    write=write,
    measure=measure,
  )


def empty(batch: Batch, batches: int) -> Annotations:
  """Makes room for some batches of this shape."""
  (b, k), f = batch.turns.valid.shape, batch.turns.reward.dtype
  capacity = b * batches
  return Annotations(
    trajectories=trajectory_ring.empty(NAME, batch, capacity),
    key=jnp.zeros((capacity, k, 2), jnp.int32),
    label=jnp.zeros((capacity, k), f),
    known=jnp.zeros((capacity, k), bool),
    born=jnp.full(capacity, -1, jnp.int32),
  )


def contents(batch: Batch) -> Array:
  """Hashes each turn: the observation, and the message token by token.

  h = Σ_p (token_p + 1) a^p mod 2^32, p the place in the message.

  Returns: [B, K, 2] i32
  """
  rows, index = batch.rows, segment.index(batch)
  place = segment.place_in_message(rows, index)
  token = (rows.tokens + 1).astype(jnp.uint32)
  powers = jnp.cumprod(jnp.full(rows.tokens.shape[1], _PRIMES[0], jnp.uint32))
  each = mesh.auto(lambda p, a: a[p], segment.ROW)(place, powers) * token
  each = jnp.where(rows.sampled, each, jnp.uint32(0))
  said = index.to_turns(each)
  said = (said ^ (said >> 15)) * jnp.uint32(_PRIMES[1])
  said = jax.lax.bitcast_convert_type(said, jnp.int32)
  return jnp.stack([batch.turns.state, said], axis=-1)


def looked_up(state: Annotations, batch: Batch) -> Array:
  """Returns l(x) of every turn of the batch: [B, K]."""
  shape = batch.turns.valid.shape

  def both(held, now):
    return jnp.concatenate([held.reshape(-1), now.reshape(-1)])

  key, here = contents(batch), returns.sampled_turns(batch)
  ids = segment.compact_ids(
    *(both(state.key[..., i], key[..., i]) for i in range(2))
  )
  known = both(state.known, jnp.zeros_like(here))
  label = both(state.label, jnp.zeros(shape, state.label.dtype))
  total = segment.segment_sum(label, ids, known)
  count = segment.segment_sum(known.astype(label.dtype), ids)
  mean = (total / jnp.maximum(count, 1))[-here.size :].reshape(shape)
  return jnp.where(here, mean, 0)


def written(
  state: Annotations, batch: Batch, step, term: str, lag: int
) -> Annotations:
  """Returns the state with the batch, and with the labels that it brings."""
  b = len(batch.outcome)
  batches, line = len(state.born) // b, jnp.arange(b)
  own = step % batches * b + line
  then = (step - lag) % batches * b + line
  come = batch.turns.terms[late.known(term)] > 0
  valid, born = trajectory_ring.take(
    (state.trajectories.turns.valid, state.born), then
  )
  come &= valid & (born == step - lag)[:, None]
  label = jnp.where(come, batch.turns.terms[term], 0)
  held, known = trajectory_ring.put(
    (state.label, state.known), (label.astype(state.label.dtype), come), then
  )
  new = Annotations(
    trajectories=trajectory_ring.of_batch(batch),
    key=contents(batch),
    label=jnp.zeros_like(label, held.dtype),
    known=jnp.zeros_like(come),
    born=jnp.full(b, step, jnp.int32),
  )
  return trajectory_ring.put(state.replace(label=held, known=known), new, own)


def measure(state: Annotations) -> Metrics:
  """Returns how many turns that are held have a label, and its mean."""
  known = state.known.astype(jnp.float32)
  held = state.trajectories.turns.valid & (state.born >= 0)[:, None]
  return {
    f'{NAME}/labelled': (jnp.sum(known), jnp.sum(held).astype(jnp.float32)),
    f'{NAME}/label': (jnp.sum(known * state.label), jnp.sum(known)),
  }
