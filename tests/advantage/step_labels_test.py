"""Labels of turns: shares, milestones, potentials."""

import numpy as np
import pytest

from tests.advantage import little_story

pytestmark = pytest.mark.usefixtures('float64')

JUDGE = {'name': 'judge'}


def test_a_milestone_pays_once():
  steps = [[0.5, -0.5, 0.5, 0.25, -1.0, 0.3]]
  got = little_story.turn_credit(
    steps, [[0.0] * 6], ('add_term', JUDGE), 'new_best'
  )
  np.testing.assert_allclose(got, [[0.5, 0, 0, 0.25, 0, 0]], atol=1e-15)


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
