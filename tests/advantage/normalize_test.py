"""Cells, units, constant and singleton cells, and what must not enter."""

import numpy as np
import pytest

from agentrl.ops import group
from tests import errors
from tests.advantage import one_token_turns, unscored

pytestmark = pytest.mark.usefixtures('float64')


NORMALISERS = ('center', 'scale', 'leave_one_out', 'whiten')


@pytest.mark.parametrize(
  'names',
  [('center', 'scale'), ('leave_one_out',), ('whiten',), ('whiten_tokens',)],
)
def test_equal_rewards_give_exactly_zero(names):
  """Twelve times 0.7 in float32 do not have the mean 0.7 when summed."""
  batch = one_token_turns.make_batch([[0.7]] * 12, dtype=np.float32)
  total = sum(batch.turns.reward[:, 0], np.float32(0))
  assert total / np.float32(12) != np.float32(0.7)
  x, _, _ = one_token_turns.run_stream(batch, 'turn_reward', *names)
  assert x.dtype == np.float32
  np.testing.assert_array_equal(x, 0)


def test_min_max_and_rank_of_trajectories_in_plain_loops():
  """Of three groups, a constant one and a member that is alone."""
  r = np.random.default_rng(0)
  b, k = 24, 4
  group = r.integers(0, 3, b)
  group[:5] = 3, 3, 3, 3, 4
  valid = np.arange(k)[None] < r.integers(0, k + 1, (b, 1))  # some have none
  reward = r.integers(-2, 3, (b, k)) * np.where(valid, 1.0, 50.0)
  valid[:5], reward[:4], reward[4] = True, 0.7, 5.0
  failed = r.random(b) < 0.2  # of the judge, on the first turn
  failed[1:9] = [False] * 4 + [True] * 4
  scored = valid & ~(failed[:, None] & (np.arange(k) == 0))
  batch = one_token_turns.make_batch(reward, group=list(group), valid=valid)
  batch = batch.replace(turns=batch.turns.replace(scored=scored))
  counts = valid.any(1) & ~(failed & valid[:, 0])
  total = np.where(valid, reward, 0).sum(1)
  shares, places = np.zeros(b), np.zeros(b)
  for i in np.flatnonzero(counts):
    mine = total[counts & (group == group[i])]
    if mine.max() > mine.min():
      shares[i] = (total[i] - mine.min()) / (mine.max() - mine.min())
    below, above = (mine < total[i]).sum(), (mine > total[i]).sum()
    places[i] = (below - above) / max(len(mine) - 1, 1)
  assert len(set(shares)) > 3
  assert not counts.all()
  for name, want in (('min_max', shares), ('rank', places)):
    got = one_token_turns.turn_credit(batch, 'episode_sum', name)
    want = np.where(valid & counts[:, None], want[:, None], 0)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_singletons():
  batch = one_token_turns.make_batch([[3.0], [1.0], [5.0]], group=[0, 1, 1])
  assert one_token_turns.turn_credit(batch, 'center')[0, 0] == 0
  assert one_token_turns.turn_credit(batch, 'leave_one_out')[0, 0] == 0
  raw = {'singleton': 'raw'}
  for name in ('center', 'leave_one_out'):
    got = one_token_turns.turn_credit(batch, (name, raw))[:, 0]
    assert got[0] == 3.0
    assert got[1] == -got[2] != 0
  grpo = one_token_turns.turn_credit(batch, ('center', raw), ('scale', raw))
  np.testing.assert_allclose(grpo[0, 0], 3.0 / (1 + 1e-6), rtol=1e-12)


def test_a_singleton_of_several_turns_is_zero():
  """Ten tenths in float32 are more than one trajectory, unless rounded."""
  batch = one_token_turns.make_batch([list(range(10))], dtype=np.float32)
  assert sum([np.float32(0.1)] * 10) > 1
  for name in (
    'center',
    'leave_one_out',
    'center_tokens',
    'leave_one_out_tokens',
  ):
    x, _, _ = one_token_turns.run_stream(batch, 'turn_reward', name)
    np.testing.assert_array_equal(x, 0)
  batch = one_token_turns.make_batch([[3.0, 1.0]])
  by_turn = one_token_turns.turn_credit(batch, ('center', {'unit': 'turn'}))
  np.testing.assert_array_equal(by_turn, [[1, -1]])


RAGGED = {
  'reward': [[1.0, 2.0, 4.0], [3.0, 7.0, 0.0], [5.0, 0.0, 0.0]],
  'valid': np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], bool),
  'sizes': [[1, 2, 3], [4, 1, 0], [2, 0, 0]],
}
# The mean of RAGGED by hand, for every unit.
MEANS = {
  'trajectory': (7 / 3 + 5 + 5) / 3,
  'turn': 22 / 6,
  'token': (1 * 1 + 2 * 2 + 3 * 4 + 4 * 3 + 1 * 7 + 2 * 5) / 13,
  'first_turn': 3.0,
  'node': 22 / 6,  # nothing is shared
}


@pytest.mark.parametrize('unit', group.UNITS)
def test_what_counts_once(unit):
  batch = one_token_turns.make_batch(**RAGGED)
  got = one_token_turns.turn_credit(batch, ('center', {'unit': unit}))
  want = np.where(
    RAGGED['valid'], RAGGED['reward'] - np.float64(MEANS[unit]), 0
  )
  np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize('unit', ['turn', 'token', 'trajectory', 'first_turn'])
