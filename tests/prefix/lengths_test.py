"""Lengths of prefixes: of the demonstration, by group or by member, by step."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import registry
from agentrl.prefix import lengths
from agentrl.runtime import uniform
from agentrl.task import base
from agentrl.types import AttemptPlan
from tests import errors

G = 8
PLAN = AttemptPlan(6, group=G, batch=48, limit=9, seed=3, temperature=0.7)
ATTEMPTS = base.attempts_at(PLAN, np.arange(6))
# Tasks 0 to 5; the first one has no demonstration.
TURNS = np.repeat([0, 1, 2, 5, 7, 9], G)


def random(step=0, plan=PLAN, turns=TURNS, **options):
  return lengths.random_prefix(plan, ATTEMPTS, turns, step, **options)


def reverse(step, plan=PLAN, turns=TURNS, **options):
  return lengths.reverse_prefix(plan, ATTEMPTS, turns, step, **options)


def several(f, count=400):
  return np.stack([f(step) for step in range(count)])


def test_none_gives_no_turn():
  assert not lengths.none(PLAN, ATTEMPTS, TURNS, 5).any()


def test_by_group_every_length_but_the_whole_comes_equally_often():
  found = several(random)
  for task, n in enumerate(TURNS[::G]):
    mine = found[:, G * task]
    assert set(mine) == set(range(max(n, 1)))
    most = np.bincount(mine).max()
    assert most < 400 / max(n, 1) + 5 * math.sqrt(400)


def test_a_share_of_the_groups_has_a_prefix():
  has = several(lambda s: random(s, share=0.25, low=0.99)[-1]) > 0
  assert 60 < has.sum() < 140
  assert not random(share=0.0).any()


def test_by_trajectory_the_last_members_draw_for_themselves():
  found = several(lambda s: random(s, share=1 / 4, unit='trajectory', low=0.2))
  members = found.reshape(-1, 6, G)
  assert not members[..., : G - 2].any()
  assert (members[:, -1, -2:] > 0).all()  # ⌊0.2 · 9⌋ is 1
  assert (members[:, -1, -1] != members[:, -1, -2]).any()
  # A share of a twelfth of 8 is a part of one member, who has a prefix.
  few = random(share=1 / 12, unit='trajectory', low=0.99).reshape(6, G) > 0
  assert few.sum(1).tolist() == [0, 0, 1, 1, 1, 1]


def test_members_begin_at_evenly_spaced_states():
  for states in (1, 3, 4, 8, 20):
    got = lengths.spaced_prefix(PLAN, ATTEMPTS, TURNS, 5, states=states)
    want = [
      math.floor(j % states * n / states) for n in TURNS[::G] for j in range(G)
    ]
    assert got.tolist() == want
    assert (got < np.maximum(TURNS, 1)).all()


def test_the_band_falls_by_a_cosine():
  turns = np.full(48, 10**6)
  options = dict(unit='trajectory', low=0.1, high=0.9, final_high=0.3, steps=10)
  for step in (0, 3, 10, 50):
    got = random(step, turns=turns, **options) / 10**6
    u = uniform.draw(PLAN.seed, step, (2, 48), uniform.UniformStream.LENGTHS)[0]
    top = 0.3 + 0.6 * (1 + math.cos(math.pi * min(step / 10, 1))) / 2
    np.testing.assert_allclose(got, 0.1 + (top - 0.1) * u, atol=2e-6)
  # A band that has closed is its lower end.
  got = random(9, turns=turns, low=0.5, high=0.5, final_high=0.1, steps=3)
  assert (got == 500_000).all()


def test_a_turn_more_is_left_every_so_many_steps():
  for step, left in ((0, 1), (4, 1), (5, 2), (39, 8), (40, 9), (1000, 201)):
    want = [max(n - left, 0) for n in TURNS]
    assert reverse(step, every=5).tolist() == want


def test_mixed_groups_have_any_of_the_earlier_lengths():
  every = several(
    lambda seed: reverse(22, PLAN._replace(seed=seed), every=5, mixed=1.0), 200
  )
  groups = every.reshape(-1, 6, G)
  assert set(groups[:, -1, 0]) == {4, 5, 6, 7, 8}  # 9 less 1 to 5
  assert set(groups[:, 2, 0]) == {0, 1}
  some = several(lambda s: reverse(20 + s, every=1, mixed=0.5), 200)
  assert 0.3 < (some.reshape(-1, 6, G)[:, -1, 0] > 0).mean() < 0.7


@settings(max_examples=60)
@given(
  st.integers(0, 99),
  st.integers(0, 40),
  st.integers(1, 9),
  st.floats(0, 1),
  st.floats(0, 1),
)
def test_members_of_a_group_begin_with_one_prefix(
  seed, step, every, share, low
):
  """Else their returns are compared from different states."""
  plan = PLAN._replace(seed=seed)
  for lengths_of in (
    reverse(step, plan, every=every, mixed=share),
    random(step, plan, share=share, low=low),
  ):
    groups = lengths_of.reshape(-1, G)
    assert (groups == groups[:, :1]).all()
    assert ((groups >= 0) & (groups <= TURNS[::G, None])).all()


def test_groups_of_one_step_draw_for_themselves():
  turns = np.full(48, 1000)
  alike = (
    several(lambda s: random(s, turns=turns), 20),
    several(lambda s: reverse(999, turns=turns, every=1, mixed=1.0), 1),
  )
  for found in alike:
    firsts = found.reshape(-1, 6, G)[..., 0]
    assert all(len(set(x)) > 3 for x in firsts.tolist())


def test_the_policy_has_a_turn_left():
  got = lengths.clipped(
    np.array([0, 3, 3, 3, 9, -1]),
    np.array([0, 0, 3, 9, 9, 9]),
    np.array([9, 9, 9, 3, 0, 9]),
  )
  assert got.tolist() == [0, 0, 2, 2, 0, 0]
  assert got.dtype == np.int32


def test_what_is_drawn_depends_on_seed_and_step_alone():
  a, b = random(7), random(7)
  np.testing.assert_array_equal(a, b)
  assert (a != random(8)).any()
  assert (a != random(7, PLAN._replace(seed=4))).any()


@pytest.mark.parametrize(
  ('values', 'field'),
  [
    ({'low': 0.8, 'high': 0.5}, 'low'),
    ({'high': 1.5}, 'high'),
    ({'unit': 'turn'}, 'unit'),
    ({'share': -0.1}, 'share'),
  ],
)
def test_what_is_outside_of_its_domain_is_refused(values, field):
  piece = registry.get('prefix', 'random_prefix')
  with errors.raises(ValueError, field):
    registry.check_values('prefix', piece, values)
