"""The latency bandit: against an event queue in float64, and its laws."""

import functools
import heapq

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.lab.papers.latency_bandit import bandit as lib
from agentrl.lab.papers.latency_bandit import study

SMALL = lib.Bandit(
  reward=(0.2, 0.6, 1.0),
  seconds=(1.0, 2.0, 7.0),
  noise=0.3,
  spread=0.5,
  workers=6,
  batch=4,
)
UPDATES, RATE = 15, 2.0


def _learner(method: str):
  """The study's, with one step for each batch."""
  spec = study.method(method)
  whole = {'minibatches': {'epochs': 1, 'n': 1}}
  spec = spec._replace(hp={**spec.hp, 'minibatch': whole})
  return lib.learner(SMALL, spec, RATE)


class Learner:
  """A softmax over arms in float64, stepped by PPO's clipped loss."""

  def __init__(self, arms: int, method: str):
    self.logits, self.version = np.zeros(arms), 0
    self.centred, self.weighted = 'centred' in method, 'weighted' in method

  def logp(self) -> np.ndarray:
    return self.logits - np.log(np.sum(np.exp(self.logits)))

  def draw(self, bandit, luck, i) -> dict:
    arm = int(np.argmax(self.logits + luck.arm[i]))
    seconds = bandit.seconds[arm] * np.exp(bandit.spread * luck.seconds[i])
    reward = bandit.reward[arm] + bandit.noise * luck.reward[i]
    logp = self.logp()[arm]
    return dict(arm=arm, seconds=seconds, reward=reward, logp=logp)

  def learn(self, draws: list[dict]) -> None:
    self.version += 1
    if not draws:
      return
    a = np.array([x['reward'] for x in draws])
    if self.centred:
      a = a - a.mean()
      a = a / (a.std(ddof=1) + 1e-6) if len(a) > 1 else 0 * a
    if self.weighted:
      d = np.array([x['seconds'] for x in draws])
      c = np.minimum(d / d.mean(), 10)
      a = a * c / c.mean()
    p, gradient = np.exp(self.logp()), np.zeros_like(self.logits)
    for x, credit in zip(draws, a, strict=True):
      ratio = p[x['arm']] / np.exp(x['logp'])
      if (ratio > 1.2 and credit > 0) or (ratio < 0.8 and credit < 0):
        continue
      gradient += credit * ratio * (np.eye(len(p))[x['arm']] - p)
    self.logits = self.logits + RATE * gradient / len(draws)


def as_finished(bandit, method, luck):
  """A queue of events; yields the policy and the clock of each update."""
  learner, count = Learner(bandit.arms, method), bandit.workers
  queue = []
  for i in range(count):
    x = learner.draw(bandit, luck, i)
    heapq.heappush(queue, (x['seconds'], i, x))
  for _ in range(UPDATES):
    before, done = np.exp(learner.logp()), []
    for _ in range(bandit.batch):
      now, _, x = heapq.heappop(queue)
      done.append(x)
      x = learner.draw(bandit, luck, count)
      heapq.heappush(queue, (now + x['seconds'], count, x))
      count += 1
    learner.learn(done)
    yield before, now


def in_order(bandit, method, luck, staleness, deadline):
  """Batches one after the other, each begun once version n − S is there."""
  learner, free = Learner(bandit.arms, method), [0.0] * bandit.workers
  past, ends = [learner.logits], [0.0]  # of every version
  for n in range(UPDATES):
    before, version = np.exp(learner.logp()), max(0, n - staleness)
    old = Learner(bandit.arms, method)
    old.logits = past[version]
    start = n * bandit.batch
    draws = [
      old.draw(bandit, luck, i) for i in range(start, start + bandit.batch)
    ]
    last = ends[-1]
    for x in draws:
      begin = max(heapq.heappop(free), ends[version])
      end = begin + min(x['seconds'], deadline)
      heapq.heappush(free, end)
      last = max(last, end)
    learner.learn([x for x in draws if x['seconds'] <= deadline])
    past.append(learner.logits)
    ends.append(last)
    yield before, last