def test_units_agree_between_turns_and_tokens(unit):
  """A token-level statistic of a value per turn weighs turns by length,
  unless the unit is the turn."""
  batch = one_token_turns.make_batch(**RAGGED)
  x, _, _ = one_token_turns.run_stream(
    batch, 'turn_reward', ('center_tokens', {'unit': unit})
  )
  lengths = np.array(RAGGED['sizes'])
  if unit == 'trajectory':
    values = (np.array(RAGGED['reward']) * lengths).sum(1) / lengths.sum(1)
    mean = values.mean()
  else:
    mean = MEANS[unit]
  value = np.take_along_axis(
    np.array(RAGGED['reward']), np.maximum(batch.rows.turn, 0), axis=1
  )
  want = np.where(batch.rows.sampled, value - mean, 0)
  np.testing.assert_allclose(x, want, rtol=1e-12)


@pytest.mark.parametrize('name', NORMALISERS)
def test_unscored_turns_do_not_enter(name):
  """A failed judge is as if the turn had not been there, never a zero."""
  batch = one_token_turns.make_batch([[1.0, 2.0], [4.0, 99.0], [0.0, 7.0]])
  failed = np.array([[1, 1], [1, 0], [1, 1]], bool)
  hp = (name, {'unit': 'turn'})
  absent = batch.replace(turns=batch.turns.replace(valid=failed))
  got = one_token_turns.turn_credit(unscored.turns(batch, (1, 1)), hp)
  assert got[1, 1] == 0
  np.testing.assert_array_equal(got, one_token_turns.turn_credit(absent, hp))


def test_a_failed_judge_takes_the_trajectory_out_of_its_group():
  """Its return is unknown, and the group is compared without it."""
  batch = one_token_turns.make_batch([[1.0, 2.0], [4.0, 99.0], [0.0, 7.0]])
  batch = unscored.turns(batch, (1, 1))
  _, turn, _ = one_token_turns.run_stream(batch, 'episode_return', 'center')
  np.testing.assert_array_equal(turn, [[-2, -2], [0, 0], [2, 2]])


def test_tokens_without_weight_do_not_enter_whitening():
  batch = one_token_turns.make_batch([[1.0], [2.0], [50.0]])
  weight = batch.rows.weight.copy()
  weight[2] = 0
  batch = batch.replace(rows=batch.rows.replace(weight=weight))
  for name in ('whiten', 'whiten_tokens'):
    x, _, _ = one_token_turns.run_stream(batch, 'turn_reward', name)
    np.testing.assert_allclose(x[:2, 0], [-(2**-0.5), 2**-0.5], rtol=1e-6)


def test_metrics_count_flat_groups():
  batch = one_token_turns.make_batch(
    [[1.0]] * 2 + [[2.0], [4.0]] + [[3.0]], group=[0, 0, 1, 1, 2]
  )
  _, _, metrics = one_token_turns.run_stream(batch, 'turn_reward', 'center')
  assert tuple(map(float, metrics['zero_variance_frac'])) == (3.0, 5.0)
  np.testing.assert_allclose(metrics['std'], (2 * 2**0.5, 5.0), rtol=1e-12)


def test_nothing_at_all_is_zero_and_not_nan():
  batch = one_token_turns.make_batch(
    [[1.0, 2.0]] * 2, valid=np.zeros((2, 2), bool)
  )
  for name in NORMALISERS:
    np.testing.assert_array_equal(one_token_turns.turn_credit(batch, name), 0)


@pytest.mark.parametrize(
  ('hp', 'message'),
  [
    ({'by': ('colour',)}, 'colour'),
    ({'unit': 'group'}, 'unit group'),
    ({'singleton': 'keep'}, 'singleton keep'),
  ],
)
def test_mistakes_are_named(hp, message):
  with errors.raises(ValueError, message):
    one_token_turns.turn_credit(
      one_token_turns.make_batch([[1.0], [2.0]]), ('center', hp)
    )


def test_a_value_counts_once_in_the_mean_of_different_ones():
  """By seat, against sets in plain Python; long games do not pull it."""
  r = np.random.default_rng(0)
  b, k = 10, 6
  valid = np.arange(k)[None] < r.integers(0, k + 1, (b, 1))
  reward = r.choice([-2.0, -1.0, 0.1, 0.1 + 2e-17, 1.0], (b, k))
  reward[0], valid[0] = 0.1, True
  seat = np.arange(b) % 2
  batch = one_token_turns.make_batch(reward, valid=valid)
  agent = np.broadcast_to(seat[:, None], (b, k)).astype(np.int32)
  batch = batch.replace(turns=batch.turns.replace(agent=agent))
  want, different = np.zeros((b, k)), 0
  for s in (0, 1):
    here = valid & (seat == s)[:, None]
    values = {round(x, 12) for x in reward[here]}
    different += len(values)
    want[here] = reward[here] - np.mean(list(values))
  _, got, metrics = one_token_turns.run_stream(
    batch, 'turn_reward', 'center_unique'
  )
  np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
  np.testing.assert_allclose(metrics['different'][0], different)
  plain = one_token_turns.turn_credit(
    batch, 'turn_reward', ('center', {'by': ('agent',), 'unit': 'turn'})
  )
  assert np.abs(plain - got)[valid].max() > 0.05
