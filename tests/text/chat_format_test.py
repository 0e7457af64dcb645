"""Bare conversations: lines of the others, tokens of the agent."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import chat_format, tokenizer
from agentrl.text.chat_template import AGENT, Message
from tests import checkpoints

WORDS = tokenizer.Embedded()
BARE = chat_format.bare(WORDS)


def test_a_bare_conversation_only_appends():
  talk = BARE.start([Message('system', 'play'), Message('user', 'look\n')])
  assert talk.text == 'play\nlook\n'
  assert talk.agent == (False,) * len(talk.ids)
  ids = (*WORDS.encode('up'), WORDS.eot)
  after = BARE.add_reply(talk, ids)
  assert after.ids == talk.ids + ids
  assert after.agent == talk.agent + (True,) * len(ids)
  assert after.messages[-1] == Message(AGENT, 'up')
  last = BARE.add_messages(after, [Message('user', 'a wall')])
  assert last.ids[: len(after.ids)] == after.ids
  assert last.text.endswith('a wall\n')
  assert len(last.agent) == len(last.ids)


@pytest.mark.parametrize('kind', ['bare', 'chatml', 'headers', 'trims'])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_turns_at_once_are_those_one_by_one(tmp_path_factory, kind, data):
  if kind == 'bare':
    talk = BARE
  else:
    folder = tmp_path_factory.mktemp('chat')
    checkpoints.chat(folder, 'headers' if kind == 'trims' else kind)
    talk = chat_format.named(str(folder))
  words = st.text('ab \n' if kind == 'trims' else 'ab', max_size=3)
  heard = st.lists(
    st.builds(Message, st.sampled_from(('user', 'tool')), words),
    min_size=1,
    max_size=2,
  )
  ids = st.lists(st.integers(9, 60), max_size=3)
  turns = data.draw(st.lists(st.tuples(ids, st.booleans(), heard), max_size=4))
  turns = [([*x, talk.words.eot] if end else x, y) for x, end, y in turns]
  begun = one_by_one = talk.start([Message('user', 'go')])
  for reply, messages in turns:
    one_by_one = talk.add_reply(one_by_one, reply)
    one_by_one = talk.add_messages(one_by_one, messages)
  at_once = talk.add_turns(begun, turns)
  assert at_once[:4] == one_by_one[:4]
  # What is rewritten stays so unless the template puts it back.
  assert at_once.rewritten <= one_by_one.rewritten


def test_content_is_without_the_end_of_turn_and_only_the_last_one():
  ids = [*WORDS.encode('up'), WORDS.eot]
  assert chat_format.content(WORDS, ids) == 'up'
  assert chat_format.content(WORDS, ids[:-1]) == 'up'
  assert chat_format.content(WORDS, [WORDS.eot, *ids]) != 'up'
  assert chat_format.content(WORDS, []) == ''


def test_a_format_has_the_name_of_its_tokenizer(tmp_path):
  talk = chat_format.named('embedded').start([Message('user', 'look')])
  assert talk == BARE.start([Message('user', 'look')])
  with pytest.raises(ValueError):
    chat_format.named(str(tmp_path / 'none'))
