"""Rollouts whose first turns are given: inside jit and on hosts alike."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.jit import sokoban_levels
from agentrl.loss import reduce
from agentrl.rollout import actor
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import record as record_lib
from agentrl.rollout.limits import EpisodeLimits
from agentrl.task.base import make_attempts
from agentrl.types import Messages, Prefix, Span, Status
from tests.rollout import host_test
from tests.rollout.host_test import (
  MODULE,
  SHAPE,
  WORDS,
  Outside,
  engine,
  inside,
  params,
)

K, M = 5, 2
# What each of the attempts at task b // 4 is given. Six of a demonstration of
# at most four turns end the first ones; the last of all is not attempted.
GIVEN = [0, 1, 2, 6, 0, 1, 2, 6, 3, 1, 2, 2]
LIMIT = [5, 5, 5, 5, 5, 5, 5, 5, 5, 2, 5, 0]
KEY = jax.random.key(7)


@functools.cache
def attempts():
  made = make_attempts(np.repeat(np.arange(3), 4), 4, K, 1.0)
  return made.replace(limit=np.array(LIMIT, np.int32))


@functools.cache
def solutions():
  """Messages that solve tasks 0 to 2: [3, K, M] i32 and [3, K]."""
  source = sokoban_levels.Generated()
  tokens = np.zeros((3, K, M), np.int32)
  length = np.zeros((3, K), np.int32)
  for i, task in enumerate(source.tasks('train', 3, 0)):
    for k, action in enumerate(list(task.actions)[:K]):
      word = inside().env.actions[action]
      tokens[i, k], length[i, k] = [*WORDS.encode(word), WORDS.eot], 2
  return tokens, length


def messages(state=None):
  tokens, length = solutions()
  task = attempts().task
  unknown = np.full((12, K), -1, np.int32)
  state = unknown if state is None else state
  return Messages(tokens[task], length[task], state)


def prefixed(state=None):
  turns = np.minimum(GIVEN, messages().length.astype(bool).sum(1))
  prefix = Prefix(turns.astype(np.int32), messages(state))
  return attempts().replace(prefix=prefix)


def plan():
  return jit_rollout.RolloutSizes(slots=5, turns=K, message=M, history='full')


@functools.cache
def program():
  world = inside()

  @jax.jit
  def play(params, attempts):
    given = record_lib.given(attempts.prefix, K, M)
    speaker = actor.model(SHAPE, params, message=M, eot=WORDS.eot, given=given)
    return jit_rollout.rollout(world, plan(), speaker, attempts, KEY)

  return functools.partial(play, params())


@functools.cache
def played():
  return jax.device_get(program()(prefixed()))


@functools.cache
def shown():
  """The whole demonstrations, played by a script."""
  tokens, length = solutions()
  made, world = make_attempts(np.arange(3), 1, K, 1.0), inside()

  @jax.jit
  def play():
    script = actor.scripted(jnp.asarray(tokens), jnp.asarray(length))
    return jit_rollout.rollout(world, plan(), script, made, KEY)

  return jax.device_get(play())


@functools.cache
def unprefixed():
  world = inside()

  @jax.jit
  def play(params):
    speaker = actor.model(SHAPE, params, message=M, eot=WORDS.eot)
    return jit_rollout.rollout(world, plan(), speaker, attempts(), KEY)

  return jax.device_get(play(params()))


def batch_of(record, attempts):
  world = inside()
  t = jit_rollout.row_tokens(world, plan())
  layout = record_lib.full_history(record, t)
  return jax.device_get(record_lib.batch(record, layout, attempts, 4))


@pytest.mark.slow
def test_the_first_turns_are_those_of_the_demonstration():
  r, want = played(), shown()
  forced = np.asarray(record_lib.forced_turns(r))
  asked = prefixed().prefix.turns
  for b in range(11):
    task, n = b // 4, int(asked[b])
    assert forced[b].tolist() == [k < n for k in range(K)]
    for name in ('message', 'context', 'state', 'reward', 'action'):
      x, y = (getattr(z, name) for z in (r, want))
      np.testing.assert_array_equal(x[b, :n], y[task, :n], err_msg=name)
    # A start from there is a start from the same state.
    if r.valid[b, n : n + 1].any():
      assert r.state[b, n] == want.state[task, n]
      np.testing.assert_array_equal(r.context[b, n], want.context[task, n])
    assert (r.span[b, :n] == Span.PREFIX).all()
    assert not r.logp[b, :n].any()
    assert not r.entropy[b, :n].any()
    after = r.valid[b] & ~forced[b]
    assert (r.logp[b, after, 0] < 0).all()
    assert (r.entropy[b, after] > 0).all()
    assert not (r.span[b, after] == Span.PREFIX).any()
    assert r.valid[b].sum() <= LIMIT[b]
  ended = [b for b in range(11) if not (r.valid[b] & ~forced[b]).any()]
  assert ended
  assert all(r.status[b] == Status.SOLVED for b in ended)
  assert len(ended) < 6


@pytest.mark.slow
def test_who_is_given_nothing_plays_as_without_prefixes():
  """Nor does it matter whom the others are, and who is not attempted."""
  r, want = played(), unprefixed()
  for b in (0, 4):
    for x, y in zip(jax.tree.leaves(r), jax.tree.leaves(want), strict=True):
      np.testing.assert_array_equal(x[b], y[b])
  assert not r.valid[11].any()
  assert not want.valid[11].any()
  assert want.valid[:11, 0].all()


def test_rows_hold_a_prefix_as_text_that_nobody_sampled():
  batch, r = batch_of(played(), prefixed()), played()
  rows, forced = batch.rows, np.asarray(record_lib.forced_turns(played()))
  there = rows.span == Span.PREFIX
  assert there.any()
  for name in ('sampled', 'weight', 'logp'):
    assert not getattr(rows, name)[there].any(), name
  for n, t in zip(*np.nonzero(there), strict=True):
    assert forced[rows.traj[n, t], rows.turn[n, t]]
  size = np.where(forced, r.message_len, 0).sum()
  assert there.sum() == size
  own = r.valid & ~forced
  assert rows.sampled.sum() == np.where(own, r.message_len, 0).sum()
  np.testing.assert_array_equal(batch.ids['prefix'], forced.sum(1))
  assert not batch.ids['prefix_cut'].any()
  np.testing.assert_array_equal(
    batch.turns.terms['tokens'], np.where(own, r.message_len, 0)
  )
  # What says nothing of the policy does not count; the others do.
  np.testing.assert_array_equal(
    batch.turns.scored, r.valid & own.any(1, keepdims=True)
  )
  np.testing.assert_array_equal(
    batch.attempted['counts'], own.any(1) & ~forced.any(1)
  )


def test_prefix_turns_cost_the_environment_and_nobody_else():
  batch, r = batch_of(played(), prefixed()), played()
  own = r.valid & ~np.asarray(record_lib.forced_turns(r))
  assert batch.sampled['attempts'] == 11
  assert batch.sampled['env_steps'] == r.valid.sum()
  assert batch.sampled['tokens'] == np.where(own, r.message_len, 0).sum()


def as_context(batch):
  """The batch whose prefixes are text that was there from the beginning."""
  rows = batch.rows
  turns = np.asarray(batch.ids['prefix'])
  read = rows.turn < turns[np.maximum(rows.traj, 0)]
  return batch.replace(
    rows=rows.replace(
      turn=np.where(read, -1, rows.turn),
      span=np.where(read, Span.OTHER, rows.span),
    )
  )


def test_gradients_are_those_of_a_prefix_in_the_context():
  """And log-probs of sampled tokens are those that were sampled from."""
  batch = batch_of(played(), prefixed())
  advantage = np.random.default_rng(0).normal(size=batch.turns.valid.shape)

  def losses(p, rows):
    logp = MODULE.apply(p, rows, ('logp',)).logp
    weight = jnp.where(rows.sampled, rows.weight, 0)
    at = jnp.maximum(rows.traj, 0), jnp.maximum(rows.turn, 0)
    each = jnp.asarray(advantage)[at] * jnp.where(weight > 0, logp, 0)
    by_token = reduce.trajectory_mean(weight, rows, 12, K)
    by_turn = reduce.trajectory_turn_mean(weight, rows, 12, K)
    return jnp.array([-jnp.sum(x * each) for x in (by_token, by_turn)]), logp

  f = jax.jit(jax.jacrev(losses, has_aux=True))
  (one, logp), (two, _) = (
    f(params(), jax.tree.map(jnp.asarray, x.rows))
    for x in (batch, as_context(batch))
  )
  for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
    np.testing.assert_allclose(x, y, atol=1e-6)
  for i in range(2):
    assert max(jnp.abs(x[i]).max() for x in jax.tree.leaves(one)) > 1e-3
  own = batch.rows.sampled
  np.testing.assert_allclose(
    np.asarray(logp)[own], batch.rows.logp[own], atol=1e-5
  )


# Worlds that show something else than the messages answered.


def diverged():
  """Attempts 2 and 6 were recorded where turn 1 was another state."""
  want = shown()
  state = np.repeat(want.state, 4, axis=0).astype(np.int32)
  state[[2, 6], 1] += 1
  state[5] = -1  # unknown
  return state


@functools.cache
def hosted(which):
  heard = inside().obs_tokens
  limits = EpisodeLimits(
    turns=K, message=M, observation=heard, opening=0, context=K * (heard + M)
  )
  tasks = [
    {'it': jax.tree.map(lambda x: x[i], inside().tasks)} for i in range(3)
  ]
  generator = engine(3, capacity=limits.context)
  generator.update_weights(params(), 0)
  made = host_test.stage(Outside(), tasks, limits)
  state = None
  if which == 'diverged':
    seen, _ = hosted('followed')
    state = np.array(seen.state)
    state[~seen.valid] = -1
    state[[2, 6], 1] += 1
  return host_test.played(made, prefixed(state), generator=generator)


def test_the_policy_goes_on_where_the_world_is_another():
  r = jax.device_get(program()(prefixed(diverged())))
  want = played()
  forced = np.asarray(record_lib.forced_turns(r)).sum(1)
  usual = np.asarray(record_lib.forced_turns(want)).sum(1)
  assert forced[[2, 6]].tolist() == [1, 1]
  others = np.delete(np.arange(12), [2, 6])
  np.testing.assert_array_equal(forced[others], usual[others])
  np.testing.assert_array_equal(r.message[others], want.message[others])
  batch = batch_of(r, prefixed(diverged()))
  cut = batch.ids['prefix_cut']
  assert cut.tolist() == [1 if b in (2, 6) else 0 for b in range(12)]
  assert (r.logp[[2, 6], 1, 0] < 0).all()


@pytest.mark.parametrize('which', ['followed', 'diverged'])
def test_hosts_play_prefixes_as_jit_does(which):
  got, counts = hosted(which)
  state = diverged() if which == 'diverged' else None
  want = jax.device_get(program()(prefixed(state)))
  assert counts == {'cut': 0}
  for name in ('message', 'message_len', 'valid', 'outcome'):
    x, y = (getattr(z, name) for z in (got, want))
    np.testing.assert_array_equal(x, y, err_msg=name)
  live = want.valid.any(1)
  np.testing.assert_array_equal(got.status[live], want.status[live])
  used = want.valid[..., None] & (
    np.arange(M) < np.asarray(want.message_len)[..., None]
  )
  np.testing.assert_allclose(got.logp[used], want.logp[used], atol=1e-5)
  np.testing.assert_array_equal(
    *(x.span[used] == Span.PREFIX for x in (got, want))
  )
  for b in np.flatnonzero(live):
    n = want.context_len[b]
    for k in range(K):
      np.testing.assert_array_equal(
        got.context[b, k, : n[k]], want.context[b, k, : n[k]]
      )


def test_a_table_of_another_size_is_refused():
  with pytest.raises(AssertionError):
    record_lib.given(prefixed().prefix, K + 1, M)
