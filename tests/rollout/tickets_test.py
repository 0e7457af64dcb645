"""Batches that are collected beside the updates, whatever takes how long."""

import contextlib
import functools
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.rollout import stale, tickets
from agentrl.rollout.stale import Reads
from agentrl.runtime import threads
from tests import errors, states

READS = Reads(roles=('policy',), still=('base',))
TIMINGS = {
  'at once': lambda n: 0.0,
  'even': lambda n: 0.002,
  'later ones are faster': lambda n: 0.02 / (n + 1),
  'one is slow': lambda n: 0.03 if n == 4 else 0.0,
}


def fresh(s: int, order: str = 'fixed'):
  params = {'policy': jnp.arange(3.0), 'base': jnp.ones(3)}
  state = states.state(params=params, opt={'policy': jnp.zeros(3)})
  return stale.begin(state, READS, s if order == 'fixed' else 0)


def task(state, n):
  return n + float(state.params['policy'][0])


def collector(pace=lambda n: 0.0, log=None):
  """What plays attempts: a number of the policy, the task and the key."""
  busy = threading.Lock()

  def collect(state, attempts, n):
    assert busy.acquire(blocking=False), 'asked by two threads'
    began = time.monotonic()
    time.sleep(pace(n))
    noise = jax.random.normal(jax.random.fold_in(state.key, n), (3,))
    of = state.params['policy'] * state.params['base'] + attempts + noise
    if log is not None:
      log.append((n, int(state.step), time.monotonic() - began))
    busy.release()
    return (n, int(state.step), np.asarray(of)), {}

  return collect


@functools.partial(jax.jit, donate_argnums=0)
def learned(state, of):
  policy = 0.9 * state.params['policy'] + jnp.sin(of)
  return state.replace(
    step=state.step + 1,
    params={**state.params, 'policy': policy},
    past=stale.advance(state),
  )


def synchronous(state, end, first=0):
  """The loop without threads: -> batches, last state."""
  collect, batches = collector(), []
  for n in range(first, end):
    old = stale.oldest(state)
    batch, _ = collect(old, task(old, n), n)
    batches.append(batch)
    state = learned(state, batch[2])
  return batches, state


def ahead(
  state, end, *, s, order='fixed', collectors, first=0, upto=None, **how
):
  """The same with tickets; ends after step `upto`."""
  batches = []
  book = tickets.Book(s, order, first=0, end=end)
  made = tickets.Tickets(book, task, collectors, reads=READS, **how)
  with contextlib.closing(made):
    for n in range(first, upto or end):
      batch, metrics = made.collect(state, made.task(state, n), n)
      assert metrics['time/wait_seconds'][0] >= 0
      batches.append(batch)
      state = learned(state, batch[2])
  return batches, state


def assert_same(one, other):
  assert [x[:2] for x in one[0]] == [x[:2] for x in other[0]]
  for a, b in zip(one[0], other[0], strict=True):
    np.testing.assert_array_equal(a[2], b[2])
  for a, b in zip(
    *(jax.tree.leaves(x[1].params) for x in (one, other)), strict=True
  ):
    np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize('timing', TIMINGS)
@pytest.mark.parametrize('workers', [1, 3, 6])
@pytest.mark.parametrize('s', [0, 1, 3])
def test_fixed_order_has_the_same_bits_for_any_timing(s, workers, timing):
  whole = synchronous(fresh(s), 12)
  pace = TIMINGS[timing]
  of = [collector(pace) for _ in range(workers)]
  assert_same(ahead(fresh(s), 12, s=s, collectors=of), whole)
  assert [x[1] for x in whole[0]] == [max(0, n - s) for n in range(12)]


@pytest.mark.parametrize('s', [1, 3])
def test_a_run_that_was_cut_goes_on_with_the_same_bits(s):
  whole, slow = synchronous(fresh(s), 12), TIMINGS['one is slow']
  for cut in range(1, 11):
    of = [collector(slow) for _ in range(2)]
    begun = ahead(fresh(s), 12, s=s, collectors=of, upto=cut)
    of = [collector() for _ in range(3)]
    rest = ahead(begun[1], 12, s=s, collectors=of, first=cut)
    assert_same((begun[0] + rest[0], rest[1]), whole)


@pytest.mark.parametrize('order', ['fixed', 'latest'])
@pytest.mark.parametrize('sigma', [0.5, 1.5])
def test_no_batch_is_too_old_and_none_is_lost(order, sigma):
  r, s, end = np.random.default_rng(3), 3, 200
  durations = np.exp(sigma * r.normal(size=end)) * 1e-3
  log = []
  of = [collector(lambda n: durations[n], log) for _ in range(3)]
  batches, _ = ahead(fresh(s, order), end, s=s, order=order, collectors=of)
  assert [x[0] for x in batches] == list(range(end))
  assert sorted(n for n, *_ in log) == list(range(end))  # each played once
  ages = [n - version for n, version, _ in batches]
  assert 0 <= min(ages) <= max(ages) <= s
  # What is trained on takes as long as what is sampled: nothing was chosen.
  assert sum(x for *_, x in log) >= sum(durations[n] for n, *_ in batches)


