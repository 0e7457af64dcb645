"""Gates: by hand, in plain loops, and what never outweighs what."""

import itertools

import numpy as np
import pytest

import agentrl.reward  # noqa: F401  registers its pieces
from agentrl import registry
from tests import errors
from tests.reward import ragged

HAND = ragged.make(
  {'invalid': [[], [1], [1, 1], [0, 1], [1, 0, 0], [0], [0, 0], [0, 0], [0]]},
  [1.0, 1.0, 0.5, 1.0, 0.0, 0.0, 0.5, 1.0, 3.0],
)


def test_ladder_by_hand():
  got = ragged.pay('ladder', HAND)
  want = [0, 0, 0, 0.1, 0.1, 0.2, 0.6, 1, 1]
  np.testing.assert_allclose(got, ragged.at_end(HAND, want), rtol=1e-12)


@pytest.mark.parametrize('seed', range(3))
def test_ladder_in_plain_loops(seed):
  case = ragged.random(seed, invalid=lambda r, n: r.integers(0, 2, n))
  got = ragged.pay('ladder', case, some_parsed=0.25, all_parsed=0.5)
  want = []
  for wrong, y in zip(case.terms['invalid'], case.outcome, strict=True):
    if not wrong.any():
      want.append(0.5 + 0.5 * min(max(y, 0), 1))
    else:
      want.append(0.0 if wrong.all() else 0.25)
  np.testing.assert_allclose(got, ragged.at_end(case, want), rtol=1e-12)


def lexicographic(x, thresholds, weights):
  """The equation, from the last term back."""
  rest = 0.0
  for k in reversed(range(len(x))):
    if k < len(thresholds):
      rest *= x[k] >= thresholds[k] - 1e-6
    rest += weights[k] * x[k]
  return rest


@pytest.mark.parametrize('seed', range(3))
def test_lexicographic_in_plain_loops(seed):
  names, scales = ('a', 'b', 'outcome', 'c'), (1.0, -0.5, 1.0, 2.0)
  thresholds, weights = (0.4, 0.5, 1.0), (1.0, 0.5, 0.25, 0.125)
  draws = dict.fromkeys('abc', lambda r, n: r.normal(size=n))
  case = ragged.random(seed, **draws)
  hp = {'scales': scales, 'thresholds': thresholds, 'weights': weights}
  got = ragged.pay('lexicographic', case, terms=names, **hp)
  want = []
  for i, y in enumerate(case.outcome):
    sums = [y if n == 'outcome' else case.terms[n][i].sum() for n in names]
    raw = [(s < 0) + s * x for s, x in zip(scales, sums, strict=True)]
    x = np.clip(raw, 0, 1)
    want.append(lexicographic(x, thresholds, weights))
  assert len(set(np.round(want, 6))) > 10
  np.testing.assert_allclose(got, ragged.at_end(case, want), rtol=1e-12)


def binary(n):
  """Every trajectory of n terms that are 0 or 1, as one turn."""
  rows = list(itertools.product((0.0, 1.0), repeat=n))
  columns = zip(*rows, strict=True)
  terms = {f't{k}': [[x] for x in xs] for k, xs in enumerate(columns)}
  return rows, ragged.make(terms, np.zeros(len(rows)))


def test_later_terms_never_make_up_for_an_earlier_one():
  """Also where the thresholds let everything pass."""
  rows, case = binary(4)
  for thresholds in ((0.0,) * 3, (1.0,) * 3, (1.0, 0.0, 0.5)):
    got = ragged.pay(
      'lexicographic',
      case,
      terms=tuple(case.terms),
      scales=(1.0,) * 4,
      thresholds=thresholds,
      weights=(0.9, 0.4, 0.2, 0.1),
    ).sum(1)
    # Zeros behind a closed gate tie; otherwise rewards are in the order of
    # the rows, which is that of the dictionary.
    assert (np.diff(got) >= 0).all()
    for (a, x), (b, y) in itertools.combinations(
      zip(rows, got, strict=True), 2
    ):
      if a[0] != b[0]:
        assert x < y


def test_by_default_format_stands_before_the_outcome():
  got = ragged.pay('lexicographic', HAND).sum(1)
  # No turn, so nothing; then whatever is not understood holds all back.
  want = [0, 0, 0, 0, 0, 0.6, 0.8, 1, 1]
  np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize(
  ('hp', 'why'),
  [
    ({'weights': (0.5, 0.5)}, '0.5'),
    ({'weights': (0.5, 0.0)}, ''),
    ({'weights': (1.0,)}, '1 terms'),
    ({'thresholds': (1.0, 1.0)}, 'thresholds terms 1.0'),
    ({'thresholds': (1.5,)}, ''),
    ({'terms': ()}, ''),
  ],
)
def test_wrong_vectors_are_refused_in_a_sentence(hp, why):
  piece = registry.get('reward', 'lexicographic')
  with errors.raises(ValueError, why) as error:
    registry.check_values('reward', piece, hp)
  assert '\n' not in str(error.value)
  errors.check(str(error.value), f'hp.reward.lexicographic.{next(iter(hp))}')


def test_a_ladder_does_not_lead_down():
  piece = registry.get('reward', 'ladder')
  with errors.raises(ValueError, 'some_parsed 0.3'):
    registry.check_values('reward', piece, {'some_parsed': 0.3})
