"""Trees of calls: whole prompts stay prefixes, every token is trained once."""

import collections
import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.text import chat_format, chat_messages, chat_template, tokenizer
from agentrl.text.chat_messages import ChatMessage, ToolUse
from agentrl.text.message import AGENT, Message
from agentrl.text.message_graph import MessageGraph
from agentrl.text.tool_calls import format_of
from agentrl.text.tool_calls.base import ToolDescription
from tests import checkpoints

WORDS = tokenizer.Embedded()
HERMES = format_of('hermes')
TOOL = ToolDescription('find', 'Finds.', {'type': 'object', 'properties': {}})


def user(text):
  return ChatMessage('user', text)


def graph():
  return MessageGraph(chat_format.bare(WORDS), HERMES)


def call(g, messages, text, tools=(), uses=()):
  """Samples `text`: -> the conversation as a client repeats it, the number."""
  ids = [*WORDS.encode(text), WORDS.eot]
  n = g.open(g.prompt(messages, tools), 50)
  message = ChatMessage(AGENT, text, tuple(uses))
  g.finish(n, ids, message)
  return [*messages, message], n


def rows(g):
  """Tokens of each row, and of which call each is trained (-1: of none)."""
  out = []
  for turn in g.turns():
    c = g.calls[turn.call]
    if turn.first:
      out.append(([], []))
    ids, owner = out[-1]
    new = c.prompt.ids[turn.start :]
    ids += [*new, *c.ids]
    owner += [-1] * len(new) + [turn.call] * len(c.ids)
  return out


def check(g):
  made, seen = rows(g), collections.Counter()
  for ids, owner in made:
    seen.update(x for x in owner if x >= 0)
    for n, c in g.calls.items():  # in place, and in order
      own = [t for t, x in zip(ids, owner, strict=True) if x == n]
      assert own in ([], list(c.ids))
  for n, c in g.calls.items():
    whole = [*c.prompt.ids, *c.ids]
    assert any(ids[: len(whole)] == whole for ids, _ in made)
    assert seen[n] == len(c.ids)
    assert len(c.prompt.agent) == len(c.prompt.ids)
    if c.prompt.parent >= 0:
      parent = g.calls[c.prompt.parent]
      before = parent.prompt.ids + parent.ids
      assert c.prompt.ids[: len(before)] == before
      assert all(c.prompt.agent[len(parent.prompt.ids) : len(before)])
  assert g.row_tokens() == sum(len(ids) for ids, _ in made)


def test_a_conversation_is_one_row_of_what_was_sampled():
  g = graph()
  talk, _ = call(g, [user('look')], 'a  door')
  talk, _ = call(g, [*talk, user('open')], 'yes')
  ((ids, owner),) = rows(g)
  assert WORDS.decode(ids) == 'look\na  door<eot>open\nyes<eot>'
  assert owner.count(0) == len(WORDS.encode('a  door')) + 1
  assert g.calls[1].prompt[2:4] == (0, 0)  # parent, foreign
  check(g)


def test_sampled_tokens_are_never_rendered_again():
  """The same text in other tokens than the tokenizer's own."""
  g = graph()
  odd = [tokenizer._FIRST_BYTE + b for b in b'up']
  assert WORDS.encode('up') != odd
  n = g.open(g.prompt([user('x')]), 9)
  g.finish(n, odd, ChatMessage(AGENT, 'up'))
  again = g.prompt([user('x'), ChatMessage(AGENT, 'up'), user('y')])
  assert again.ids[-len(odd) - 2 : -2] == tuple(odd)


@pytest.mark.parametrize('text', ['a door!', '', 'A door'])
def test_a_rewritten_message_forks_and_is_context(text):
  g = graph()
  talk, _ = call(g, [user('look')], 'a door')
  changed = [talk[0], ChatMessage(AGENT, text), user('open')]
  _, n = call(g, changed, 'no')
  assert g.calls[n].prompt[2:4] == (-1, 1)  # parent, foreign
  assert len(rows(g)) == 2
  check(g)


