"""Commons: the best and the greedy, by going through every plan."""

import itertools

import pytest

from agentrl.env import seats
from agentrl.env.worlds import commons
from agentrl.env.worlds.commons import Commons
from tests.env.promises import refuses
from tests.env.worlds import refereed

SMALL = Commons(players=2, most=2, rounds=3)
TASK = {'capacity': 6, 'pool': 4, 'growth': [2, 1, 2]}


def total(task, asked):
  """Plain rules: what each seat gets, asking asked[t][s]."""
  pool, got = task['pool'], [0] * len(asked[0])
  for t, each in enumerate(asked):
    want = list(each)
    turn = t
    while pool and any(want):
      s = turn % len(want)
      if want[s]:
        want[s], pool, got[s] = want[s] - 1, pool - 1, got[s] + 1
      turn += 1
    pool = min(task['capacity'], pool * task['growth'][t])
  return got


def test_the_best_is_that_of_every_plan_of_all():
  each = list(itertools.product(range(3), repeat=2))
  for task, *_ in SMALL.tasks('train', 8, 0):
    every = itertools.product(each, repeat=3)
    assert commons.best(task, 2, 2) == max(sum(total(task, x)) for x in every)


def test_harvests_are_those_of_the_rules():
  for asked in itertools.product(
    itertools.product(range(3), repeat=2), repeat=3
  ):
    assert commons.harvested(TASK, asked) == total(TASK, asked)


def test_demonstrations_are_the_best():
  for family in (SMALL, Commons()):
    n, most = family.players, family.most
    for split in ('train', 'test'):
      for task, said, _ in family.tasks(split, 10, 0):
        _, earned, told = refereed.play(family, task, refereed.by_script(said))
        assert not told['invalid']
        assert sum(earned.values()) == pytest.approx(n)
        assert told['info'][0]['welfare'] == 1
        best = commons.best(task, n, most)
        spread = [x * best / n for x in earned.values()]
        assert max(spread) - min(spread) <= family.rounds


def test_greed_costs_all_and_pays_each():
  """No seat gains by another plan where the others are greedy."""
  family = Commons()
  n, most = family.players, family.most
  lost = gained = tasks = 0
  for task, *_ in family.tasks('test', 25, 0):
    alike = commons.greedy(task, n, most)
    lost += sum(alike) / commons.best(task, n, most)
    tasks += 1
    for seat in range(n):
      for mine in itertools.product(range(most + 1), repeat=family.rounds):
        asked = [[most] * n for _ in mine]
        for t, x in enumerate(mine):
          asked[t][seat] = x
        if commons.harvested(task, asked)[seat] > alike[seat]:
          gained += 1
          break
  assert lost / tasks < 0.75
  assert gained <= tasks * n // 10


def test_a_match_told_in_full():
  task = {'capacity': 9, 'pool': 6, 'growth': [2, 1, 3]}
  family = Commons(players=3, most=2, rounds=3)
  said = ('1', '2', '0', '2', '2', 'x', '2', '2', '2')
  read, earned, told = refereed.play(family, task, refereed.by_script(said))
  assert read['bob'] == [
    'round 1 of 3, pool 6 of 9, x2',
    'you 2, others 1 0\nround 2 of 3, pool 6 of 9, x1',
    'you 2, others 2 0\nround 3 of 3, pool 2 of 9, x3',
  ]
  best = commons.best(task, 3, 2)
  # In the third round there are two for the three, and cat is the first.
  got = {'ann': 4, 'bob': 4, 'cat': 1}
  assert {k: round(x * best / 3) for k, x in earned.items()} == got
  assert told['info'] == [
    {'took': took, 'welfare': 9 / best} for took in (1.0, 0.0, 1.0)
  ]
  assert told['score'] == [min(3 * x / best, 1) for x in got.values()]


def test_an_empty_pool_ends_it_and_nobody_hears_others_before_all_said():
  task = {'capacity': 9, 'pool': 4, 'growth': [3, 3, 3]}
  family = Commons(players=2, most=2, rounds=3)
  read, _, told = refereed.play(family, task, lambda *_: '2')
  assert [len(x) for x in read.values()] == [1, 1]
  assert read['ann'] == read['bob'] == [family.describe(task)]
  assert told['seat'] is None


def test_messages_that_are_no_number_take_nothing():
  for said in ('', '3', '-1', 'all', '²', '1.0', '\ud800', '9' * 999):
    _, earned, told = refereed.play(SMALL, TASK, lambda *_, x=said: x)
    assert told['invalid']
    assert not any(earned.values())


def test_settings_and_texts():
  family = Commons(players=3, teach=True)
  assert isinstance(family, seats.SeatedFamily)
  assert family.seat_names == ('ann', 'bob', 'cat')
  assert '2 others' in family.system
  assert family.seat_system('bob') == 'You are bob.'
  assert Commons().system == Commons().seat_system('ann') == ''
  assert len({Commons(most=k).name() for k in (1, 2)} | {family.name()}) == 3
  refuses(Commons, players=(1, 7), most=(0, 10), rounds=(1, 10))
