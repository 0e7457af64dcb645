"""Sessions: limits, how messages are sampled, calls in them, rewards."""

import numpy as np
import pytest

from agentrl.gateway import session as lib
from agentrl.gateway.request import ModelRequest, RefusedError
from agentrl.text import chat_format
from agentrl.text.chat_messages import ChatMessage
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import ToolDescription
from agentrl.types import Status
from tests import errors
from tests.gateway.stub import KEYS, WORDS, complete, made

HERMES = format_of('hermes')
SCHEMA = {'type': 'object', 'properties': {'x': {'type': 'string'}}}
TOOL = ToolDescription('find', '', SCHEMA)
CALL = '<tool_call>\n{"name": "find", "arguments": {"x": "a"}}\n</tool_call>'


def asked(text='x', **fields):
  return ModelRequest(messages=[ChatMessage('user', text)], **fields)


def answered(session, text, request=None, eot=True):
  call = session.begin(request or asked())
  ids = [*WORDS.encode(text), *[WORDS.eot] * eot]
  return session.end(call, complete(ids), 'policy')


def test_a_message_is_sampled_as_the_attempt_says():
  session = made(temperature=0.5, top_k=3, top_p=0.9)
  one, two = session.begin(asked()), session.begin(asked())
  for number, call in enumerate((one, two)):
    assert call.number == number
    np.testing.assert_array_equal(call.how.key, KEYS[number])
    assert call.how[1:] == (64, 0.5, 3, 0.9, None, 0)
  session.drop(one)
  assert session.begin(asked()).number == 0


@pytest.mark.parametrize(
  ('limits', 'text', 'status', 'code'),
  [
    (dict(calls=0), 'x', Status.TURN_LIMIT, 'session_over_budget'),
    (dict(context=65), 'x', Status.TOKEN_LIMIT, 'context_length_exceeded'),
    (dict(context=9), 'x' * 999, Status.TOKEN_LIMIT, 'context_length_exceeded'),
    (
      dict(context=90),
      'x' * 999,
      Status.TOKEN_LIMIT,
      'context_length_exceeded',
    ),
    (dict(row=65), 'x', Status.TOKEN_LIMIT, 'context_length_exceeded'),
  ],
)
def test_a_session_over_a_limit(limits, text, status, code):
  session = made(**limits)
  with pytest.raises(RefusedError) as refused:
    session.begin(asked(text))
  assert (refused.value.status, refused.value.code) == (400, code)
  assert session.limit == status
  assert not session.graph.calls


def test_just_within_the_limits():
  session = made(calls=1, context=66, row=66)
  assert session.begin(asked())
  assert session.limit is None


def test_branches_share_the_room_of_a_session():
  session = made(row=2 * (2 + 64) - 1)
  answered(session, 'a')  # takes less than it might have
  session.begin(asked())
  with pytest.raises(RefusedError):
    session.begin(asked())


def test_what_ends_a_message():
  assert answered(made(), 'a').finish == 'stop'
  session = made()
  assert answered(session, 'a', eot=False).finish == 'length'
  assert session.cut
  assert session.limit is None  # no call was refused
  answered(session, 'b')
  assert not session.cut  # of the last message
  request = asked(stops=['END', 'X'], stop_tokens=[WORDS.encode('~')[0]])
  session = made(stop=lambda ids: 5 if len(ids) >= 5 else 0)
  stop = session.begin(request).how.stop
  sizes = {'a': 0, 'a END': 5, 'aX': 2, 'a~': 2, 'abcde': 5}
  assert {x: stop(WORDS.encode(x)) for x in sizes} == sizes
  reply = answered(session, 'a ENDX', request, eot=False)
  assert (reply.text, reply.finish) == ('a ', 'stop')
  # The tokens of the text that ended it stay.
  assert session.graph.calls[1].ids == tuple(WORDS.encode('a ENDX'))


