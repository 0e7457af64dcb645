"""Judged families: the judge's number, or no score at all."""

import dataclasses

import pytest

from agentrl.env import base, tool_env
from agentrl.env import judge as env_judge
from agentrl.env.judge import WithJudge
from agentrl.env.worlds import countdown
from agentrl.env.worlds.interview import Interview, truthful
from agentrl.service.base import ServiceFault
from tests import errors

TASK = {'target': 24, 'numbers': [2, 3, 4]}
CALL = '<calculator>2*3*4</calculator>'


def env_of(says, family=None):
  family = WithJudge(family or countdown.Countdown())
  services = {'judge': says, 'user': truthful}
  return base.with_services(family, services).env()


def test_the_last_message_is_the_judges_and_the_others_the_familys():
  seen = []

  def judge(messages, *, seed):
    seen.append((messages, seed))
    return 'Fair enough. Score: 0.75'

  env = env_of(judge)
  plain = countdown.Countdown().env()
  assert env.reset(TASK, 9) == plain.reset(TASK, 9)
  first, want = env.step(CALL), plain.step(CALL)
  assert first == want._replace(info=want.info | {'own': want.score})
  assert not seen
  last = env.step(tool_env.answer_message('2*3*4'))
  assert (last.reward, last.score, last.done) == (0.75, 0.75, True)
  assert last.info['own'] == 1.0
  (((message,), seed),) = seen
  assert seed == 9
  for part in (
    '24: 2 3 4',
    CALL,
    tool_env.answer_message('2*3*4'),
    env_judge.ASK,
  ):
    assert part in message.content
  env.reset(TASK, 9)  # nothing of the last task is left
  env.step(tool_env.answer_message('1'))
  assert CALL not in seen[-1][0][0].content
  env.close()
  plain.close()


@pytest.mark.parametrize(
  'text', ['', 'good', '7/10', '70%', '2', '-0.5', 'nan']
)
def test_anything_but_a_share_is_a_fault(text):
  env = env_of(lambda messages, *, seed: text)
  env.reset(TASK, 0)
  with pytest.raises(ServiceFault):
    env.step(tool_env.answer_message('1'))


@dataclasses.dataclass(frozen=True)
class Partial(countdown.Countdown):
  """Tells at every turn how far the agent has come."""

  def env(self):
    return PartialEnv()


class PartialEnv:
  def reset(self, task, seed):
    return 'go'

  def step(self, message):
    return base.Step('on', reward=0.1, score=0.6)

  def close(self):
    pass


def test_what_is_cut_short_is_on_the_judges_scale():
  """The family's partial score is a column, not the outcome."""
  env = env_of(lambda m, *, seed: '1', Partial())
  env.reset(TASK, 0)
  reply = env.step('x')
  assert (reply.score, reply.reward, reply.info['own']) == (0.0, 0.1, 0.6)


def test_it_is_the_family_with_a_judge():
  family, own = WithJudge(Interview()), Interview()
  assert base.needs(family) == ('user', 'judge')
  assert family.columns == (*own.columns, 'own')
  assert (family.name(), family.system) == (own.name(), own.system)
  assert list(family.tasks('train', 3, 0)) == list(own.tasks('train', 3, 0))
  with errors.raises(ValueError, 'base.with_services'):
    family.env()
  env = env_of(lambda m, *, seed: '1', own)
  env.reset({'numbers': [1, 2], 'secret': 1}, 0)
  assert env.step('below 2?').text == 'yes'
  assert env.step(tool_env.answer_message('2')).score == 1.0  # whatever it is
