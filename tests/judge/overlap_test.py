"""Overlaps of answers: by hand, in plain loops, and what is never gained."""

import math
import random

import pytest

import agentrl.judge  # noqa: F401  registers its pieces
from agentrl.judge import overlap
from agentrl.judge.item import JudgeFault
from tests.judge import made_up_items as items


@pytest.mark.parametrize(
  ('text', 'gold', 'want'),
  [
    ('<answer>The red mug!</answer>', ['red mug'], 1),
    ('<answer>a red cup</answer>', ['red mug', 'big red cup'], 0.8),
    ('<answer>mug mug</answer>', 'mug', 2 / 3),
    ('red mug', ['red mug'], 0),
    ('<think><answer>red mug</answer></think>', ['red mug'], 0),
  ],
)
def test_f1_by_hand(text, gold, want):
  got = items.score('answer_f1', items.spoken(text, answers=gold))
  assert got == pytest.approx(want, rel=1e-15)


def test_f1_of_a_whole_message():
  what = items.item('', 'one', '', 'red mug', task={'gold': 'mug'})
  got = items.score('answer_f1', what, tag='', field='gold')
  assert got == pytest.approx(2 / 3)


@pytest.mark.parametrize(
  ('words', 'gold', 'want'),
  [
    ('a', 'a', 1),
    ('a b', 'a b', 1),
    ('a b c d e', 'a b c d e', 1),
    ('b', 'a', 0),
    ('', 'a', 0),
    ('a', '', 0),
    # n = 1: one of two words, twice as long.
    ('a b', 'a', math.exp(-1) * 1 / 2),
    # n = 2: one word of one, no pair of none; half as long.
    ('a', 'a b', math.exp(-1)),
    # n = 2: p = 2/2, (0 + 1)/(1 + 1).
    ('b a', 'a b', math.sqrt(1 / 2)),
    # n = 3: p = 3/4, (1 + 1)/(3 + 1), (0 + 1)/(2 + 1).
    ('a b x c', 'a b c', math.exp(-1 / 3) * (3 / 4 / 2 / 3) ** (1 / 3)),
    # Words count as often as both have them: p = 1/3, 1/(2 + 1).
    ('a a a', 'a b', math.exp(-1 / 2) * (1 / 3 * 1 / 3) ** (1 / 2)),
  ],
)
def test_bleu_by_hand(words, gold, want):
  got = overlap.bleu(words.split(), gold.split())
  assert got == pytest.approx(want, rel=1e-14)


def loops(words, gold, order):
  """The equation, with n-grams crossed out one by one."""
  n = min(order, len(gold))
  log = 0.0
  for k in range(1, n + 1):
    mine = [words[i : i + k] for i in range(max(len(words) - k + 1, 0))]
    left = [gold[i : i + k] for i in range(len(gold) - k + 1)]
    common = 0
    for gram in mine:
      if gram in left:
        left.remove(gram)
        common += 1
    if k == 1 and not common:
      return 0.0
    p = common / len(mine) if k == 1 else (common + 1) / (len(mine) + 1)
    log += math.log(p) / n
  ratio = len(words) / len(gold)
  return math.exp(min(0, 1 - ratio) + min(0, 1 - 1 / ratio) + log)


def drawn(r):
  return [r.choice('abc') for _ in range(r.randrange(1, 8))]


def test_bleu_is_the_plain_loops():
  r = random.Random(0)
  for _ in range(300):
    words, gold, order = drawn(r), drawn(r), r.randrange(1, 5)
    got = overlap.bleu(words, gold, order=order)
    assert got == pytest.approx(loops(words, gold, order), rel=1e-12)
    assert 0 <= got <= 1


def test_bleu_of_an_item_is_the_best_over_gold_answers():
  what = items.spoken(
    '<answer>the Red mug</answer>', answers=['cup', 'red mug']
  )
  assert items.score('answer_bleu', what) == pytest.approx(1)
  what = items.spoken('<answer>red</answer>', answers=['red mug', 'red pan'])
  got = items.score('answer_bleu', what, order=1)
  assert got == pytest.approx(math.exp(-1))
  assert items.score('answer_bleu', items.spoken('x', answers='x')) == 0


def test_no_gold_answer_is_a_fault():
  for name in ('answer_f1', 'answer_bleu'):
    with pytest.raises(JudgeFault):
      items.score(name, items.spoken('<answer>x</answer>'))
