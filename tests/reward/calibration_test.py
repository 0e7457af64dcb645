"""Scoring rules: by hand, in plain loops, proper, and separated by a margin."""

import math

import numpy as np
import pytest

import agentrl.reward  # noqa: F401  registers its pieces
from agentrl.reward import calibration
from tests.reward import ragged

# (c, y) -> R, with bonus = penalty = 1, from the formulas as they are printed.
PRINTED = {
  'brier': lambda c, y: y - (c - y) ** 2,
  'log': lambda c, y: y + math.log(min(max(c if y else 1 - c, 0.01), 0.99)),
  'linear': lambda c, y: y * c - (1 - y) * c,
  'margin': lambda c, y: 1 + (1 - (1 - c) ** 2) if y else -(c**2),
}


def stated(c, y) -> ragged.Ragged:
  """Trajectories of one turn with these confidences."""
  return ragged.make({'confidence': [[x] for x in c]}, y)


def test_every_form_has_its_printed_formula():
  assert set(PRINTED) == set(calibration.FORMS)


def confidence(r, n):
  return r.choice([0.0, 0.2, 0.7, 1.0, 1.5, -1.0], n)


@pytest.mark.parametrize('form', PRINTED)
@pytest.mark.parametrize('seed', range(2))
def test_is_the_formula_at_the_last_confidence(form, seed):
  case = ragged.random(seed, confidence=confidence)
  got = ragged.pay('calibration', case, form=form)
  want = []
  for x, outcome in zip(case.terms['confidence'], case.outcome, strict=True):
    given = [c for c in x if c > 0]
    c = min(given[-1], 1.0) if given else 0.0
    want.append(PRINTED[form](c, int(outcome >= 1 - 1e-6)))
  np.testing.assert_allclose(got, ragged.at_end(case, want), rtol=1e-12)


def test_bonus_and_penalty_scale_what_confidence_changes():
  case = stated([0.5, 0.5], [1.0, 0.0])
  got = ragged.pay('calibration', case, bonus=0.2, penalty=3.0).sum(1)
  np.testing.assert_allclose(got, [1 + 0.2 * 0.75, -3 * 0.25])
  got = ragged.pay('calibration', case, bonus=0.0, penalty=0.0).sum(1)
  np.testing.assert_array_equal(got, [1, 0])


@pytest.mark.parametrize(('bonus', 'penalty'), [(0, 0), (1, 1), (0.1, 5)])
def test_with_a_margin_no_failure_earns_what_a_solution_does(bonus, penalty):
  c = np.linspace(0, 1, 21)
  case = stated([*c, *c], [1.0] * 21 + [0.0] * 21)
  hp = {'form': 'margin', 'bonus': bonus, 'penalty': penalty}
  got = ragged.pay('calibration', case, **hp).sum(1)
  assert got[:21].min() >= 1 > 0 >= got[21:].max()
  assert (np.diff(got[:21]) >= 0).all()
  assert (np.diff(got[21:]) <= 0).all()