def _same(course, want):
  probability, time = zip(*want, strict=True)
  np.testing.assert_allclose(course.probability, probability, rtol=5e-4)
  np.testing.assert_allclose(course.time, time, rtol=1e-5)
  assert np.ptp(course.probability[:, -1]) > 0.1  # it learned


@pytest.mark.parametrize('method', study.METHODS)
def test_as_finished_is_the_queue_of_events(method):
  luck = lib.luck(SMALL, UPDATES, jax.random.key(3))
  learner = _learner(method)
  run = jax.jit(functools.partial(lib.as_finished, SMALL, learner, UPDATES))
  _same(run(luck), as_finished(SMALL, method, jax.tree.map(np.asarray, luck)))


@pytest.mark.parametrize(
  ('method', 'staleness', 'deadline'),
  [('raw weighted', 2, np.inf), ('centred', 0, 4.0)],
)
def test_in_order_takes_whole_batches_in_their_turn(
  method, staleness, deadline
):
  luck = lib.luck(SMALL, UPDATES, jax.random.key(4))
  learner = _learner(method)
  run = functools.partial(lib.in_order, SMALL, learner, UPDATES)
  run = functools.partial(run, staleness=staleness, deadline=deadline)
  want = in_order(
    SMALL, method, jax.tree.map(np.asarray, luck), staleness, deadline
  )
  _same(jax.jit(run)(luck), want)


def test_what_is_delivered_has_the_shares_of_the_policy():
  """Renewal: in the long run not of π / seconds, whatever takes how long."""
  bandit = SMALL._replace(workers=8, batch=64)
  learner = lib.learner(bandit, study.method('raw'), 0.0)
  luck = lib.luck(bandit, 200, jax.random.key(0))
  course = jax.jit(functools.partial(lib.as_finished, bandit, learner, 200))(
    luck
  )
  n, half = 64 * 200, np.exp(bandit.spread**2 / 2)  # mean of a log-normal
  error = np.sqrt(1 / 3 * 2 / 3 / n)
  np.testing.assert_allclose(course.share.mean(0), 1 / 3, atol=4 * error)
  mean = half * np.mean(bandit.seconds)
  assert n / course.time[-1] == pytest.approx(8 / mean, rel=0.05)
  first = course.share[0]
  assert first[0] > 1 / 3 > first[2]  # before that, of what is fast


def test_equal_seconds_deliver_in_the_order_of_draws():
  bandit = SMALL._replace(
    seconds=(2.0, 2.0, 2.0), spread=0.0, workers=4, batch=4
  )
  learner = lib.learner(bandit, study.method('centred'), RATE)
  luck = lib.luck(bandit, UPDATES, jax.random.key(1))
  a = lib.as_finished(bandit, learner, UPDATES, luck)
  b = lib.in_order(bandit, learner, UPDATES, luck, staleness=1)
  np.testing.assert_allclose(a.probability, b.probability, rtol=1e-5)


def test_timing_does_not_change_what_is_learned_in_order():
  learner = lib.learner(SMALL, study.method('centred'), RATE)
  luck = lib.luck(SMALL, UPDATES, jax.random.key(2))
  other = SMALL._replace(seconds=(9.0, 1.0, 0.1), workers=2)
  a, b = (
    lib.in_order(x, learner, UPDATES, luck, staleness=3) for x in (SMALL, other)
  )
  np.testing.assert_array_equal(a.probability, b.probability)
  assert not np.allclose(a.time, b.time)


def test_a_draw_that_was_given_up_is_not_learned_from():
  x = lib.draws(
    SMALL, jnp.zeros(3), jnp.int32(0), lib.luck(SMALL, 1, jax.random.key(5))
  )
  learner = lib.learner(
    SMALL._replace(batch=x.arm.size), study.method('raw weighted'), RATE
  )
  seen = jnp.arange(x.arm.size) % 2 == 0
  other = x._replace(
    reward=jnp.where(seen, x.reward, 99), seconds=jnp.where(seen, x.seconds, 99)
  )
  a, b = (
    lib._learn(learner, SMALL, _start(learner), y, seen) for y in (x, other)
  )
  np.testing.assert_array_equal(lib.logits_of(a[0]), lib.logits_of(b[0]))


def _start(learner):
  return lib.update.init(learner, jax.random.key(0))
