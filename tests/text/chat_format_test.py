"""Bare conversations: lines of the others, tokens of the agent."""

import pytest

from agentrl.text import chat_format, tokenizer
from agentrl.text.chat_template import AGENT, Message

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


def test_content_is_without_the_end_of_turn_and_only_the_last_one():
  ids = [*WORDS.encode('up'), WORDS.eot]
  assert chat_format.content(WORDS, ids) == 'up'
  assert chat_format.content(WORDS, ids[:-1]) == 'up'
  assert chat_format.content(WORDS, [WORDS.eot, *ids]) != 'up'
  assert chat_format.content(WORDS, []) == ''


def test_a_format_has_the_name_of_its_tokenizer(tmp_path):
  talk = chat_format.named('embedded').start([Message('user', 'look')])
  assert talk == BARE.start([Message('user', 'look')])
  with pytest.raises(ValueError, match=r'tokenizer folder .* does not exist'):
    chat_format.named(str(tmp_path / 'none'))
