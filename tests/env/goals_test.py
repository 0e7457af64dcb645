"""Goals written in hindsight, against environments that are asked for them."""

import itertools

import numpy as np
import pytest

from agentrl.env import goals
from agentrl.env.worlds.countdown import Countdown
from agentrl.env.worlds.household import DONE, Household, values
from agentrl.env.worlds.household import facts as facts_of

FAMILY = Household(switches=2, things=1, noise=0.5)
TASKS = [x.task for x in FAMILY.tasks('train', 40, 0)]


def wander(task, rng, count=6):
  """Plays random messages and ends: messages, and what was read."""
  names = list(facts_of(task['facts']))
  env, messages = FAMILY.env(), []
  read = [env.reset(task, 7)]
  for _ in range(count):
    name, attribute = names[rng.integers(len(names))]
    messages.append(f'{name} {rng.choice(values(name, attribute))}')
    read.append(env.step(messages[-1]).text)
  return [*messages, DONE], read


def asked(task, goal):
  """The task with another goal, by words that the environment reads."""
  wanted = dict(x.split() for x in goal.split(', '))
  told = [[a, b, wanted[a]] for a, b, _ in task['facts'] if a in wanted]
  assert len(told) == len(wanted)
  return task | {'goal': told}


def score(task, messages):
  env = FAMILY.env()
  env.reset(task, 7)
  return [env.step(x) for x in messages][-1].score


def wandered():
  rng = np.random.default_rng(0)
  for task in TASKS:
    messages, read = wander(task, rng)
    yield task, messages, read, FAMILY.goal(read, rng)


def test_who_writes_goals():
  assert isinstance(FAMILY, goals.StatesGoals)
  assert not isinstance(Countdown(), goals.StatesGoals)


def test_what_was_done_earns_the_goal_that_is_written_for_it():
  written = [x for x in wandered() if x[-1]]
  assert len(written) > len(TASKS) // 2
  for task, messages, read, goal in written:
    new = asked(task, goal)
    assert FAMILY.fulfils(read, goal)
    assert score(new, messages) == 1
    assert score(new, [DONE]) == 0  # it did not hold before
    assert FAMILY.restated(read[0], goal) == FAMILY.env().reset(new, 7)
  sizes = {x[-1].count(', ') + 1 for x in written}
  assert sizes == {2, 3, 4}  # as of tasks
  assert len({x[-1] for x in written}) > len(written) // 2


def test_a_goal_is_fulfilled_where_the_environment_says_so():
  """Goals of some for trajectories of others."""
  found = []
  every = list(wandered())
  for (_, _, _, goal), (task, messages, read, _) in itertools.product(
    every, every[:10]
  ):
    if goal:
      got = FAMILY.fulfils(read, goal)
      assert got == (score(asked(task, goal), messages) == 1)
      found.append(got)
  assert 0 < np.mean(found) < 0.5


@pytest.mark.parametrize('messages', [[], ['cat den'], ['lamp {0}']])
def test_nothing_was_done(messages):
  """Also where the lamp is set to what it is, and where rules are told."""
  task = TASKS[0]
  lamp = facts_of(task['facts'])['lamp', 'state']
  env = FAMILY.env()
  read = [env.reset(task, 0)]
  read += [env.step(x.format(lamp)).text for x in messages]
  rules = f'{Household(teach=True).system}\n{read[0]}'
  for first in (read[0], rules):
    assert not FAMILY.goal([first, *read[1:]], np.random.default_rng(0))
