"""Household: shortest solutions, progress, and rewards predicted from facts."""

import itertools

import numpy as np
import pytest

import agentrl.judge  # noqa: F401  registers its pieces
from agentrl.env.worlds import household
from agentrl.env.worlds.household import DONE, LOST, NOTHING, Household
from agentrl.stats import epic
from tests.judge import made_up_items as items

FAMILY = Household(noise=0.0)


def neighbours(now):
  """All states that one message leads to, found by playing."""
  for (name, attribute), _ in now.items():
    for value in household.values(name, attribute):
      env = FAMILY.env()
      env.reset({'facts': triples(now), 'goal': triples(now)}, 0)
      env.step(f'{name} {value}')
      yield env._now


def triples(facts):
  return [[*name, value] for name, value in facts.items()]


def least(now, goal):
  """Fewest messages to the goal, by breadth."""
  seen, front = set(), [now]
  for depth in itertools.count():
    if any(all(x[k] == v for k, v in goal.items()) for x in front):
      return depth
    seen |= {tuple(x.values()) for x in front}
    new = {tuple(y.values()): y for x in front for y in neighbours(x)}
    front = [y for key, y in new.items() if key not in seen]


def test_distances_are_those_of_a_search():
  for task, messages, _ in Household(switches=1, things=1).tasks(
    'train', 60, 0
  ):
    now, goal = map(household.facts, (task['facts'], task['goal']))
    assert household.distance(now, goal) == least(now, goal)
    assert len(messages) == least(now, goal) + 1


def test_demonstrations_solve_and_progress_adds_up():
  for task, messages, _ in FAMILY.tasks('test', 80, 1):
    env = FAMILY.env()
    env.reset(task, 0)
    steps = [env.step(x) for x in messages]
    assert [x.done for x in steps] == [False] * (len(steps) - 1) + [True]
    assert steps[-1].score == 1
    progress = [x.info['progress'] for x in steps]
    assert min(progress) > 0
    assert sum(progress) == pytest.approx(1)


def test_what_is_not_so_yet_is_not_done():
  task, _, _ = next(iter(FAMILY.tasks('train', 1, 0)))
  env = FAMILY.env()
  env.reset(task, 0)
  step = env.step(DONE)
  assert (step.done, step.score, step.info['progress']) == (True, 0, 0)


def test_doors_noise_and_messages():
  env = Household(noise=1.0).env()
  start = [['lamp', 'state', 'off'], ['mug', 'place', 'hall']]
  task = {'facts': [*start, ['door', 'state', 'shut']]}
  text = env.reset(task | {'goal': [['mug', 'place', 'den']]}, 0)
  assert text.startswith('want\nmug den\nlamp state off, ')
  assert env.step('mug den').text.startswith(f'{NOTHING}, radio state o')
  assert env.step('door open').text.startswith('door state open, radio')
  assert env.step('<think>so</think>Mug den.').text.startswith('mug place den')
  for message in ('mug on', 'door', 'lamp on off', 'cat den', ''):
    step = env.step(message)
    assert (step.text, step.invalid) == (LOST, True)


def test_factored_states_predict_rewards_that_raw_text_does_not():
  """EPIC distance to the truth, over all pairs of states of a task."""
  far = {'factored': [], 'raw': []}
  judges = {'factored': 'goal_similarity', 'raw': 'text_similarity'}
  for task, _, _ in Household(switches=2, things=1).tasks('train', 3, 0):
    goal = household.facts(task['goal'])
    names = [(a, b) for a, b, _ in task['facts']]
    states = [
      dict(zip(names, values, strict=True))
      for values in itertools.product(*(household.values(*x) for x in names))
    ]
    most = max(household.distance(x, goal) for x in states)
    n = len(states)
    truth = np.array([1 - household.distance(x, goal) / most for x in states])
    weights = np.ones(n)
    for kind, judge in judges.items():
      reward = np.zeros((n, 1, n))
      for i, j in itertools.product(range(n), repeat=2):
        new = {k: v for k, v in states[j].items() if states[i][k] != v}
        seen = household.write(states[i]), household.write(new) or NOTHING
        what = items.item(seen[0], 'x', seen[1], 'y', task=task, turn=0)
        reward[i, 0, j] = items.score(judge, what)
      real = np.broadcast_to(truth, (n, 1, n))
      made = epic.distance(reward, real, weights, np.ones(1), gamma=1.0)
      far[kind].append(made)
  assert np.mean(far['factored']) < 0.35 < 0.6 < min(far['raw'])
