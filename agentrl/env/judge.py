"""Families whose last message a judge scores, in place of the family itself.

The judge is a service that is shown the whole conversation and answers with a
number in [0, 1], the last one that it says. One that fails, or says no such
number, costs the trajectory, which is then not trained on: no score is made
up.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentrl.env import base
from agentrl.env.base import HostEnv, HostTask, Step
from agentrl.judge.answers import number
from agentrl.service.base import Service
from agentrl.text.message import AGENT, Message
from agentrl.text.spans import Interval

OWN = 'own'  # the column of the score that the family itself gives so far
ASK = 'How good is the last message? Answer with a number from 0 to 1.'


@dataclasses.dataclass(frozen=True)
class WithJudge:
  """A family, with a judge of whatever ends a task.

  What the turns before earn is the family's. A trajectory that is cut short
  has no last message: it is not judged and scores 0, never the family's own
  partial score, so that the outcomes of a group are on one scale.
  """

  family: base.EnvFamily

  @property
  def columns(self) -> tuple[str, ...]:
    return (*self.family.columns, OWN)

  @property
  def system(self) -> str:
    return self.family.system

  @property
  def worker(self) -> str:
    return self.family.worker

  @property
  def needs(self) -> tuple[str, ...]:
    return (*base.needs(self.family), 'judge')

  def name(self) -> str:
    """Returns the family's name: the tasks are the same."""
    return self.family.name()

  def sizes(self) -> Mapping[str, int]:
    return base.sizes(self.family)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    return self.family.tasks(split, count, seed)

  def spans(self, message: str) -> Sequence[Interval]:
    return base.spans(self.family, message)

  def served(self, services: Mapping[str, Service]) -> base.EnvFamily:
    family, judge = base.with_services(self.family, services), services['judge']
    return base.WithServices(self, lambda: JudgeEnv(family.env(), judge))

  def env(self) -> HostEnv:
    raise base.missing_services(self)


class JudgeEnv:
  """An environment whose last reward and score are a judge's."""

  def __init__(self, env: HostEnv, judge: Service):
    self._env, self._judge = env, judge

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    self._seed = seed
    text = self._env.reset(task, seed)
    self._talk = [Message('user', text)]
    return text

  def step(self, message: str) -> Step:
    reply = self._env.step(message)
    self._talk.append(Message(AGENT, message))
    info = {**reply.info, OWN: reply.score}
    if not reply.done:
      self._talk.append(Message(reply.role, reply.text))
      return reply._replace(score=0.0, info=info)
    messages = [Message('user', f'{transcript(self._talk)}\n\n{ASK}')]
    score = number(self._judge(messages, seed=self._seed))
    return reply._replace(reward=score, score=score, info=info)

  def close(self) -> None:
    self._env.close()


def transcript(messages: Sequence[Message]) -> str:
  """Writes the conversation as text for a judge."""
  return '\n'.join(f'[{m.role}] {m.content}' for m in messages)
