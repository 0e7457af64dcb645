"""Grading of answers: as numbers, by exact match, or by F₁ of words."""

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
