"""Attempts that go on later: what they are is what they would have been."""

import collections
import functools
import heapq

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.collect import once
from agentrl.collect import partial as partial_lib
from agentrl.curate import select
from agentrl.memory import unfinished as memory_lib
from agentrl.ops import counting
from agentrl.rollout import actor
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout import keys as keys_lib
from agentrl.rollout import record as record_lib
from agentrl.task import fixed
from agentrl.task import partial as task_lib
from agentrl.types import AttemptPlan, CollectInputs, Status
from tests.rollout import jit_test as played

B, G, K, M = 12, 3, 8, 2
PLAN = AttemptPlan(tasks=6, group=G, batch=B, limit=K, seed=0, temperature=1.0)
LAYOUTS = [('turn', 1), ('turn', 3), ('full', 1)]


@functools.cache
def sizes(history, window, turns):
  return jit_rollout.RolloutSizes(
    slots=5, turns=turns, message=M, history=history, window=window
  )


@functools.cache
def policy(version):
  """A policy that acts; another for each version."""
  p = played.acting('frozen_lake')
  noise = jax.random.normal(jax.random.key(version), p['embed'].shape)
  return {**p, 'embed': p['embed'] + 0.02 * version * noise}


def scored(batch):
  reward = batch.turns.terms['env'] + batch.turns.valid
  return batch.replace(turns=batch.turns.replace(reward=reward))


@functools.cache
def program(history, window, collect, turns=K):
  world, plan = played.world('frozen_lake'), sizes(history, window, turns)
  width = jit_rollout.row_tokens(world, plan)

  @jax.jit
  def run(params, attempts, key, version):
    def sample(attempts, key):
      speaker = actor.model(
        played.SHAPE, params, message=M, eot=played.WORDS.eot
      )
      record = jit_rollout.rollout(world, plan, speaker, attempts, key)
      layout = record_lib.per_turn(record)
      if history == 'full':
        layout = record_lib.full_history(record, width)
      return record_lib.batch(record, layout, attempts, version)

    return collect(
      CollectInputs(sample=sample, score=scored, attempts=attempts, key=key)
    )

  return run


def key_of(step):
  return jax.random.fold_in(jax.random.key(7), step)


def iterations(
  run, steps, *, segment, segments=K, queues=1, moves=False, plan=PLAN
):
  """Yields (attempts, batch) of iterations that go on with what is left."""
  state, states = None, []
  for step in range(steps):
    if state is None:
      shape = run(policy(0), fixed.fixed(plan, {}, 0), key_of(0), 0)
      state = memory_lib.empty(shape, queues)
    states.append(state)
    seen = jax.device_get(states[max(0, step - queues + 1)])
    attempts = task_lib.partial(
      plan, {'unfinished': seen}, step, segment=segment, segments=segments
    )
    version = step if moves else 0
    batch = run(policy(version), attempts, key_of(step), version)
    state = memory_lib.write(state, batch, None, step)
    yield attempts, jax.device_get(batch)


def identities(batch):
  return list(zip(batch.ids['key_0'], batch.ids['key_1'], strict=True))


def of_trajectory(batch, i):
  """All of a trajectory but the places that it and its turns have."""
  n = len(batch.rows.tokens) // B
  rows = jax.tree.map(lambda x: x[i * n : (i + 1) * n], batch.rows)
  turns = jax.tree.map(lambda x: x[i], batch.turns)
  rows = rows.replace(traj=rows.traj >= 0, version=None)
  return rows, turns.replace(node=None), batch.status[i], batch.outcome[i]


def assert_same(some, other, atol):
  for one, two in zip(*map(jax.tree.leaves, (some, other)), strict=True):
    np.testing.assert_allclose(one, two, rtol=0, atol=atol)


