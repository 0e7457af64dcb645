"""The rate law: what is measured, when it is said, and what to set instead."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.log import drift
from agentrl.log.drift import Drift, Limits, TooFast

LIMITS = Limits(bound=4, term='ppo', radius=math.log(1.2), rate=1e-3)
POSITIVE = st.floats(1e-3, 1e3)


def said(rows, limits=LIMITS):
  lines = []
  watch = TooFast(limits, lines.append)
  for kl, age in rows:
    watch.see({'ppo/approx_kl': kl, 'rollout/age': age, 'loss/total': 1.0})
  return lines


def test_the_kl_measures_the_drift():
  """Against log-ratios that are drawn: 2 KL is their mean square."""
  r = np.random.default_rng(0)
  log_pi = np.log(r.dirichlet(np.ones(5), size=2000))
  moved = log_pi + 0.05 * r.normal(size=log_pi.shape)
  moved -= np.log(np.exp(moved).sum(1, keepdims=True))
  d, p = moved - log_pi, np.exp(log_pi)
  kl = np.mean(np.sum(p * (np.exp(d) - 1 - d), 1))  # as a loss reports it
  got = drift.farthest(np.full((1, 2, 1), [[kl], [4.0]]))
  assert got.moved == pytest.approx(
    np.sqrt(np.mean(np.sum(p * d * d, 1))), 0.01
  )
  assert got.of_update == got.moved / 4


@pytest.mark.parametrize(
  ('low', 'high', 'nats'),
  [
    (0.2, 0.2, math.log(1.2)),
    (0.2, 0.3, -math.log(0.8)),
    (10.0, 0.2, math.log(1.2)),
    (1.0, math.inf, math.inf),
    (math.inf, math.inf, math.inf),
  ],
)
def test_the_clip_range_is_its_nearer_end(low, high, nats):
  assert drift.clip_range(low, high) == pytest.approx(nats)


@given(moved=POSITIVE, age=POSITIVE, radius=POSITIVE, rate=POSITIVE)
def test_what_it_advises_meets_the_law(moved, age, radius, rate):
  """As D = rate · age · G: the rate exactly, the bound as the largest."""
  now = Drift(moved, age)
  limits = Limits(bound=4, term='ppo', radius=radius, rate=rate)
  slow, bound = drift.slower(limits, now)
  g = moved / (rate * age)
  assert slow * age * g == pytest.approx(radius)
  assert rate * bound * g <= radius * (1 + 1e-9)
  assert rate * (bound + 1) * g >= radius * (1 - 1e-9)


def test_it_is_said_once_and_with_numbers():
  (line,) = said([(0.08, 4.0)] * 5 * drift.STEPS)
  for number in ('=4 ', '0.1 ', '0.4 ', '0.18', '0.001', '0.00046', 'to 1'):
    assert number in line, number
  for field in ('staleness.bound', 'role.policy.lr'):
    assert field in line


def test_a_bound_is_advised_only_where_it_is_lower():
  """Attempts that go on are older than the bound, and stay so."""
  (line,) = said([(0.03, 12.0)] * drift.STEPS)
  assert 'role.policy.lr' in line
  assert 'staleness.bound to' not in line


def test_a_few_far_steps_are_not_enough():
  far, near = (0.1, 4.0), (0.001, 4.0)
  assert not said([far] * (drift.STEPS - 1))
  assert not said([near] * 40 + [far] + [near] * 40)
  assert said([near] * 40 + [far] * drift.STEPS)


def test_the_threshold_is_the_clip_range():
  edge = LIMITS.radius**2 / 2
  assert not said([(0.99 * edge, 4.0)] * 40)
  assert said([(1.01 * edge, 4.0)] * 40)
  wide = LIMITS._replace(radius=math.inf)
  assert not said([(9.0, 4.0)] * 40, wide)


@pytest.mark.parametrize(
  'row', [(0.1, math.nan), (math.nan, 4.0), (0.1, 0.0), (0.1, None)]
)
def test_nothing_is_said_of_batches_without_an_age(row):
  assert not said([row] * 40)


def test_steps_that_measure_something_else_are_left_out():
  lines = []
  watch = TooFast(LIMITS, lines.append)
  for _ in range(40):
    watch.see({'ppo/approx_kl': 0.1})
    watch.see({'rollout/age': 4.0, 'gspo/approx_kl': 0.1})
  assert not lines


def test_the_seed_that_moves_most_speaks():
  near, far = np.array([0.001, 0.001]), np.array([0.001, 0.08])
  age = np.array([4.0, 4.0])
  assert not said([(near, age)] * 40)
  (line,) = said([(far, age)] * 40)
  assert '0.4 ' in line
  broken = [0.08, None]
  assert said([(broken, [4.0, None])] * 40)
