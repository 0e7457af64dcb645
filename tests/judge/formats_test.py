"""Tags: once, in order, closed; the layouts of two papers, by hand."""

import itertools
import random

import pytest

import agentrl.judge  # noqa: F401  registers its pieces
from agentrl.judge import formats
from agentrl.judge.item import JudgeFault
from tests import errors
from tests.judge import made_up_items as items


@pytest.mark.parametrize(
  ('text', 'share', 'ordered'),
  [
    ('<a>1</a> <b>2</b>', 1, 1),
    ('<b>2</b> <a>1</a>', 1, 0),
    ('<a>1<b>2</b></a>', 1, 0),
    ('<a>1</a>', 0.5, 0),
    ('<a>1</a><a>1</a><b></b>', 0.5, 0),
    ('</a><a><b></b>', 0.5, 0),
    ('<a>1<b>2</b>', 0.5, 0),
    ('plain', 0, 0),
    ('', 0, 0),
  ],
)
def test_tags_by_hand(text, share, ordered):
  hp = {'tags': ('a', 'b')}
  what = items.spoken(text)
  assert items.score('tag_share', what, **hp) == share
  assert items.score('tags_in_order', what, **hp) == ordered


def test_tags_are_looked_for_in_the_message_or_in_all_of_them():
  what = items.item('', '<a>1</a>', '', '<b>2</b>')
  for name in ('tag_share', 'tags_in_order'):
    assert items.score(name, what, tags=('a', 'b')) == 1
    last = items.score(name, what._replace(turn=1), tags=('a', 'b'))
    assert last == (0.5 if name == 'tag_share' else 0)


FULL = (
  '<think>t</think>\n<tool_call>\n{"name": "f"}\n</tool_call>\n'
  '<response>r</response>'
)
CALL = '<think>t</think>\n<tool_call>\n{}\n</tool_call>'
SAY = '<think>t</think>\n<response>r</response>'
TEXTS = {'full': FULL, 'call': CALL, 'say': SAY, 'think': '<think>t</think>'}


@pytest.mark.parametrize(
  ('gold', 'text'), list(itertools.product(TEXTS, TEXTS))
)
def test_the_fields_are_those_of_the_gold_answer(gold, text):
  """Of four layouts each fits the gold answer that has its fields alone."""
  what = items.spoken(TEXTS[text], gold=TEXTS[gold])
  got = items.score('field_layout', what, gold='gold')
  assert got == (gold == text)
  fields = {
    name: f'<{name}>' in TEXTS[gold]
    for name in ('think', 'tool_call', 'response')
  }
  what = items.spoken(TEXTS[text], gold=fields)
  assert items.score('field_layout', what, gold='gold') == got


@pytest.mark.parametrize(
  ('old', 'new'),
  [
    ('\n<response>', '<response>'),
    ('<tool_call>\n', '<tool_call>'),
    ('<think>t', '<think>t<think>'),
    ('</response>', '</response> and more'),
    ('<think>', 'well <think>'),
    ('</think>', ''),
    ('<response>r', '<response>r</response>\n<response>r'),
  ],
)
def test_one_change_breaks_the_layout(old, new):
  assert items.score('field_layout', items.spoken(FULL)) == 1
  assert items.score('field_layout', items.spoken(f' {FULL}\n')) == 1
  assert old in FULL
  broken = items.spoken(FULL.replace(old, new, 1))
  assert items.score('field_layout', broken) == 0


def test_a_gold_answer_that_is_not_there_is_a_fault():
  with errors.raises(JudgeFault, 'gold'):
    items.score('field_layout', items.spoken(FULL), gold='gold')


def test_length_of_thought():
  what = items.spoken('<think>a b</think> x y z <think>one two three</think>')
  assert items.score('thought_length', what, limit=4) == 0.75
  assert items.score('thought_length', what, limit=2) == 1
  assert items.score('thought_length', items.spoken('no thought')) == 0


def search(thoughts, searches):
  """A self-search of so many, in an order that is allowed."""
  steps = [
    '<search>who is it</search>\n<information>Ann</information>'
  ] * searches
  rest = ['<think>hm</think>'] * (thoughts - 1)
  parts = ['<think>hm</think>', *steps, *rest, '<answer>Ann B</answer>']
  return '\n'.join(parts)


def test_self_search_is_the_equation():
  for n, s in itertools.product(range(1, 11), range(11)):
    got = items.score('self_search_layout', items.spoken(search(n, s)))
    want = min(1, n / 2) * min(n, s + 1) / max(n, s + 1) * (n <= 8)
    assert got == pytest.approx(want, rel=1e-15)


@pytest.mark.parametrize(
  ('old', 'new'),
  [
    ('<think>hm', 'so <think>hm'),
    ('</answer>', '</answer>.'),
    ('<think>', '<b>x</b><think>'),
    ('<answer>', '<plan>x</plan><answer>'),
    ('</search>\n', '</search> so '),
    ('<information>Ann</information>', ''),
    ('who is it', 'who\nis it'),
    ('who is it', 'Your Query'),
    ('who is it', ' '),
    ('Ann B', '...'),
    ('</information>', ''),
    ('</think>', '</answer>'),
    ('<think>hm', '<think><search>hm</search><information>x</information>'),
  ],
)
def test_one_change_breaks_a_self_search(old, new):
  text = search(2, 1)
  assert items.score('self_search_layout', items.spoken(text)) == 1
  assert old in text
  broken = items.spoken(text.replace(old, new, 1))
  assert items.score('self_search_layout', broken) == 0


def test_messages_of_a_self_search_stand_after_one_another():
  one, _, other = search(2, 1).partition('\n')
  what = items.item('question', one, 'go on', other)
  assert items.score('self_search_layout', what) == 1


def test_blocks_read_what_was_written():
  r = random.Random(0)
  for _ in range(50):
    parts = [(r.choice('abc'), str(r.random())) for _ in range(r.randrange(5))]
    text = 'x'.join(f'<{name}>{x}</{name}>' for name, x in parts)
    assert formats.blocks_of(text) == parts
    if parts:
      at = r.randrange(len(parts))
      opened = text.replace(f'</{parts[at][0]}>', '', 1)
      assert formats.blocks_of(opened) is None
