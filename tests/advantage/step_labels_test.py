"""Labels of turns: shares, milestones, potentials."""

import jax
import numpy as np
import pytest

from tests.advantage import little_story

JUDGE = {'name': 'judge'}


@pytest.fixture(scope='module', autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def test_a_milestone_pays_once():
  steps = [[0.5, -0.5, 0.5, 0.25, -1.0, 0.3]]
  got = little_story.turn_credit(
    steps, [[0.0] * 6], ('add_term', JUDGE), 'new_best'
  )
  np.testing.assert_allclose(got, [[0.5, 0, 0, 0.25, 0, 0]], atol=1e-15)


def test_potential_form_telescopes():
  """Σ_k γ^k (γ m_k − m_{k−1}) = γ^K m_K: the way there does not matter."""
  steps = [[0.5, -0.5, 0.75], [0.25, 0.25, 0.25]]
  got = little_story.turn_credit(
    steps,
    [[0.0] * 3] * 2,
    ('add_term', JUDGE),
    ('new_best', {'gamma': 0.9}),
    ('return_to_go', {'gamma': 0.9}),
  )
  np.testing.assert_allclose([x[0] for x in got], 0.9**3 * 0.75)


def test_shares_add_up_to_the_sign_of_the_outcome():
  steps = [[1.0, -1.0], [1.0, -1.0, -1.0]]
  got = little_story.turn_credit(
    steps,
    [[0.0, 1.0], [0.0] * 3],
    ('add_label', JUDGE),
    ('add_constant', {'value': -0.5}),
    'share_outcome',
  )
  np.testing.assert_allclose(got[0], [1 / 1.2, 0.2 / 1.2])
  np.testing.assert_allclose(got[1], [-0.2 / 2.2, -1 / 2.2, -1 / 2.2])
