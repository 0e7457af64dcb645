"""Counts of states: in plain loops, and who does not count."""

import collections

import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import chain
from agentrl.configs import oni
from agentrl.types import Status
from tests.advantage import one_token_turns

pytestmark = pytest.mark.usefixtures('float64')


BONUS = ('add_constant', {'value': 1.0})


@pytest.mark.parametrize('within', ['batch', 'trajectory'])
@pytest.mark.parametrize('power', [0.0, 0.5, 3.0])
def test_in_plain_loops(power, within):
  r = np.random.default_rng(0)
  b, k = 12, 5
  status = r.choice([Status.SOLVED, Status.FAILED, Status.TURN_LIMIT], b)
  valid = np.arange(k)[None] < r.integers(0, k + 1, (b, 1))
  scored = valid & (r.random((b, 1)) < 0.7)
  state = r.integers(0, 6, (b, k)).astype(np.int32)
  task = r.integers(0, 2, b).astype(np.int32)
  reward = r.normal(size=(b, k))
  batch = one_token_turns.make_batch(reward, valid=valid)
  turns = batch.turns.replace(scored=scored, state=state)
  batch = batch.replace(
    turns=turns, ids=batch.ids | {'task': task}, status=status
  )
  count = collections.Counter(
    (task[i], state[i, j]) for i, j in np.argwhere(scored)
  )
  want, seen = np.zeros((b, k)), []
  for i, j in np.argwhere(scored):
    if j + 1 < k and scored[i, j + 1]:
      n = count[task[i], state[i, j + 1]]
      if within == 'trajectory':
        n = state[i, : j + 2].tolist().count(state[i, j + 1])
      seen.append(n)
      want[i, j] = reward[i, j] / n**power
    elif within == 'trajectory' and status[i] != Status.TURN_LIMIT:
      want[i, j] = reward[i, j]
  hp = {'by': ('task', 'state')}
  hp |= {'power': power} if power != 0.5 else {}
  hp |= {'within': within} if within != 'batch' else {}
  got = one_token_turns.turn_credit(batch, ('scale_by_count', hp))
  np.testing.assert_allclose(got, want, rtol=1e-12)
  assert len(set(seen)) > 1


def test_first_visits_are_reported():
  batch = one_token_turns.make_batch(np.ones((2, 3)))
  state = np.array([[0, 1, 2], [0, 3, 2]], np.int32)
  batch = batch.replace(turns=batch.turns.replace(state=state))
  _, _, metrics = one_token_turns.run_stream(
    batch, 'turn_reward', 'scale_by_count'
  )
  assert metrics['first_visits'] == (2, 6)


def test_oni_pays_a_group_that_goes_the_same_way_in_full():
  """And going back and forth 1, 1/8, 1/27: N is of the trajectory alone."""
  c, label = oni.get_config('tiny'), np.ones((8, 6))
  batch = one_token_turns.make_batch(0 * label)
  state = np.tile(np.array([0, 1, 0, 1, 0, 1], np.int32), (8, 1))
  state[0] = range(6)  # the one that goes on
  signals = {c.hp.intrinsic.add_signal.name: label}
  batch = batch.replace(
    turns=batch.turns.replace(state=state),
    status=np.full(8, Status.TURN_LIMIT),
  )
  hp = c.hp.intrinsic.to_dict()
  links = [
    registry.bind('link', x, hp.get(x, {}), 'intrinsic')
    for x in c.stream.intrinsic
  ]
  coef = {'intrinsic': c.coef.intrinsic}
  got, _ = chain.advantage({'intrinsic': links}, coef, (), batch, signals)
  forth = np.array([1, 1 / 8, 1 / 8, 1 / 27, 1 / 27, 0])
  ahead = np.array([1, 1, 1, 1, 1, 0])
  for i, bonus in enumerate([ahead, *[forth] * 7]):
    to_go = 0.4 * np.cumsum(bonus[::-1])[::-1]
    np.testing.assert_allclose(got.turn[i], to_go, rtol=1e-12)