def test_arguments_are_compared_as_json():
  g, use = graph(), ToolUse('c1', 'find', '{"a":1,"b":2}')
  talk, _ = call(g, [user('go')], '', [TOOL], [use])
  text = chat_messages.canonical_json(json.loads('{ "b": 2, "a": 1 }'))
  repeated = ChatMessage(AGENT, '', (use._replace(arguments=text),))
  result = ChatMessage('tool', 'here', answers='c1')
  found = g.prompt([talk[0], repeated, result], [TOOL])
  assert found.parent == 0
  assert WORDS.decode(found.ids).endswith(
    '<eot><tool_response>\nhere\n</tool_response>\n'
  )
  # Another id, another tool, other tools: another conversation.
  other = ChatMessage(AGENT, '', (use._replace(id='c2'),))
  assert g.prompt([talk[0], other, result], [TOOL]).parent == -1
  assert g.prompt([talk[0], repeated, result], []).parent == -1


@pytest.mark.parametrize('told', ['1', '1.0', '1e0', '"1"'])
def test_a_client_may_write_a_number_otherwise(told):
  """As the many do whose language has one kind of number."""
  g, use = graph(), ToolUse('c1', 'find', '{"a":1.0}')
  talk, _ = call(g, [user('go')], '', [TOOL], [use])
  repeated = ToolUse('c1', 'find', f'{{ "a": {told} }}')
  result = ChatMessage('tool', 'here', answers='c1')
  prompt = g.prompt(
    [talk[0], ChatMessage(AGENT, '', (repeated,)), result], [TOOL]
  )
  assert (prompt.parent, prompt.foreign) == ((-1, 1) if '"' in told else (0, 0))


@pytest.mark.parametrize('begun', [False, True])
def test_a_history_costs_what_it_is_long(begun):
  """Eight times the messages, at most sixteen times the work."""

  def seconds(count):
    g, talk = graph(), [user('x')]
    if begun:
      talk, _ = call(g, talk, 'a')
      talk.append(user('x'))
    talk += [ChatMessage(AGENT, ''), user('')] * count
    began = time.process_time()
    prompt = g.prompt(talk)
    assert prompt.foreign == count
    return time.process_time() - began

  seconds(100)
  few = min(seconds(2000) for _ in range(3))
  assert seconds(16_000) < 16 * few + 0.1


def test_tools_are_taught_in_one_system_message():
  g = graph()
  begin = [ChatMessage('system', 'Be brief.'), user('go')]
  text = WORDS.decode(g.prompt(begin, [TOOL]).ids)
  assert text == f'Be brief.\n{HERMES.teach([TOOL])}\ngo\n'
  assert WORDS.decode(g.prompt(begin[1:], [TOOL]).ids) == (
    f'{HERMES.teach([TOOL])}\ngo\n'
  )


def test_a_foreign_call_is_written_in_the_format():
  g = graph()
  use = ToolUse('c1', 'find', '{"a":1}')
  odd = ToolUse('c2', 'find', 'no json')
  prompt = g.prompt(
    [user('go'), ChatMessage(AGENT, 'hm', (use,)), user('and')], [TOOL]
  )
  assert 'hm\n<tool_call>\n{"name": "find"' in WORDS.decode(prompt.ids)
  prompt = g.prompt([user('go'), ChatMessage(AGENT, '', (odd,)), user('x')])
  assert 'find no json<eot>x\n' in WORDS.decode(prompt.ids)


def test_a_repeat_is_a_branch_and_trains_the_beginning_once():
  g = graph()
  talk, _ = call(g, [user('x')], 'one')
  call(g, [*talk, user('y')], 'two')
  call(g, [*talk, user('y')], 'three')
  call(g, [user('x')], 'four')
  assert [t.first for t in g.turns()] == [True, False, True, True]
  # A later call leaves rows of earlier ones as they are.
  before = rows(g)
  call(g, [*talk, user('z')], 'five')
  assert rows(g)[: len(before)] == before
  check(g)


def test_neighbours_of_the_agent_are_one_message():
  g = graph()
  two = [user('x'), ChatMessage(AGENT, 'a'), ChatMessage(AGENT, 'b'), user('y')]
  prompt = g.prompt(two)
  assert WORDS.decode(prompt.ids) == 'x\na\nb<eot>y\n'
  assert prompt.foreign == 1


