"""Partial rollouts: groups train when all of their members have ended.

  attempt -> segment of turns -> ended?  waits for its group
                              -> not?    goes on in a later iteration

Unfinished attempts repeat in the environment what they have (reset and their
messages, `rollout/replayed`) and the policy goes on behind it, each token with
the log-prob and version of when it was sampled. Members that have ended are
not played again: they come back as they were stored. Nothing of a group that is
not whole counts, and each attempt is trained on once.
"""

from typing import Any

import jax
import jax.numpy as jnp

from agentrl import mesh, registry, segment
from agentrl.curate import select
from agentrl.ops import counting
from agentrl.prefix import lengths
from agentrl.rollout import keys, registered, resumed
from agentrl.types import (
  Array,
  Attempts,
  Batch,
  CollectInputs,
  Copies,
  Metrics,
  Prefix,
  Status,
)


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if trajectories of the method can go on later."""
  del config
  by = f'c.collect={spec.collect!r}'
  if lengths.gives_turns(spec.prefix):
    return (
      f"c.prefix must be 'none' for {by}, which repeats an attempt's own first"
      f' turns, got {spec.prefix!r}'
    )
  if spec.judge:
    return (
      f'c.judge must be empty for {by}, since judges read trajectories that'
      f' have ended, got {spec.judge}'
    )
  if registered.kind_of(spec).purify is not None:
    return (
      f'rollout.kind must be one that keeps failed calls for {by}, which goes'
      f' on behind them, got {spec.rollout!r}'
    )
  return ''


def measure(batch: Batch) -> Metrics:
  """Measures how much of the batch has ended, and the price of going on."""
  ids, one = batch.ids, jnp.ones(())
  whole = ids['waits'] == 0
  broken = whole & ~counting.trajectories(batch)
  return {
    'whole_groups': (jnp.sum(whole), jnp.float32(whole.size)),
    'replayed': (jnp.sum(ids['replayed']), one),
    'unscored': (jnp.sum(broken), one),
  }


@registry.register(
  'collect',
  needs=('memory:unfinished', 'term:entropy'),
  gives=('column:unfinished', 'given_turns'),
  check=fits,
  metrics=measure,
)
def partial(x: CollectInputs) -> Batch:
  """Samples what is left of attempts; groups that are not whole do not count.

  ids [B]: 'unfinished' is 1 for attempts that go on, 'waits' for all of their
  groups, 'replayed' is the number of turns that were repeated, and 'key_0',
  'key_1' are the key that an attempt has from its beginning to its end.
  """
  attempts = _resumed(x.attempts)
  batch = x.score(x.sample(attempts, x.key))
  own = keys.keys(jax.tree.map(jnp.asarray, attempts), x.key).own
  return _whole(batch, x.attempts, jax.random.key_data(own))


def _resumed(attempts: Attempts) -> Attempts:
  """Gives attempts that go on the turns that they have."""
  earlier = attempts.earlier
  if earlier is None:
    return attempts
  old, b = earlier.batch, attempts.task.shape[0]
  messages = Copies(
    rows=old.rows,
    entropy=old.turns.terms['entropy'],
    origin=jnp.arange(b, dtype=jnp.int32),
    count=b,
    key=earlier.key,
    state=old.turns.state,
  )
  prefix = Prefix(_turns(attempts), messages)
  return attempts.replace(prefix=prefix, earlier=None)


def _turns(attempts: Attempts) -> Array:
  """Counts the turns that each attempt repeats: [B] i32."""
  earlier, limit = attempts.earlier, jnp.asarray(attempts.limit)
  if earlier is None:
    return jnp.zeros_like(limit)
  turns = jnp.sum(jnp.asarray(earlier.batch.turns.valid), axis=1)
  return jnp.where(limit > 0, turns, 0).astype(jnp.int32)


def _whole(batch: Batch, attempts: Attempts, words: Array) -> Batch:
  """Puts waiting members in, and drops the groups that are not whole.

  Args:
    words: [B, 2] u32 of the keys of attempts
  """
  earlier, turns = attempts.earlier, _turns(attempts)
  ended = jnp.asarray(attempts.limit) <= 0
  goes_on = jnp.zeros_like(ended)
  if earlier is not None:
    batch = _with_ended(batch, earlier.batch, ended)
    goes_on = jnp.asarray(earlier.goes_on)
    words = jnp.where(ended[:, None], earlier.key, words)
  unfinished = goes_on & ~ended & (batch.status == Status.SCHEDULE)
  group = select.group_ids(batch)
  whole = segment.segment_sum(unfinished.astype(jnp.int32), group) == 0
  words = jax.lax.bitcast_convert_type(words, jnp.int32)
  columns = {
    'unfinished': unfinished,
    'waits': ~whole,
    'replayed': turns,
    **{f'key_{i}': words[:, i] for i in range(words.shape[1])},
  }
  ids = {name: x.astype(jnp.int32) for name, x in columns.items()}
  made = ~ended & (turns == 0)
  sampled = batch.sampled | {'attempts': jnp.sum(made, dtype=jnp.int32)}
  counts = batch.attempted['counts'] & ~unfinished
  batch = batch.replace(
    ids=batch.ids | ids,
    sampled=sampled,
    attempted=batch.attempted | {'counts': counts},
  )
  return select.keep(batch, whole)


def _with_ended(batch: Batch, old: Batch, ended: Array) -> Batch:
  """Takes trajectories of `old` where they have ended, [B] bool."""
  b, n = ended.shape[0], batch.rows.traj.shape[0]

  def take(new, old, ended):
    return resumed.where(ended, jnp.asarray(old, new.dtype), new)

  def rows(new, old, ended):
    return take(new, old, jnp.repeat(ended, n // b))

  def turns(new, old):
    return mesh.auto(take, None)(new, old, ended)

  mine = old.turns.replace(node=batch.turns.node)
  return batch.replace(
    rows=jax.tree.map(
      lambda new, old: mesh.auto(rows, segment.ROW)(new, old, ended),
      batch.rows,
      old.rows,
    ),
    turns=jax.tree.map(turns, batch.turns, mine),
    outcome=turns(batch.outcome, old.outcome),
    status=turns(batch.status, old.status),
  )
