"""Messages of another model in host rollouts, and what it does wrong."""

import dataclasses

import numpy as np
import pytest

from agentrl.rollout import host
from agentrl.rollout.chat_generator import (
  Conversations,
  WrittenMessage,
  generate_by,
)
from agentrl.rollout.limits import EpisodeLimits
from agentrl.rollout.threaded import ThreadedGenerator
from agentrl.service.base import ServiceFault
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, tokenizer
from agentrl.types import Status
from tests.rollout import hosted
from tests.rollout.chatty import Chatty

WORDS = tokenizer.Embedded()
LIMITS = EpisodeLimits(
  turns=3, message=8, observation=80, opening=0, context=300
)


def played(ask, limits=LIMITS, n=4):
  conversations = Conversations()
  talk = conversations.recorded(chat_format.bare(WORDS))
  tasks = [x.task for x in Chatty().tasks('train', n, 0)]
  stage = host.HostEnvBundle(Chatty(), tasks, talk, limits, system='Be quick.')
  attempts = make_attempts(np.arange(n), 1, limits.turns, 1.0)
  generator = ThreadedGenerator(generate_by(ask, conversations, WORDS), 2)
  try:
    return hosted.play(stage, generator, attempts, count=2)
  finally:
    generator.close()


@pytest.mark.parametrize('history', ['full', 'turn'])
def test_the_model_reads_the_messages_of_a_rollout(history):
  """All of them, or the last ones; and what it wrote as it wrote it."""
  heard = []

  def ask(messages, seed):
    heard.append(messages)
    return WrittenMessage(f'n {seed % 7}')

  limits = dataclasses.replace(LIMITS, history=history)
  ended, _ = played(ask, limits, n=1)
  (episode,) = ended
  assert len(heard) == len(episode.turns) > 1
  whole = ()
  for messages, turn in zip(heard, episode.turns, strict=True):
    assert messages[0] == ('system', 'Be quick.')
    new = messages[-1]
    assert new.role == 'user'
    assert WORDS.decode(turn.context).endswith(new.content)
    if history == 'full':
      assert messages == (*whole, new) or not whole
      text = WORDS.decode(turn.spoken.ids).removesuffix('<eot>')
      whole = (*messages, ('assistant', text))
    else:
      assert len(messages) == 2
    assert turn.spoken.ids[-1] == WORDS.eot


def test_a_model_that_fails_costs_the_trajectory_it_failed():
  def ask(messages, seed):
    if messages[1].content == first:
      raise ServiceFault('the server is gone')
    return WrittenMessage('x')

  first = None
  seen = []
  played(lambda m, seed: (seen.append(m), WrittenMessage('x'))[1], n=4)
  first = next(m for m in seen if len(m) == 2)[1].content
  ended, counts = played(ask)
  failed = [x.status == Status.ENV_ERROR for x in ended]
  assert sum(failed) == counts['fault/generator'] == 1


def test_a_message_that_was_cut_has_no_end_of_turn():
  ended, _ = played(lambda m, seed: WrittenMessage('ab', True), n=1)
  assert ended[0].turns[0].spoken.ids == WORDS.encode('ab')
  ended, _ = played(lambda m, seed: WrittenMessage('', True), n=1)
  assert ended[0].turns[0].spoken.ids == [WORDS.eot]
  ended, _ = played(lambda m, seed: WrittenMessage('abcdefghijk'), n=1)
  assert ended[0].turns[0].spoken.ids == WORDS.encode('abcdefgh')