@pytest.mark.slow
@pytest.mark.parametrize(('history', 'window'), LAYOUTS)
def test_a_trajectory_in_segments_is_the_one_played_at_once(history, window):
  """To the bit where each turn has a context of its own.

  A growing context is read in one pass and not token by token, which differs
  by rounding.
  """
  once_through = program(history, window, once.once)
  begun, lengths = {}, set()
  for step, (attempts, batch) in enumerate(
    iterations(program(history, window, partial_lib.partial), 9, segment=2)
  ):
    whole = jax.device_get(
      once_through(
        policy(0),
        attempts.replace(limit=np.full(B, K), earlier=None),
        key_of(step),
        0,
      )
    )
    for i, name in enumerate(identities(batch)):
      begun.setdefault(name, of_trajectory(whole, i))
      if not batch.ids['waits'][i]:
        atol = 0 if history == 'turn' else 2e-5
        assert_same(of_trajectory(batch, i), begun[name], atol)
        lengths.add(int(batch.turns.valid[i].sum()))
  assert len(lengths) > 3  # in one segment, in several, and at the limit
  assert {min(lengths) <= 2, max(lengths) == K} == {True}


@pytest.mark.slow
@pytest.mark.parametrize(('history', 'window'), LAYOUTS)
def test_each_token_has_the_log_prob_and_version_of_its_policy(history, window):
  run = program(history, window, partial_lib.partial)
  seen, versions = set(), collections.defaultdict(set)
  for step, (_, batch) in enumerate(iterations(run, 6, segment=3, moves=True)):
    rows = batch.rows
    trained = rows.weight > 0
    np.testing.assert_array_equal(
      trained.any(), (batch.ids['waits'] == 0).any()
    )
    for version in set(rows.version[trained].tolist()):
      logp = played.MODULE.apply(policy(version), rows, ('logp',)).logp
      here = trained & (rows.version == version)
      np.testing.assert_allclose(rows.logp[here], logp[here], atol=1e-5)
      seen.add(step - version)
    for i in np.flatnonzero(batch.ids['waits'] == 0):
      mine = trained & (rows.traj == i)
      # Turn k was played in segment k // 3, an iteration each.
      age = (rows.turn[mine] // 3).astype(int)
      first = rows.version[mine].min()
      np.testing.assert_array_equal(rows.version[mine], first + age)
      versions[i] |= set(rows.version[mine].tolist())
  assert seen == {0, 1, 2}


def made_up(attempts, key, params=None):
  """A batch of attempts whose length is a hash of their key."""
  del params
  own = keys_lib.keys(jax.tree.map(jnp.asarray, attempts), key).own
  draw = jax.vmap(lambda k: jax.random.uniform(k, ()))(own)
  length = 1 + jnp.floor((K + 2) * draw**3).astype(jnp.int32)  # K + 2: cut
  limit = jnp.asarray(attempts.limit)
  valid = jnp.arange(K)[None] < jnp.minimum(length, limit)[:, None]
  empty = record_lib.empty(B, K, 1, 1, ())
  status = jnp.where(length <= limit, Status.SOLVED, Status.TURN_LIMIT)
  cut = (length > limit) & (limit < K)
  record = empty.replace(
    context_len=valid.astype(jnp.int32),
    message_len=valid.astype(jnp.int32),
    valid=valid,
    status=jnp.where(cut, Status.SCHEDULE, status).astype(jnp.int32),
    outcome=(length <= limit).astype(jnp.float32),
  )
  return record_lib.batch(record, record_lib.per_turn(record), attempts, 0)


@pytest.mark.slow
@pytest.mark.parametrize('queues', [1, 3])
@pytest.mark.parametrize('segments', [2, K])
def test_each_attempt_trains_once_with_all_of_its_group(segments, queues):
  """50 iterations of random lengths; with queues as if collected ahead."""

  @jax.jit
  def run(params, attempts, key, version):
    del params, version
    return partial_lib.partial(
      CollectInputs(sample=made_up, score=scored, attempts=attempts, key=key)
    )

  begun, trained, tasks, attempted = set(), [], [], 0
  steps = iterations(run, 50, segment=2, segments=segments, queues=queues)
  for attempts, batch in steps:
    mine, counts = identities(batch), counting.trajectories(batch)
    assert len(set(mine)) == B
    fresh = [name for name in mine if name not in begun]
    assert batch.sampled['attempts'] == len(fresh)
    assert len(fresh) % G == 0
    tasks += attempts.task[B - len(fresh) :: G].tolist()
    begun |= set(fresh)
    group = np.asarray(counts).reshape(-1, G)
    np.testing.assert_array_equal(group.any(1), group.all(1))
    np.testing.assert_array_equal(counts, batch.ids['waits'] == 0)
    np.testing.assert_array_equal(
      batch.rows.weight.any(1).reshape(B, K).any(1), counts
    )
    ended = np.isin(batch.status[counts], (Status.SOLVED, Status.TURN_LIMIT))
    most = min(2 * segments, K)
    turns = batch.turns.valid[counts].sum(1)
    assert (ended | (turns == most)).all()
    trained += [name for name, x in zip(mine, counts, strict=True) if x]
    attempted += int(batch.attempted['counts'].sum())
  assert len(trained) == len(set(trained))
  assert 0 <= len(begun) - len(trained) <= queues * B
  assert len(trained) <= attempted <= len(begun)
  # The order of tasks is `fixed`'s: each epoch has all of them.
  if queues == 1:
    want = np.concatenate([fixed.fixed(PLAN, {}, i).task for i in range(50)])
    np.testing.assert_array_equal(tasks, want[::G][: len(tasks)])


def test_segments_as_long_as_trajectories_change_nothing():
  run = program('turn', 1, partial_lib.partial)
  plain = program('turn', 1, once.once)
  for step, (attempts, batch) in enumerate(iterations(run, 3, segment=K)):
    want = fixed.fixed(PLAN, {}, step)
    np.testing.assert_array_equal(attempts.task, want.task)
    np.testing.assert_array_equal(attempts.limit, want.limit)
    other = jax.device_get(plain(policy(0), want, key_of(step), 0))
    assert not batch.ids['waits'].any()
    for i in range(B):
      assert_same(of_trajectory(batch, i), of_trajectory(other, i), 0)
    assert batch.sampled == other.sampled
    np.testing.assert_array_equal(
      batch.attempted['counts'], other.attempted['counts']
    )


def test_members_that_wait_count_in_nothing():
  """Neither they nor the others of a group that is not whole."""
  run = program('turn', 1, partial_lib.partial)
  for _, batch in iterations(run, 2, segment=1):
    waits = batch.ids['waits'] > 0
    group = select.group_ids(batch)
    for g in range(B // G):
      mine = np.asarray(group) == g
      assert waits[mine].all() == batch.ids['unfinished'][mine].any()
    assert not counting.trajectories(batch)[waits].any()
    assert not batch.rows.weight[
      np.isin(batch.rows.traj, np.flatnonzero(waits))
    ].any()
    metrics = partial_lib.measure(batch)
    assert metrics['whole_groups'][0] == (~waits).sum()
    assert metrics['unscored'][0] == 0


def ticks(turns, slots):
  """Turns that pass while slots play them, each the next that waits."""
  ends = [0] * slots
  for n in turns:
    heapq.heapreplace(ends, ends[0] + n)
  return max(ends)


@pytest.mark.nightly
def test_an_iteration_does_not_wait_for_its_longest():
  """Turns that pass for a trained trajectory, on a lake that some cross late.

  Prints them, and what environments repeat for it; counts, not times.
  """
  turns, segment, slots = 32, 4, (5, B)
  plan = PLAN._replace(limit=turns)
  run = program('turn', 1, partial_lib.partial, turns)
  spent, trained = collections.Counter(), collections.Counter()
  repeated, lengths = 0, []
  for most, steps in ((turns, 24), (segment, 96)):
    how = {'segment': most, 'segments': turns, 'plan': plan}
    for attempts, batch in iterations(run, steps, **how):
      new = batch.turns.valid.sum(1) - batch.ids['replayed']
      new = new[attempts.limit > 0]
      for n in slots:
        spent[most, n] += int(ticks(new, n))
      trained[most] += int((batch.ids['waits'] == 0).sum())
      repeated += int(batch.ids['replayed'].sum())
      assert ticks(new, B) <= most
      lengths += new.tolist() if most == turns else []
  each = {at: n / trained[at[0]] for at, n in spent.items()}
  ratio = {n: each[turns, n] / each[segment, n] for n in slots}
  played_turns = np.mean(lengths) * trained[segment]
  print(f'turns of a trajectory {sorted(collections.Counter(lengths).items())}')
  print(f'turns that pass, by most and slots: {each}; ratio {ratio}')
  print(f'environments repeat {repeated / played_turns:.2f} turns for each')
  assert max(lengths) > 4 * np.median(lengths)
  assert ratio[B] > 1.3
