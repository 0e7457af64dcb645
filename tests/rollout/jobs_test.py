"""Orders on a board, and samplers that come, fail and die."""

import contextlib
import itertools
import pickle
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.rollout import jobs, tickets
from agentrl.runtime import threads
from agentrl.runtime.line import dial
from agentrl.runtime.preemption import Stopped
from tests import errors
from tests.rollout import tickets_test as toy


class Killed(BaseException):
  """The end of a sampler; no error that it could tell anyone."""


def order(step, version=0):
  return jobs.Order('rl', step, version, np.full(2, step))


def doubled(order):
  return order.attempts * 2, {'step': order.step}


def sampler(board, collect=doubled, *, greeting='run', die=lambda: False):
  """A sampler in a thread; `die`: whether to hang up before an answer."""

  def live():
    def once(order):
      made = collect(order)
      if die():
        raise Killed
      return made

    with dial(board.address, board.key) as line:
      jobs.greet(line, greeting)
      jobs.work(line, once, lambda: None, threading.Event())

  return threads.start(live)


@pytest.fixture
def board():
  with jobs.Board('127.0.0.1', 'run') as opened:
    yield opened


def test_orders_are_collected_by_who_is_there(board):
  futures = [board.offer(order(n)) for n in range(20)]
  homes = [sampler(board) for _ in range(3)]
  for n, future in enumerate(futures):
    made = future.result(timeout=30)
    np.testing.assert_array_equal(made.batch, [2 * n, 2 * n])
    assert made.metrics == {'step': n}
    assert made.seconds >= 0
  assert board.connected == 3
  board.end()
  board.close()
  for home in homes:
    assert home.result(timeout=30) is None  # sent home, with no error
  assert board.connected == 0


def test_samplers_of_a_run_that_was_cut_are_to_wait(board):
  home = sampler(board)
  board.offer(order(0)).result(timeout=30)
  board.close()
  with pytest.raises((EOFError, OSError)):
    home.result(timeout=30)


def test_a_lost_samplers_order_goes_to_another(board):
  seen, dead = [], itertools.count()

  def collect(order):
    seen.append(order.step)
    return doubled(order)

  future = board.offer(order(5))
  first = sampler(board, collect, die=lambda: next(dead) == 0)
  with pytest.raises(Killed):
    first.result(timeout=30)
  assert not future.done()
  sampler(board, collect)
  np.testing.assert_array_equal(future.result(timeout=30).batch, [10, 10])
  assert seen == [5, 5]
  assert board.taken() == {'lost': 1, 'damaged': 0}
  assert board.taken() == {'lost': 0, 'damaged': 0}


@pytest.mark.parametrize('says', [b'', b'nonsense', pickle.dumps(('batch',))])
def test_a_sampler_that_answers_rubbish_is_lost(board, says):
  future = board.offer(order(1))
  with dial(board.address, board.key) as line:
    jobs.greet(line, 'run')
    assert pickle.loads(line.receive())[0] == 'order'
    line.send(says)
    with pytest.raises((EOFError, OSError)):
      line.receive()
  sampler(board)
  np.testing.assert_array_equal(future.result(timeout=30).batch, [2, 2])


def test_a_silent_sampler_is_lost():
  with jobs.Board('127.0.0.1', 'run', silence=0.2) as board:
    future = board.offer(order(1))
    with dial(board.address, board.key) as line:
      jobs.greet(line, 'run')
      line.receive()
      sampler(board)
      np.testing.assert_array_equal(future.result(timeout=30).batch, [2, 2])


def test_a_sampler_that_fails_is_asked_again_then_its_error_is_raised(board):
  tries = []

  def fail(order):
    tries.append(order.step)
    raise ValueError('no room')

  future = board.offer(order(3))
  home = sampler(board, fail)
  with errors.raises(ValueError, 'room'):
    future.result(timeout=30)
  assert tries == [3] * jobs.TRIES
  assert not home.done()  # it goes on with other orders


def test_a_sampler_that_fails_leaves_its_orders_to_others(board):
  """However long they take: it does not use up the tries."""
  tries = []

  def fail(order):
    tries.append(order.step)
    raise ValueError('no room')

  def slow(order):
    time.sleep(0.1)
    return doubled(order)

  for collect in (fail, slow, fail):
    sampler(board, collect)
  while board.connected < 3:
    time.sleep(0.01)
  for n in range(6):
    made = board.offer(order(n)).result(timeout=30)
    np.testing.assert_array_equal(made.batch, [2 * n, 2 * n])
  assert max(tries.count(n) for n in range(6)) <= 2


