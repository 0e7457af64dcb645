"""Critiques: what critics agree on, and what revisions are worth."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from agentrl.configs import multicritique
from agentrl.env import base
from agentrl.env.worlds import critiques as world
from agentrl.env.worlds.critiques import Critiques
from tests.env.promises import replies

SOLUTION = [[3, 3], [8, 2], [6, 4]]  # wrong: 2 and 3
TASK = {'solution': SOLUTION}


def test_faults_are_copies_that_differ():
  env = Critiques().env()
  assert env.reset(TASK, 0) == '3=3\n8=2\n6=4'
  assert world.faults(SOLUTION) == {2, 3}
  assert world.faults([[9, 9]]) == set()


def test_lines_are_wrong_by_chance():
  made = [x.task['solution'] for x in Critiques().tasks('train', 600, 0)]
  lines = list(itertools.chain(*made))
  wrong = sum(len(world.faults(x)) for x in made)
  assert abs(wrong / len(lines) - 0.4) < 0.04
  assert all(0 <= x <= 9 for x in itertools.chain(*lines))
  right = Critiques(wrong=0.0, alarm=0.0).tasks('train', 20, 0)
  assert {x.demonstration for x in right} == {('none',)}


@pytest.mark.parametrize(
  ('said', 'named'),
  [
    ('none', set()),
    (' NONE ', set()),
    ('2', {2}),
    ('3 1', {1, 3}),
    ('', None),
    ('0', None),
    ('4', None),
    ('1 1', None),
    ('1 none', None),
    ('-1', None),
    ('1,2', None),
    ('²', None),  # a digit to str.isdigit
    ('1.0', None),
  ],
)
def test_reading_a_critique(said, named):
  assert world.understood(said, 3) == named
  if named is not None:
    assert world.understood(world.written(named), 3) == named
  (step,) = replies(Critiques(skill=1.0).env(), TASK, [said])
  assert (step.invalid, step.done) == (named is None, True)
  assert step.score == (named == {2, 3})


@pytest.mark.parametrize(
  ('named', 'wrong', 'value'),
  [
    (set(), set(), 1.0),
    ({1}, set(), 0.0),
    (set(), {1}, 0.0),
    ({1, 2}, {2, 3}, 0.5),
    ({1, 2, 3}, {2}, 0.5),
    ({2, 3}, {2, 3}, 1.0),
  ],
)
def test_f1(named, wrong, value):
  assert world.f1(named, wrong) == value


def test_agreed_needs_more_than_half():
  assert world.agreed([{1}, {1, 2}, {3}]) == {1}
  assert world.agreed([{1}, {2}]) == set()  # half is not more
  assert world.agreed([{2, 3}]) == {2, 3}
  assert world.agreed([set(), set()]) == set()


def majority(p: float, n: int) -> float:
  """Chance that more than half of n critics say what each says by chance p."""
  return sum(
    math.comb(n, k) * p**k * (1 - p) ** (n - k)
    for k in range(n // 2 + 1, n + 1)
  )


@pytest.mark.parametrize('critics', [1, 4, 5])
def test_critics_err_by_their_chances_and_their_majority_by_binomials(critics):
  named = {True: [], False: []}  # by whether the line is right
  for made in Critiques(critics=critics).tasks('train', 1500, 0):
    solution = made.task['solution']
    said = world.understood(*made.demonstration, len(solution))
    for i, line in enumerate(solution, 1):
      named[world.is_right(line)].append(i in said)
  for right, alone in ((False, 0.7), (True, 0.2)):
    want, n = majority(alone, critics), len(named[right])
    spread = math.sqrt(want * (1 - want) / n)
    assert abs(np.mean(named[right]) - want) < 4 * spread


def test_the_first_critic_says_the_same_among_more():
  one, five = (
    {
      x.key: (x.task, world.understood(*x.demonstration, 3))
      for x in Critiques(critics=n).tasks('train', 200, 0)
    }
    for n in (1, 5)
  )
  assert [x[0] for x in one.values()] == [x[0] for x in five.values()]
  same = [one[k][1] == five[k][1] for k in one]
  assert 0.3 < np.mean(same) < 1  # it is outvoted, and is often right


@pytest.mark.parametrize(
  ('named', 'skill', 'worth'),
  [
    ({2, 3}, 1.0, 1.0),
    ({2}, 1.0, 2 / 3),
    ({1, 2, 3}, 1.0, 1.0),
    (set(), 1.0, 1 / 3),
    ({2, 3}, 0.0, 1 / 3),
    ({1}, 0.0, 0.0),  # a right line is spoilt
  ],
)
def test_a_revision_changes_what_is_named(named, skill, worth):
  rng = np.random.default_rng(0)
  assert world.revised(SOLUTION, named, rng, skill=skill) == pytest.approx(
    worth
  )


def test_more_revisers_pay_the_same_and_vary_less():
  """The mean counts lines right and unnamed, and skill for those named."""

  def paid(revisers):
    env, out = Critiques(revisers=revisers, skill=0.75).env(), []
    for seed in range(800):
      env.reset(TASK, seed)
      out.append(env.step('1 2').reward)
    return np.array(out)

  one, eight = paid(1), paid(8)
  want = (0 + 0.75 * 2) / 3  # line 1 is named though right, 3 is missed
  variance = 2 * 0.75 * 0.25 / 9
  for rewards, n in ((one, 1), (eight, 8)):
    assert abs(rewards.mean() - want) < 4 * math.sqrt(variance / n / 800)
    assert rewards.var() == pytest.approx(variance / n, rel=0.2)


def test_the_same_seed_revises_alike():
  env = Critiques(revisers=3).env()
  first, again = (replies(env, TASK, ['1 2'])[0] for _ in range(2))
  assert first == again


def test_the_config_puts_critics_together_and_pays_by_several_revisers():
  """With one critic, or one reviser, either half of the paper would be gone."""
  c = multicritique.get_config()
  family = base.of(c.env)

  def quality(family):
    made = family.tasks('train', 400, 0)
    said = (
      (world.understood(*x.demonstration, 3), x.task['solution']) for x in made
    )
    return np.mean([world.f1(named, world.faults(x)) for named, x in said])

  assert quality(family) > quality(dataclasses.replace(family, critics=1)) + 0.1
  assert family.revisers > 1
  assert c.stages == ('sft', 'rl')
