"""Answers of a session, without a server."""

import asyncio

import pytest

from agentrl.gateway.answers import SessionAnswers
from agentrl.gateway.request import ModelRequest, RefusedError
from agentrl.text.chat_messages import ChatMessage
from tests.gateway.stub import Stub, complete, made

REQUEST = ModelRequest(messages=[ChatMessage('user', 'x')])


def answers(generator, seconds=60.0, **limits):
  return SessionAnswers(made(**limits), generator, 'policy', seconds)


def test_a_reply_is_there_for_retries_for_a_while():
  async def play(seconds):
    several = answers(Stub(), seconds)
    first = several.answer(REQUEST, b'd', '0')
    await first.task
    again = several.answer(REQUEST, b'd', '1')
    other = several.answer(REQUEST, b'e', '1')
    await asyncio.wait({again.task, other.task})
    return again is first, other is first

  assert asyncio.run(play(60.0)) == (True, False)
  assert asyncio.run(play(0.0)) == (False, False)


def test_a_retry_of_what_failed_is_made_anew():
  class Broken(Stub):
    def submit(self, context, how):
      future = super().submit(context, how)
      if len(self.asked) == 1:
        future = type(future)()
        future.set_exception(ValueError('no'))
      return future

  async def play():
    several = answers(Broken())
    with pytest.raises(RefusedError):
      await several.answer(REQUEST, b'd', '0').task
    return (await several.answer(REQUEST, b'd', '1').task).text

  assert asyncio.run(play()) == 'said 2'


def test_answers_that_never_came_are_forgotten():
  async def play():
    several = answers(Stub(held=True))
    for i in range(20):
      answer = several.answer(REQUEST, bytes([i]), '0')
      await asyncio.sleep(0)
      answer.leave()
      await asyncio.wait({answer.task})
    await asyncio.sleep(0)
    several._generator.go.set()
    return len(several._answers), several.session.counts['cancelled']

  assert asyncio.run(play()) == (0, 20)


def test_nobody_is_left_alone_while_another_waits():
  async def play():
    generator = Stub(held=True)
    answer = answers(generator).answer(REQUEST, b'd', None)
    answer.waiting = 1
    answer.leave()
    generator.go.set()
    return (await answer.task).text

  assert asyncio.run(play()) == 'said 1'


def test_a_given_message_is_not_sampled():
  async def play():
    generator = Stub()
    several = answers(generator)
    several.session._given = lambda number: complete([9, 2])
    reply = await several.answer(REQUEST, b'd', None).task
    return reply.completion.ids, generator.asked

  assert asyncio.run(play()) == ([9, 2], [])


def test_a_closed_session_has_no_more_answers():
  async def play():
    several = answers(Stub(held=True))
    answer = several.answer(REQUEST, b'd', None)
    await asyncio.sleep(0)
    several.close()
    await asyncio.wait({answer.task})
    several._generator.go.set()
    with pytest.raises(RefusedError):
      answer.result()
    with pytest.raises(RefusedError):
      several.answer(REQUEST, b'e', None)

  asyncio.run(play())