def test_damaged_weights_are_mended():
  whole = []

  def collect(order):
    if order.step not in whole:
      raise jobs.DamagedWeights('torn')
    return doubled(order)

  def mend(order):
    whole.append(order.step)

  with jobs.Board('127.0.0.1', 'run', mend=mend) as board:
    sampler(board, collect)
    board.offer(order(3)).result(timeout=30)
    assert whole == [3]
    assert board.taken()['damaged'] == 1


def test_a_sampler_of_another_run_is_refused(board):
  with errors.raises(ValueError, 'other run'):
    sampler(board, greeting='other').result(timeout=30)


def test_an_order_that_was_taken_down_is_given_to_no_one(board):
  board.offer(order(0)).cancel()
  later, seen = board.offer(order(1)), []
  sampler(board, lambda x: seen.append(x.step) or doubled(x))
  later.result(timeout=30)
  assert seen == [1]


def test_what_is_needed_no_more_is_halted(monkeypatch):
  """Its sampler, which is asked for a sign of life, takes the next order."""
  monkeypatch.setattr(jobs, 'BEAT', 0.05)
  began, ended = threading.Event(), threading.Event()
  with jobs.Board('127.0.0.1', 'run') as board:
    halted = threading.Event()

    def collect(order):
      began.set()
      assert halted.wait(30)
      ended.set()
      raise Stopped('halted')

    def live():
      with dial(board.address, board.key) as line:
        jobs.greet(line, 'run')
        jobs.work(line, collect, lambda: None, halted)

    home, future = threads.start(live), board.offer(order(0))
    assert began.wait(30)
    future.cancel()
    with pytest.raises((EOFError, OSError)):
      home.result(timeout=30)
    assert ended.is_set()


class Crew:
  """Samplers of which each dies after some orders, and is replaced."""

  def __init__(self, board, size, collect, rng):
    self._board, self._collect, self._rng = board, collect, rng
    self._lock, self.deaths, self._open = threading.Lock(), 0, True
    for _ in range(size):
      self._join()

  def _join(self):
    home = sampler(self._board, self._collect, die=self._dies)
    home.add_done_callback(self._left)

  def _dies(self):
    with self._lock:
      return self._rng.random() < 0.1

  def _left(self, home):
    if isinstance(home.exception(), Killed):
      self.deaths += 1
      with contextlib.suppress(OSError):  # the board is closed
        self._join()


@pytest.mark.slow
@pytest.mark.parametrize('sigma', [0.5, 1.0, 1.5])
@pytest.mark.parametrize(('staleness', 'kind'), [(1, 'fixed'), (3, 'latest')])
def test_batches_of_a_crew_that_dies(sigma, staleness, kind):
  """400 batches: none is lost, doubled, or older than the bound."""
  rng = np.random.default_rng(7)
  seconds = 0.002 * rng.lognormal(-(sigma**2) / 2, sigma, 400)
  with jobs.Board('127.0.0.1', 'run') as board:

    def collect(x):
      time.sleep(seconds[x.step])
      return (x.step, x.version, seconds[x.step]), {}

    def hand_over(state, attempts, n):
      made = board.offer(jobs.Order('rl', n, int(state.step), attempts))
      return made.result(timeout=60).batch, {}

    crew = Crew(board, 3, collect, rng)
    book = tickets.Book(staleness, kind, first=0, end=400)
    state = toy.fresh(0)
    made = tickets.Tickets(
      book, lambda state, n: n, [hand_over] * (staleness + 1), reads=toy.READS
    )
    trained = []
    with contextlib.closing(made):
      for n in range(400):
        (step, version, spent), _ = made.collect(state, None, n)
        assert step == n
        assert max(0, n - staleness) <= version <= n
        trained.append(spent)
        state = state.replace(step=jnp.int32(n + 1))
  assert np.isclose(sum(trained) / sum(seconds), 1)
  assert crew.deaths > 10


def test_a_crew_that_dies_gives_the_bits_of_the_loop_without():
  whole, rng = toy.synchronous(toy.fresh(2), 30), np.random.default_rng(3)
  play = toy.collector()
  one = threading.Lock()

  with jobs.Board('127.0.0.1', 'run') as board:

    def collect(x):
      state, attempts = jax.device_put(x.attempts)
      key = jax.random.wrap_key_data(state.key)
      with one:
        return play(state.replace(key=key), float(attempts), x.step)

    def hand_over(state, attempts, n):
      state = state.replace(key=jax.random.key_data(state.key))
      held = jobs.host_arrays((state, attempts))
      made = board.offer(jobs.Order('rl', n, int(state.step), held))
      return made.result(timeout=60)[:2]

    Crew(board, 3, collect, rng)
    ahead = toy.ahead(toy.fresh(2), 30, s=2, collectors=[hand_over] * 3)
  toy.assert_same(ahead, whole)
