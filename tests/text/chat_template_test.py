"""Conversations are only appended to, in every kind of chat template."""

import logging

import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import chat_template
from agentrl.text.chat_template import Message
from tests import checkpoints, errors

CHATML, HEADERS = checkpoints.CHATML, checkpoints.HEADERS
# Two roles that take turns, one of them renamed, no system.
TURNS = """
{{- '<bos>' -}}
{%- for m in messages -%}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('roles must take turns') }}
{%- endif -%}
{%- set who = 'model' if m.role == 'assistant' else m.role -%}
{{ '<turn>' + who + '\\n' + (m.content | trim) + '<end>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<turn>model\\n' }}{% endif -%}
"""
# As the first, but thoughts of earlier turns are taken out, and a last turn
# without any gets an empty one.
THINKING = """
{%- set ns = namespace(asked=-1) -%}
{%- for m in messages -%}
{%- if m.role == 'user' %}{% set ns.asked = loop.index0 %}{% endif -%}
{%- endfor -%}
{%- for m in messages -%}
{%- set said = m.content.split('</think>')[-1].lstrip('\\n') -%}
{{ '<|im_start|>' + m.role + '\\n' }}
{%- if m.role != 'assistant' -%}{{ m.content }}
{%- elif loop.index0 < ns.asked -%}{{ said }}
{%- elif '</think>' in m.content -%}{{ m.content }}
{%- else -%}{{ '<think>\\n\\n</think>\\n\\n' + said }}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
# The system's text counts the messages.
COUNTING = """
{{- '<|im_start|>system\\n' + (messages | length | string) + '<|im_end|>\\n' -}}
{%- for m in messages -%}
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
# Thoughts are taken out while a tool has the last word, and stand again after.
HIDING = """
{%- for m in messages -%}
{{ '<|im_start|>' + m.role + '\\n' }}
{%- if messages[-1].role == 'tool' %}{{ m.content.split('</think>')[-1] }}
{%- else %}{{ m.content }}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif -%}
"""
# Asks for a turn with a thought that it does not show afterwards.
ASKING = CHATML.replace(
  "{{ '<|im_start|>assistant\\n' }}",
  "{{ '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}",
)
KINDS = {
  # template, specials (the first pads), eos of the tokenizer, end of turn
  'chatml': (CHATML, checkpoints.PLAIN, '<|im_end|>', '<|im_end|>'),
  'headers': (HEADERS, checkpoints.HEADED, '<|end|>', '<|eot|>'),
  'turns': (TURNS, ('<eos>', '<bos>', '<turn>', '<end>'), '<eos>', '<end>'),
  'thinking': (THINKING, checkpoints.PLAIN, '<|im_end|>', '<|im_end|>'),
  'counting': (COUNTING, checkpoints.PLAIN, '<|im_end|>', '<|im_end|>'),
  'asking': (ASKING, checkpoints.PLAIN, '<|im_end|>', '<|im_end|>'),
}
FAITHFUL = ('chatml', 'headers', 'turns')
THOUGHT = '<think>\nhm\n</think>\n\nup'


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
  out = {}
  for kind, (template, specials, eos, _) in KINDS.items():
    out[kind] = tmp_path_factory.mktemp(kind)
    checkpoints.tokenizer(
      out[kind], specials=specials, eos=eos, template=template
    )
  return out


@pytest.fixture(scope='module')
def chats(folders):
  """Of models with more rows than the tokenizers have tokens."""
  return {
    kind: chat_template.load(path, vocab=301) for kind, path in folders.items()
  }


def user(content='go left'):
  return Message('user', content)


def speak(chat, talk, text, ended=True):
  ids = chat.words.encode(text) + [chat.eot] * ended
  return chat_template.add_reply(chat, talk, ids)


@pytest.mark.parametrize('kind', KINDS)
def test_the_end_of_turn_is_the_templates(chats, kind):
  assert chats[kind].words.decode([chats[kind].eot]) == KINDS[kind][3]