@pytest.mark.parametrize(
  ('text', 'fields', 'said', 'stop'),
  [
    ('a', {}, 'a', None),
    ('a END b', {'stops': ['END']}, 'a ', 'END'),
    ('a END b', {'stops': ['b', 'END']}, 'a ', 'END'),  # the first in it
    ('aXY', {'stops': ['XY', 'X']}, 'a', 'XY'),
    ('a~', {'stop_tokens': [WORDS.encode('~')[0]]}, 'a', 9 + ord('~')),
    ('a', {'stops': ['END'], 'stop_tokens': [5]}, 'a', None),
    ('a', {'stop_tokens': [WORDS.eot]}, 'a', None),
  ],
)
def test_what_of_the_request_ended_a_message(text, fields, said, stop):
  ends = not (stop or fields.get('stop_tokens') == [WORDS.eot])
  reply = answered(made(), text, asked(**fields), eot=ends or stop is None)
  assert (reply.text, reply.finish, reply.stop) == (said, 'stop', stop)


def test_calls_have_ids_and_the_text_is_around_them():
  request = asked(tools=[TOOL])
  session = made()
  reply = answered(session, f'so {CALL} {CALL}', request)
  assert (reply.text, reply.finish) == ('so', 'tool_calls')
  assert reply.calls == [
    ('call_0_0', 'find', '{"x":"a"}'),
    ('call_0_1', 'find', '{"x":"a"}'),
  ]
  # Without tools a call is text, and so is one that cannot be read.
  assert answered(session, CALL).text == CALL
  broken = CALL.replace('}}', '}')
  assert answered(session, broken, request).text == broken


def test_what_was_said_is_found_again():
  session = made()
  reply = answered(session, f' so {CALL}', asked(tools=[TOOL]))
  result = ChatMessage('tool', 'here', answers='call_0_0')
  more = [ChatMessage('user', 'x'), reply.message, result]
  call = session.begin(ModelRequest(messages=more, tools=[TOOL]))
  assert call.prompt[2:4] == (0, 0)  # parent, foreign


def test_tokens_are_of_the_vocabulary():
  session = made()
  assert session.begin(ModelRequest(tokens=[9, 319])).prompt.ids == (9, 319)
  with errors.raises(RefusedError, '320 0'):
    session.begin(ModelRequest(tokens=[320]))


def test_what_cannot_be_put_into_words():
  with pytest.raises(RefusedError):
    made().begin(ModelRequest())


def test_ignored_fields_are_counted_by_known_names():
  session = made()
  session.begin(asked(ignored=['seed', 'zzz', 'yyy']))
  assert session.counts['ignored/seed'] == 1
  assert session.counts['ignored/other'] == 2


def test_a_finished_session():
  session = made()
  call = session.begin(asked())
  session.finished = True
  session.drop(call)  # too late
  for late in (
    lambda: session.begin(asked()),
    lambda: session.end(call, complete([2]), ''),
    lambda: session.post({'reward': 1}),
  ):
    with pytest.raises(RefusedError):
      late()


@pytest.mark.parametrize(
  ('body', 'reward'),
  [
    ({'reward': 1}, (1.0, 1.0, {})),
    ({'reward': -2, 'score': 0}, (-2.0, 0.0, {})),
    ({'reward': 0.25}, (0.25, 0.25, {})),
    ({'reward': -0.0, 'terms': {'a': 0}}, (0.0, 0.0, {'a': 0.0})),
    ({}, None),
    ({'reward': True}, None),
    ({'reward': '1'}, None),
    ({'reward': 2}, None),
    ({'reward': 2, 'score': 1.5}, None),
    ({'reward': 10**400}, None),
    ({'reward': 1e13, 'score': 1}, None),
    *(
      ({'reward': 1, 'terms': terms}, None)
      for terms in (3, {'a': 'much'}, {'a': 1e300}, {'a': True})
    ),
  ],
)
def test_rewards(body, reward):
  session = made()
  if reward is None:
    with pytest.raises(RefusedError):
      session.post(body)
    assert session.reward is None
  else:
    assert session.post(body) == session.reward == reward
    with pytest.raises(RefusedError) as late:  # the first counts, 0 as well
      session.post({'reward': 1})
    assert late.value.status == 409


def test_given_messages():
  given = complete([9, WORDS.eot])
  talk = chat_format.bare(WORDS)
  limits = lib.SessionLimits(4, 8, 99, 99)
  sampling = lib.attempt_sampling(limits, KEYS)
  session = lib.Session(talk, HERMES, limits, sampling, {0: given}.get)
  assert session.begin(asked()).given is given
  assert session.begin(asked()).given is None
