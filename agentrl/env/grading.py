"""Grading of answers: as numbers, exactly, by F₁ of words or by ROUGE-L."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

_NUMBER = re.compile(
  r'[-+]?(\d{1,3}(,\d{3})+|\d+|(?=\.))(\.\d+)?(/0*[1-9]\d*)?', re.ASCII
)
_LONGEST = 1000  # characters of a number
_ARTICLES = re.compile(r'\b(a|an|the)\b')
_PUNCTUATION = str.maketrans('', '', string.punctuation)
_WORD = re.compile(r'[a-z0-9]+')  # of ROUGE


def number(text: str) -> Fraction | None:
  """The exact value of 12, -0.5, 1/2, 1,000 or $3.50; None of anything else.

  A last full stop and spaces around do not count.
  """
  text = text.strip().removesuffix('.').removeprefix('$').replace('−', '-')
  if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
    return None
  above, _, below = text.replace(',', '').partition('/')
  return Fraction(above) / int(below or 1)


def same(answer: str, gold: str) -> bool:
  """Equal as numbers where the gold answer is one, else as normal words."""
  value = number(gold)
  if value is not None:
    return number(answer) == value
  return normal(answer) == normal(gold)


def normal(text: str) -> str:
  """Lower case without punctuation, articles and more than single spaces.

  As the evaluation of SQuAD does it (arXiv 1606.05250).
  """
  bare = text.lower().translate(_PUNCTUATION)
  return ' '.join(_ARTICLES.sub(' ', bare).split())


def exact(answer: str, accepted: Sequence[str]) -> bool:
  """Exact match of the normal words with an accepted answer."""
  return normal(answer) in {normal(gold) for gold in accepted}


def f1(answer: str, accepted: Sequence[str]) -> float:
  """The best over accepted answers of

    F₁ = 2 · |common words| / (|words of the answer| + |words accepted|),

  the words normal, and counted as often as they stand.
  """
  words = normal(answer).split()
  return max((_f1(words, normal(gold).split()) for gold in accepted), default=0)


def _f1(words: list[str], gold: list[str]) -> float:
  common = (Counter(words) & Counter(gold)).total()
  return 2 * common / (len(words) + len(gold)) if common else 0.0


def rouge_l(answer: str, gold: str) -> float:
  """ROUGE-L, the F₁ of the longest common subsequence of words:

    P = LCS / |answer|,  R = LCS / |gold|,  F₁ = 2PR / (P + R),

  which is 2 · LCS / (|answer| + |gold|). Words are runs of letters and digits
  in lower case, without stemming; 0 where either text has none.

  Lin, ROUGE: A package for automatic evaluation of summaries, 2004.
  """
  words, reference = (_WORD.findall(text.lower()) for text in (answer, gold))
  # lengths[j]: of the first words so far and the first j of the reference.
  lengths = [0] * (len(reference) + 1)
  for word in words:
    before = 0
    for j, other in enumerate(reference, 1):
      above = lengths[j]
      lengths[j] = before + 1 if word == other else max(above, lengths[j - 1])
      before = above
  return 2 * lengths[-1] / (len(words) + len(reference)) if lengths[-1] else 0.0
