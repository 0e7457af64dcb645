"""Word overlap of an answer with gold answers."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from agentrl import registry
from agentrl.domain import COUNT, Named, Text
from agentrl.judge import excerpts
from agentrl.judge.item import JudgeInputs
from agentrl.judge.verdicts import GIVES
from agentrl.text import grading

Tag = Annotated[str, Text('a tag')]


@registry.register('judge', gives=GIVES, takes='trajectory')
def answer_f1(
  x: JudgeInputs,
  *,
  term: Named = 'answer_f1',
  field: Named = 'answers',
  tag: Tag = 'answer',
) -> float:
  """Scores SQuAD's F₁: max over gold of 2 |common| / (|answer| + |gold|).

  Words are lower-cased, without punctuation and articles. A missing answer
  scores 0.

  Args:
    term: what it fills
    field: of the task that holds the gold answers, one or several
    tag: of the answer, the last one counts; '': the whole last message
  """
  gold = excerpts.accepted(x.item, field)
  return float(grading.f1(excerpts.answer(x.item, tag) or '', gold))


@registry.register('judge', gives=GIVES, takes='trajectory')
def answer_bleu(
  x: JudgeInputs,
  *,
  term: Named = 'answer_bleu',
  field: Named = 'answers',
  tag: Tag = 'answer',
  order: Annotated[int, COUNT] = 4,
) -> float:
  """Scores max over gold answers of `bleu`, as in PRS (2512.07478).

  Args:
    term, field, tag: as of `answer_f1`
    order: longest n-grams that are counted
  """
  gold = [grading.normal(y).split() for y in excerpts.accepted(x.item, field)]
  words = grading.normal(excerpts.answer(x.item, tag) or '').split()
  return max(bleu(words, y, order=order) for y in gold)


def bleu(words: Sequence[str], gold: Sequence[str], *, order: int = 4) -> float:
  """Computes length-aware BLEU: b (p_1 ... p_n)^(1/n), n = min(order, |gold|)

    p_1 = c_1 / t_1,   p_k = (c_k + 1) / (t_k + 1)
    b = exp(1 − max(|words|, |gold|) / min(|words|, |gold|))

  with c_k of the t_k k-grams in common, counted with multiplicity. n keeps a
  one-word gold answer reachable. PRS prints no formula: b is
  BLEU's for short answers and its mirror image for long ones, since with
  smoothed p_k nothing else would hold back an answer of one word.
  """
  if not words or not gold:
    return 0.0
  n = min(order, len(gold))
  pairs = [_common(words, gold, k) for k in range(1, n + 1)]
  if not pairs[0][0]:
    return 0.0
  precisions = [(c + (k > 0)) / (t + (k > 0)) for k, (c, t) in enumerate(pairs)]
  few, many = sorted((len(words), len(gold)))
  return math.exp(1 - many / few) * math.prod(precisions) ** (1 / n)


def _common(words, gold, n: int) -> tuple[int, int]:
  """Counts the common n-grams and the n-grams of the words."""
  mine, theirs = Counter(ngrams(words, n)), Counter(ngrams(gold, n))
  return (mine & theirs).total(), mine.total()


def ngrams(words: Sequence[str], n: int) -> list[tuple[str, ...]]:
  """Lists all n-grams of the words."""
  return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
