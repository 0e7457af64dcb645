"""In-context regression: Bayes by counting, grades, and scaled prompts."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from agentrl.env.worlds.in_context_regression import InContextRegression
from tests import errors

SMALL = InContextRegression(slopes=4, few_slopes='1 3', examples=2, noise=1)


def counted(family, x, y, few):
  """P(slope | examples) from all the worlds that there are, each with a weight.

  A world is a slope and the noise of every example; those that show y remain.
  """
  noise = range(-family.noise, family.noise + 1)
  weight = dict.fromkeys(range(1, family.slopes + 1), Fraction(0))
  few_of = list(map(int, family.few_slopes.split()))
  for w, noises in itertools.product(
    weight, itertools.product(noise, repeat=len(x))
  ):
    p = (1 - few) / family.slopes + (few / len(few_of) if w in few_of else 0)
    shown = [w * a + e for a, e in zip(x, noises, strict=True)]
    weight[w] += p * (shown == y)
  total = sum(weight.values())
  return [v / total for v in weight.values()] if total else None


@pytest.mark.parametrize('few', [Fraction(0), Fraction(1, 2), Fraction(1)])
def test_posterior_counts_worlds(few):
  seen = 0
  for x in ([1, 1], [1, 3], [2, 9]):
    for y in itertools.product(range(-1, 12), repeat=2):
      want = counted(SMALL, x, list(y), few)
      task = {'inputs': x, 'labels': list(y)}
      got = SMALL.posterior(task, float(few))
      assert got.sum() == pytest.approx(1)
      if want is not None:
        np.testing.assert_allclose(got, [float(p) for p in want], atol=1e-12)
        seen += 1
  assert seen > 15
  nothing = SMALL.posterior({'inputs': [1, 1], 'labels': [9, 0]}, float(few))
  prior = [(1 - few) / 4 + (few / 2 if w in (1, 3) else 0) for w in range(1, 5)]
  np.testing.assert_allclose(nothing, [float(p) for p in prior])


def test_no_guess_is_better_than_the_expert_value():
  family = InContextRegression(noise=9, examples=2, few=0.5)
  tasks = [x.task for x in family.tasks('train', 400, 0)]
  value = [family.expert_value(t) for t in tasks]
  best = [1 + np.argmax(family.posterior(t, family.few)) for t in tasks]
  right = [b == t['slope'] for b, t in zip(best, tasks, strict=True)]
  error = 3 * np.sqrt(np.mean(np.multiply(value, 1 - np.array(value))) / 400)
  assert abs(np.mean(right) - np.mean(value)) < error
  near = [family.nearest(t) == t['slope'] for t in tasks]
  assert np.mean(near) < np.mean(value) - error


def test_shares_of_tasks():
  for few, least, most in ((0.0, 0.0, 0.3), (0.5, 0.5, 0.7), (1.0, 1.0, 1.0)):
    family = InContextRegression(few=few)
    of = [x.task['slope'] in (3, 5) for x in family.tasks('train', 200, 0)]
    assert least <= np.mean(of) <= most


@pytest.mark.parametrize('scale', [1, 3])
def test_grades(scale):
  env = InContextRegression(few_slopes='3 5', scale=scale).env()
  task = {'slope': 6, 'inputs': [3, 1], 'labels': [17, -4], 'query': 4}
  for message, score, error, as_few, invalid in (
    (f'{24 * scale}', 1, 0, 0, False),
    (f' {20 * scale}\n', 0, 4, 1, False),
    (f'<think>5?</think>{12 * scale}', 0, 12, 0, False),
    ('0', 0, 24, 0, False),
    ('24 25', 0, 0, 0, True),
    ('-24', 0, 0, 0, True),
    ('123456', 0, 0, 0, True),
  ):
    text = env.reset(task, 0)
    assert text == f'3:{17 * scale} 1:{-4 * scale} 4:'
    step = env.step(message)
    assert (step.done, step.score, step.reward) == (True, score, score)
    assert (step.info['error'], step.info['as_few']) == (error, as_few)
    assert (step.invalid, step.info['of_few']) == (invalid, 0)
  env.reset(task | {'slope': 3}, 0)
  assert env.step(str(12 * scale)).info['of_few'] == 1
  # A number that the scale does not divide is between two labels.
  env.reset(task, 0)
  assert env.step(str(24 * scale + 1)).score == 0
  env.close()


@pytest.mark.parametrize(
  'few_slopes', ['', '3 x', '3 3', '0', '13', '3,5', '²']
)
def test_slopes_that_are_none(few_slopes):
  with errors.raises(ValueError, 'few_slopes 1 12'):
    InContextRegression(few_slopes=few_slopes)


def test_the_nearest_of_the_few():
  family = InContextRegression(few_slopes='3 5')
  for labels, near in (([3, 6], 3), ([6, 8], 5), ([4, 11], 5), ([-9, -9], 3)):
    assert family.nearest({'inputs': [1, 2], 'labels': labels}) == near
