"""Sessions as turns and conversations, without a server."""

from agentrl.env.files.program import Program
from agentrl.gateway import episodes
from agentrl.gateway.request import ModelRequest
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.limits import EpisodeLimits
from agentrl.text import chat_format
from agentrl.text.chat_messages import ChatMessage
from agentrl.types import Span
from tests.gateway.stub import WORDS, complete, made

STAGE = HostEnvBundle(
  Program(),
  [],
  chat_format.bare(WORDS),
  EpisodeLimits(turns=8, message=64, observation=9, opening=0, context=2000),
)


def say(session, messages, text):
  call = session.begin(ModelRequest(messages=messages))
  completion = complete([*WORDS.encode(text), WORDS.eot])
  return [*messages, session.end(call, completion, 'm').message]


def user(text):
  return ChatMessage('user', text)


def test_turns_are_what_was_read_and_sampled():
  session = made()
  talk = say(session, [user('go')], 'one')
  say(session, [*talk, user('on')], '<answer>x</answer>')
  first, second = episodes.turns_of(STAGE, session)
  assert WORDS.decode(first.context) == 'go\n'
  assert WORDS.decode(second.context) == 'on\n'
  assert (first.observation, second.observation) == ('go', 'on')
  assert first.spoken is session.completions[0]
  assert first.state != second.state
  assert set(second.span[:-1]) == {Span.ANSWER}
  assert set(second.context_span) == {Span.INFORMATION}
  assert not first.branch
  assert not second.branch


def test_a_branch_reads_its_own_words_as_such():
  session = made()
  talk = say(session, [user('go')], 'one')
  say(session, [*talk, user('a')], 'two')
  say(session, [*talk, user('b')], 'three')
  *_, last = episodes.turns_of(STAGE, session)
  assert last.branch
  assert WORDS.decode(last.context) == 'go\none<eot>b\n'
  own = [x == Span.OTHER for x in last.context_span]
  assert sum(own) == len(WORDS.encode('one')) + 1


def test_calls_that_nobody_waited_for_are_no_turns():
  session = made()
  say(session, [user('go')], 'one')
  session.begin(ModelRequest(messages=[user('late')]))
  assert len(episodes.turns_of(STAGE, session)) == 1


def test_the_conversation_is_the_last_one():
  session = made()
  assert episodes.conversation(STAGE, session) == []
  talk = say(session, [user('go')], 'one')
  say(session, [*talk, user('on')], 'two')
  assert episodes.conversation(STAGE, session) == [
    {'role': 'user', 'content': 'go'},
    {'role': 'assistant', 'content': 'one'},
    {'role': 'user', 'content': 'on'},
    {'role': 'assistant', 'content': 'two'},
  ]


def test_tokens_are_read_as_text():
  session = made()
  call = session.begin(ModelRequest(tokens=WORDS.encode('look')))
  session.end(call, complete([*WORDS.encode('up'), WORDS.eot]), 'm')
  (turn,) = episodes.turns_of(STAGE, session)
  assert turn.observation == 'look'
  assert episodes.conversation(STAGE, session) == [
    {'role': 'user', 'content': 'look'},
    {'role': 'assistant', 'content': 'up'},
  ]