@pytest.mark.parametrize(
  'messages',
  [[], [user('x'), ChatMessage(AGENT, 'a')], [ChatMessage(AGENT, 'a')]],
)
def test_the_agent_does_not_speak_last(messages):
  with pytest.raises(ValueError):
    graph().prompt(messages)


def test_the_agent_does_not_begin():
  with pytest.raises(ValueError):
    graph().prompt([ChatMessage(AGENT, 'a'), user('x')])


def test_tokens_go_on_from_the_longest_call_they_repeat():
  g = graph()
  first = g.open(g.prompt_of_tokens([9, 10]), 4)
  g.finish(first, [11, 1])
  ids = [9, 10, 11, 1, 12]
  second = g.open(g.prompt_of_tokens(ids), 4)
  g.finish(second, [13])
  assert g.calls[second].prompt.parent == first
  assert g.prompt_of_tokens([*ids, 13, 14]).parent == second
  assert g.prompt_of_tokens([9, 10, 11, 1]).parent == -1  # nothing is new
  assert g.prompt_of_tokens([9, 10, 11, 2, 5]).parent == -1
  check(g)


def test_a_call_that_is_dropped_was_never_made():
  g = graph()
  n = g.open(g.prompt([user('x')]), 30)
  assert g.row_tokens() == 2 + 30
  g.drop(n)
  assert (g.calls, g.row_tokens()) == ({}, 0)
  _, again = call(g, [user('x')], 'a')
  assert again == n
  with pytest.raises(ValueError):
    g.drop(again)


STEP = st.tuples(
  st.integers(0, 99),  # which conversation goes on
  st.sampled_from(['say', 'say', 'repeat', 'rewrite', 'hang', 'tool', 'cut']),
  st.text('ab \n', max_size=3),
  st.lists(st.integers(9, 60), max_size=4),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=14))
def test_every_call_is_a_prefix_and_every_token_is_trained_once(steps):
  g, talks, hanging = graph(), [[user('begin')]], []
  for which, how, text, ids in steps:
    talk = talks[which % len(talks)]
    if how == 'rewrite':
      talk = [
        x._replace(text=x.text + '!') if x.role == AGENT else x for x in talk
      ]
    if how == 'cut' and len(talk) > 3:
      talk = [talk[0], *talk[-2:]]
    if how == 'tool':
      talk = [*talk, ChatMessage('tool', text)]
    elif how != 'repeat':
      talk = [*talk, user(text)]
    if talk[-1].role == AGENT:
      talk = [*talk, user('')]
    n = g.open(g.prompt(talk), 5)
    if how == 'hang':
      hanging.append(n)
      continue
    ids = [*ids, WORDS.eot]
    message = ChatMessage(AGENT, chat_format.content(WORDS, ids))
    g.finish(n, ids, message)
    talks.append([*talk, message])
    if hanging and which % 2:
      g.drop(hanging.pop())
  for n in hanging:
    g.drop(n)
  check(g)


@pytest.mark.parametrize('kind', ['chatml', 'headers'])
def test_in_a_chat_template_prompts_are_what_it_writes(tmp_path, kind):
  """Sampled tokens stay; a whole foreign conversation is the template's."""
  checkpoints.chat(tmp_path, kind)
  talk = chat_format.framed(chat_template.load(tmp_path))
  g, words = MessageGraph(talk, HERMES), talk.words
  begin = [ChatMessage('system', 'brief'), user('look')]
  ids = [*words.encode('a door'), words.eot]
  n = g.open(g.prompt(begin, [TOOL]), 9)
  g.finish(n, ids, ChatMessage(AGENT, 'a door'))
  more = [*begin, ChatMessage(AGENT, 'a door'), user('open')]
  after = g.prompt(more, [TOOL])
  first = g.calls[n].prompt.ids
  assert after.ids[: len(first) + len(ids)] == (*first, *ids)
  # As if it was rendered: what was sampled were the tokenizer's own tokens.
  other = MessageGraph(talk, HERMES).prompt(more, [TOOL])
  assert (other.ids, other.parent, other.foreign) == (after.ids, -1, 1)
  whole = [Message(x.role, x.text) for x in more]
  whole[0] = Message('system', f'brief\n{HERMES.teach([TOOL])}')
  assert other.ids == talk.start(whole).ids