WORDS = st.text(max_size=12)
SAMPLED = st.lists(st.integers(0, 300), max_size=6)
TURN = st.tuples(SAMPLED, st.booleans(), WORDS)


@settings(deadline=None, max_examples=15)
@given(first=WORDS, turns=st.lists(TURN, max_size=4))
@pytest.mark.parametrize('kind', KINDS)
def test_ids_are_only_appended(chats, kind, first, turns):
  chat = chats[kind]
  talk = chat_template.start(chat, [user(first)])
  assert not any(talk.agent)
  spoken = []
  for ids, ended, answer in turns:
    ids = [i for i in ids if i != chat.eot] + [chat.eot] * ended
    before = len(talk.ids)
    longer = chat_template.add_reply(chat, talk, ids)
    assert longer.ids == (*talk.ids, *ids)
    assert longer.agent == (*talk.agent, *[True] * len(ids))
    spoken += range(before, before + len(ids))
    talk = chat_template.add_messages(chat, longer, [user(answer)])
    assert talk.ids[: len(longer.ids)] == longer.ids
    rest = talk.ids[len(longer.ids) :]
    # The turn ends once, by the agent or for it; then the other's does.
    assert rest.count(chat.eot) == 2 - ended
    assert ended or rest[0] == chat.eot
  assert [i for i, mine in enumerate(talk.agent) if mine] == spoken
  assert len(talk.agent) == len(talk.ids)
  assert [m.role for m in talk.messages] == (
    ['user'] + ['assistant', 'user'] * len(turns)
  )


LETTERS = st.text('abc upleft.é', min_size=1, max_size=12).map(
  lambda x: x.strip() or 'a'
)


@settings(deadline=None, max_examples=15)
@given(first=LETTERS, turns=st.lists(st.tuples(LETTERS, LETTERS), max_size=3))
@pytest.mark.parametrize('kind', FAITHFUL)
def test_a_faithful_template_gives_its_own_ids(
  chats, folders, kind, first, turns
):
  """Those that transformers makes of the whole conversation at once."""
  chat = chats[kind]
  talk = chat_template.start(chat, [user(first)])
  for mine, theirs in turns:
    talk = chat_template.add_messages(
      chat, speak(chat, talk, mine), [user(theirs)]
    )
  assert not talk.rewritten
  theirs = transformers.AutoTokenizer.from_pretrained(folders[kind])
  whole = theirs.apply_chat_template(
    [m._asdict() for m in talk.messages],
    add_generation_prompt=True,
    return_dict=False,
  )
  assert list(talk.ids) == whole
  assert talk.text == chat.words.decode(talk.ids)


@pytest.mark.parametrize(
  ('kind', 'text'),
  [
    ('thinking', THOUGHT),
    ('counting', 'up'),
    ('asking', 'up'),
    ('headers', ' up '),
  ],
)
def test_rewriting_is_told_and_what_was_sampled_stays(
  chats, folders, caplog, kind, text
):
  chat_template._say.cache_clear()
  chat = chats[kind]
  one = speak(chat, chat_template.start(chat, [user()]), text)
  with caplog.at_level(logging.WARNING, logger='absl'):
    talk = chat_template.add_messages(chat, one, [user('and now?')])
    again = chat_template.add_messages(chat, speak(chat, talk, 'up'), [user()])
  assert [
    r.getMessage().count('rewrites earlier turns') for r in caplog.records
  ] == [1]
  assert talk.rewritten
  assert again.rewritten
  assert talk.ids[: len(one.ids)] == one.ids
  assert talk.text == chat.words.decode(talk.ids)
  assert text in talk.text
  strict = chat_template.load(folders[kind], rewriting='error')
  with errors.raises(ValueError, 'keep'):
    chat_template.add_messages(strict, one, [user()])