def test_the_latest_version_samples_what_begins_late():
  batches, _ = ahead(
    fresh(3, 'latest'), 12, s=3, order='latest', collectors=[collector()]
  )
  ages = [n - version for n, version, _ in batches]
  assert max(ages) <= 3
  of = [collector() for _ in range(4)]
  at_once, _ = ahead(fresh(3), 12, s=3, collectors=of)
  assert sum(n - version for n, version, _ in at_once) >= sum(ages)


@pytest.mark.parametrize('s', [1, 3])
def test_who_follows_never_goes_back_nor_ahead_of_its_batch(s):
  """Tokens are by the versions that there are meanwhile: younger, not older."""
  rng, seen = np.random.default_rng(5), {}

  def collect(state, attempts, n, newest):
    seen[n] = [int(state.step)]
    for pause in rng.exponential(0.002, 4):
      time.sleep(pause)
      if (now := newest()) is not None:
        np.testing.assert_array_equal(now.params['base'], np.ones(3))
        seen[n].append(int(now.step))
    return (n, seen[n][-1], np.full(3, 0.1 * n)), {}

  ahead(
    fresh(s, 'latest'),
    60,
    s=s,
    order='latest',
    collectors=[collect] * (s + 1),
    follow=True,
  )
  assert sorted(seen) == list(range(60))
  for n, versions in seen.items():
    assert versions == sorted(versions)
    assert n - s <= versions[0] <= versions[-1] <= n
  assert any(x[0] < x[-1] for x in seen.values())


def test_a_state_that_is_not_computed_yet_is_not_waited_for():
  class Pending:
    ready = False

    def is_ready(self):
      return self.ready

  def publish(tree):
    return jax.tree.map(lambda x: Pending(), tree)

  asked = []

  def collect(state, attempts, n, newest):
    asked.append(newest())
    Pending.ready = True
    asked.append(newest())
    return (n, 0, np.zeros(3)), {}

  book = tickets.Book(1, 'latest', first=0, end=1)
  made = tickets.Tickets(
    book,
    lambda state, n: None,
    [collect],
    reads=READS,
    publish=publish,
    follow=True,
  )
  with contextlib.closing(made):
    made.collect(fresh(1, 'latest'), None, 0)
  assert asked[0] is None
  assert isinstance(asked[1].step, Pending)


def test_several_batches_are_collected_at_a_time():
  both = threading.Barrier(2, timeout=10)

  def collect(state, attempts, n):
    if n in (1, 2):
      both.wait()  # breaks where one waits for the end of the other
    return (n, int(state.step), np.zeros(3)), {}

  ahead(fresh(2), 4, s=2, collectors=[collect] * 2)


def test_what_a_collector_raises_is_raised_where_its_batch_is_needed():
  def collect(state, attempts, n):
    if n == 2:
      raise ValueError('the world is broken')
    return collector()(state, attempts, n)

  with pytest.raises(ValueError, match='the world is broken'):
    ahead(fresh(1), 6, s=1, collectors=[collect])


def test_closing_waits_for_what_is_being_collected_and_begins_nothing():
  begun, ended = [], []

  def collect(state, attempts, n):
    begun.append(n)
    time.sleep(0.05 * (n > 0))
    ended.append(n)
    return (n, 0, np.zeros(3)), {}

  ahead(fresh(3), 6, s=3, collectors=[collect], upto=1)
  assert begun == ended
  assert len(begun) <= 2


def test_a_stall_is_said(caplog):
  go_on = threading.Event()

  def collect(state, attempts, n):
    if n == 1:
      go_on.wait(10)
    return (n, int(state.step), np.zeros(3)), {}

  book = tickets.Book(1, 'fixed', first=0, end=4)
  made = tickets.Tickets(book, task, [collect], reads=READS, patience=0.05)
  state = fresh(1)
  with contextlib.closing(made):
    batch, _ = made.collect(state, None, 0)
    state = learned(state, batch[2])
    threading.Timer(0.2, go_on.set).start()
    made.collect(state, None, 1)
  errors.check(caplog.text, 'step 1 batch 1 version 0 2')


def test_closing_ends_what_is_played():
  halted = threading.Event()

  def collect(state, attempts, n):
    if n and not halted.wait(10):
      raise AssertionError('nothing ended it')
    return (n, 0, np.zeros(3)), {}

  book = tickets.Book(1, 'fixed', first=0, end=4)
  made = tickets.Tickets(book, task, [collect], reads=READS, halt=halted.set)
  with contextlib.closing(made):
    made.collect(fresh(1), None, 0)
  assert halted.is_set()


@pytest.mark.parametrize('call', [1, 2, 3])
def test_a_thread_that_does_not_start_is_an_error_of_its_step(
  call, monkeypatch
):
  start, count = threads.start, [0]

  def refuses(run):
    count[0] += 1
    if count[0] == call:
      raise RuntimeError('no room for a thread')
    return start(run)

  monkeypatch.setattr(threads, 'start', refuses)
  with pytest.raises(RuntimeError, match='no room'):
    ahead(fresh(1), 6, s=1, collectors=[collector()])
