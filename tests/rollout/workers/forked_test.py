"""Timelines: replies of any order are those of a straight replay."""

import copy
import dataclasses

import pytest

from agentrl.env.base import CanFork, Step
from agentrl.env.worlds import household
from agentrl.env.worlds.fact_corpus.env import FactCorpus
from agentrl.rollout.workers.forked import Timelines
from agentrl.rollout.workers.replies import EnvError, InProcessEnv

FAMILY = household.Household(noise=0.5)
TASK = next(iter(FAMILY.tasks('train', 1, 0))).task


class Counting:
  """An environment that cannot fork, and says what it was told."""

  def reset(self, task, seed):
    self.told = [str(seed)]
    return 'begin'

  def step(self, message):
    self.told.append(message)
    return Step(' '.join(self.told), done=message == 'end')

  def close(self):
    pass


class Forking(Counting):
  def fork(self):
    other = Forking()
    other.told = list(self.told)
    return other


class Drifting(Counting):
  steps = 0

  def step(self, message):
    Drifting.steps += 1
    return Step(str(Drifting.steps))


@dataclasses.dataclass(frozen=True)
class Of:
  """The family of a class."""

  kind: type
  columns = ()

  def env(self):
    return self.kind()


def opened(family, **how):
  return Timelines(lambda: InProcessEnv(family, 10_000), **how)


def say(made, messages, seed=7, task=TASK):
  """Replies to messages, from the start."""
  env = made.open()
  return [env.reset(task, seed), *(env.step(x) for x in messages)]


WAYS = ['ab', 'ac', 'abd', 'ab', 'acd', 'b', 'abdd', 'acdc']


@pytest.mark.parametrize('kind', [Counting, Forking])
@pytest.mark.parametrize('standing', [1, 64])
def test_replies_are_those_of_a_replay(kind, standing):
  made = opened(Of(kind), standing=standing)
  for way in WAYS:
    got = [x if isinstance(x, str) else x.text for x in say(made, way)]
    assert got[1:] == [' '.join(['7', *way[: i + 1]]) for i in range(len(way))]


def test_what_is_repeated_is_counted():
  made = opened(Of(Counting))
  say(made, 'abc')
  assert made.counts == {'env_steps': 3}  # straight on nothing is repeated
  say(made, 'abd')
  assert made.counts == {'env_steps': 4, 'replayed': 2}
  say(made, 'abde')  # it stands there
  assert made.counts == {'env_steps': 5, 'replayed': 2}


def test_a_fork_repeats_nothing():
  made = opened(Of(Forking))
  for way in WAYS:
    say(made, way)
  assert made.counts['replayed'] == 0
  different = {way[: i + 1] for way in WAYS for i in range(len(way))}
  assert made.counts['env_steps'] == len(different)
  assert made.counts['forks'] == len(different)


def test_a_world_with_randomness_forks_it_too():
  assert isinstance(FAMILY.env(), CanFork)
  made, straight = opened(FAMILY), FAMILY.env()
  say(made, ['lamp on', 'lamp off'])
  words = ['lamp on', 'door open', 'lamp off', 'lamp on', 'door shut'] * 2
  say(made, words[:4])
  got = say(made, words)
  straight.reset(TASK, 7)
  assert [x.text for x in got[1:]] == [straight.step(x).text for x in words]
  assert made.counts['replayed'] == 0


def test_a_fork_and_its_origin_do_not_change_each_other():
  env = FAMILY.env()
  env.reset(TASK, 3)
  env.step('door open')
  twin, kept = env.fork(), copy.deepcopy(env)
  for word in ('mug den', 'lamp on', 'fan on'):
    twin.step(word)
  for word in ('lamp off', 'mug hall', 'done'):
    assert env.step(word).text == kept.step(word).text


def test_a_fork_has_read_what_its_origin_has():
  family = FactCorpus(people=100)
  task = next(x for x in family.tasks('train', 9, 0) if x.task['hops'] > 1)
  made, straight = opened(family), family.env()
  *calls, answer = task.demonstration
  say(made, calls, task=task.task)
  got = say(made, [calls[0], 'hm', *calls[1:], answer], task=task.task)
  straight.reset(task.task, 7)
  want = [straight.step(x) for x in (calls[0], 'hm', *calls[1:], answer)]
  assert [x.text for x in got[1:]] == [x.text for x in want]
  assert [x.info['progress'] for x in got[1:]] == [
    x.info['progress'] for x in want
  ]
  assert got[-1].score == 1.0
  assert made.counts['replayed'] == 0


def test_what_drifts_is_reported():
  made = opened(Of(Drifting))
  say(made, 'ab')
  with pytest.raises(EnvError) as caught:
    say(made, 'ac')
  assert caught.value.kind == 'malformed'


def test_ends_are_used_again_and_all_is_forgotten():
  made = opened(Of(Counting))
  say(made, ['end'])
  say(made, ['end'], seed=8)
  assert made.counts == {'env_steps': 2}
  made.forget()
  assert not made.counts
  assert say(made, 'a')[1].text == '7 a'