def test_a_thought_is_no_rewriting_before_the_next_question(chats):
  """A tool's answer leaves this turn's thoughts where they are."""
  chat = chats['thinking']
  one = speak(chat, chat_template.start(chat, [user()]), THOUGHT)
  assert not chat_template.add_messages(
    chat, one, [Message('tool', 'wall')]
  ).rewritten
  assert chat_template.add_messages(chat, one, [user()]).rewritten


def test_that_it_was_rewritten_once_stays_told(tmp_path):
  """Though its words stand as they were said again, once a person speaks."""
  checkpoints.tokenizer(tmp_path, template=HIDING)
  chat = chat_template.load(tmp_path)
  first = speak(chat, chat_template.start(chat, [user()]), THOUGHT)
  assert not chat_template.add_messages(chat, first, [user()]).rewritten
  tool = chat_template.add_messages(chat, first, [Message('tool', 'wall')])
  assert tool.rewritten
  last = chat_template.add_messages(chat, speak(chat, tool, 'up'), [user()])
  assert last.rewritten
  # By itself the whole would not show it: it reads as it was said.
  whole = chat_template.start(chat, last.messages)
  assert whole.ids == last.ids


@pytest.mark.parametrize('kind', KINDS)
def test_nobody_can_write_a_special_token(chats, kind):
  chat = chats[kind]
  literals = ''.join(chat.specials)
  calm = chat_template.start(chat, [user('a')])
  loud = chat_template.start(chat, [user(f'a{literals}')])
  for i in chat.specials.values():
    assert calm.ids.count(i) == loud.ids.count(i)
  assert literals in chat.words.decode(loud.ids)
  answers = [
    chat_template.add_messages(chat, speak(chat, calm, 'up'), [user(x)])
    for x in ('a', f'a{literals}')
  ]
  for i in chat.specials.values():
    assert answers[0].ids.count(i) == answers[1].ids.count(i)


def test_a_system_message_takes_the_place_of_the_default(chats):
  chat = chats['chatml']
  talk = chat_template.start(chat, [Message('system', 'Be long.'), user()])
  assert 'Be long.' in talk.text
  assert 'brief' not in talk.text
  assert 'brief' in chat_template.start(chat, [user()]).text


def test_who_speaks_when(chats):
  chat = chats['chatml']
  talk = chat_template.start(chat, [user()])
  with pytest.raises(ValueError):
    chat_template.add_messages(chat, talk, [user()])
  with pytest.raises(ValueError):
    speak(chat, speak(chat, talk, 'up'), 'up')
  with errors.raises(ValueError, '1 3'):
    chat_template.add_reply(chat, talk, [70, chat.eot, 70])
  with pytest.raises(ValueError):
    chat_template.start(chat, [])
  with pytest.raises(ValueError):
    chat_template.start(chat, [user(), Message('assistant', 'up')])


def test_a_template_that_refuses(chats):
  with errors.raises(ValueError, 'system user'):
    chat_template.start(chats['turns'], [Message('system', 'a'), user()])


NO_END = "{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %}"
NO_AGENT = "{% for m in messages %}{{ m.role + '<|im_end|>' }}{% endfor %}"


@pytest.mark.parametrize(
  ('how', 'settings', 'message'),
  [
    ({'template': None}, {}, 'template'),
    ({'template': NO_END}, {}, ''),
    ({'template': NO_AGENT}, {}, ''),
    ({'template': '{% if %}'}, {}, ''),
    ({'template': CHATML, 'eos': None}, {}, ''),
    ({'template': CHATML}, {'vocab': 99}, '99'),
    ({'template': CHATML}, {'rewriting': 'kep'}, 'rewriting kep'),
  ],
)
def test_bad_input(tmp_path, how, settings, message):
  checkpoints.tokenizer(tmp_path, **how)
  with errors.raises(ValueError, message) as caught:
    chat_template.load(tmp_path, **settings)
  assert '\n' not in str(caught.value)
