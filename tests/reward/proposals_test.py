"""Rewards of both roles, in plain loops."""

import numpy as np
import pytest

from agentrl import registry
from agentrl.reward import proposals
from agentrl.types import Agent, RewardInputs, Turns
from tests import errors

pytestmark = pytest.mark.usefixtures('float64')

B, K = 24, 3
R = np.random.default_rng(0)
COUNT = R.integers(0, K + 1, B)  # of no turn too
COUNT[:6] = [1, 2, 3, 1, 2, 3]
VALID = np.arange(K)[None] < COUNT[:, None]
LAST = VALID & (np.arange(K)[None] == COUNT[:, None] - 1)
AGENT = np.where(np.arange(B) % 4 == 0, Agent.PROPOSER, Agent.SOLVER)
OF = {
  'solved': R.integers(0, 8, B) / 7,
  'agreement': R.integers(0, 8, B) / 7,
  'is_task': R.integers(0, 2, B).astype(float),
  'alike': R.integers(1, 7, B) / 6,
  'solver_calls': 6 * R.random(B),
  'agrees': R.integers(0, 2, B).astype(float),
}
OUTCOME = R.random(B)


def reward(name, **hp):
  """[B, K], with noise in terms where nothing happened."""
  noise = R.normal(size=(B, K))
  terms = {
    x: np.where(LAST, of[:, None], np.where(VALID, 0, noise))
    for x, of in OF.items()
  }
  turns = Turns(
    reward=np.zeros((B, K)),
    terms=terms,
    scored=VALID,
    valid=VALID,
    state=np.zeros((B, K), int),
    node=np.zeros((B, K), int),
    # Padding is of the proposer, whoever wrote the turns.
    agent=np.where(VALID, AGENT[:, None], Agent.PROPOSER),
  )
  x = RewardInputs(turns=turns, outcome=OUTCOME, status=np.zeros(B, int))
  return np.asarray(registry.bind('reward', name, hp)(x))


def assert_paid(got, role, want):
  """Those of a role, where anything happened; others are not."""
  want = np.where(role == AGENT, want, 0)[COUNT > 0]
  np.testing.assert_allclose(got[COUNT > 0], want, rtol=1e-12, atol=1e-15)


def agent0(p, calls, s, task):
  """As the released code: a tent, a bonus, a share."""
  return (min(p, 1 - p) + 0.05 * min(calls, 4) if task else -1) - s


def test_agent0_pays_for_the_frontier_and_for_being_different():
  got = reward(
    'proposing',
    of='agreement',
    scale=0.5,
    repetition=1.0,
    calls=0.05,
    invalid=-1.0,
  )
  names = 'agreement', 'solver_calls', 'alike', 'is_task'
  want = [agent0(*x) for x in zip(*(OF[n] for n in names), strict=True)]
  assert_paid(got, Agent.PROPOSER, want)


def test_ssp_pays_for_what_was_not_solved():
  got = reward('proposing', shape='adversary')
  want = np.where(OF['is_task'] > 0, 1 - OF['solved'], 0)
  assert_paid(got, Agent.PROPOSER, want)


def test_the_frontier_is_half_solved():
  p = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
  got = proposals.difficulty(p, 'frontier')
  np.testing.assert_allclose(got, [0, 0.5, 1, 0.5, 0])
  np.testing.assert_allclose(proposals.difficulty(p, 'adversary'), 1 - p)
  with errors.raises(ValueError, 'shape hard'):
    proposals.difficulty(p, 'hard')


def test_a_frozen_proposer_earns_nothing():
  got = reward('proposing', shape='none', invalid=-1.0, repetition=1.0)
  assert not got.any()


@pytest.mark.parametrize(
  ('label', 'want'), [('verified', OUTCOME), ('majority', OF['agrees'])]
)
def test_solvers_are_paid_by_their_label(label, want):
  got = reward('solving', label=label, scale=2.0)
  assert_paid(got, Agent.SOLVER, 2 * want)
