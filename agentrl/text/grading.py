"""Grading of answers: as numbers, exactly, by F₁ of words or by ROUGE-L."""

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

_NUMBER = re.compile(
  r'(\d{1,3}(,\d{3})+|\d{1,3}([\u00a0\u2009\u202f]\d{3})+|\d+|(?=\.))(\.\d+)?'
  r'([eE][-+]?\d{1,3}|/0*[1-9]\d*)?',
  re.ASCII,
)
_SEPARATOR = re.compile('[,\u00a0\u2009\u202f]')  # of thousands
# Of LaTeX: \frac{1}{2}, \frac12, and a sign in it; 1{,}000, 1\,000, \$5.
_FRACTION = re.compile(
  r'\A\\[dt]?frac\s?(?:\{(\d+)\}\s?\{(\d+)\}|(\d)(\d))\Z', re.ASCII
)
_SIGN_ABOVE = re.compile(r'\A(\\[dt]?frac\s?\{)-')
_LATEX = (('{,}', ','), ('\\,', '\u2009'), ('\\!', ''), ('\\$', '$'))
_LONGEST = 1000  # characters of a number
_ARTICLES = frozenset(('a', 'an', 'the'))
_WORD = re.compile(r'[a-z0-9]+')  # of ROUGE
_ANY_ARTICLE = re.compile(r'\b(?:a|an|the)\b')
_ASCII_PUNCTUATION = str.maketrans('', '', string.punctuation)
_SPECIAL = re.compile(r'[^\w\s]|_')
# Punctuation that is part of a number or a name. Text is in small letters.
_SIGN = re.compile(r'(?<![\w.,])[-−‐‑‒–—](?=\.?\d)')
_RANGE = re.compile(r'(?<=\d)[‐‑‒–—](?=\d)')
_THOUSANDS = re.compile(r'(?<=\d),(?=\d{3}(?!\d))')
# Of LaTeX: \frac{1}{12} is not \frac{11}{2}, and x^{2} is x^2.
_ANY_FRAC = re.compile(r'\\[dt]?frac')
_POWER = re.compile(r'\^\{(-?\w+)\}')
_GROUPS = re.compile(r'\}\s*\{')
# Spaces around signs between numbers and letters: x = 5, x + 1, (1, 2).
_AFTER_TERM, _BEFORE_TERM = (
  r'(?<=[a-z\d])(?<![a-z]{2})',
  r'(?=[-.]?\d|[a-z](?![a-z]))',
)
_SPACED = re.compile(
  rf'{_AFTER_TERM} ?([+=<>≤≥]) ?{_BEFORE_TERM}|(?<=\d) - (?=\d)'
)
_TUPLE = re.compile(r'[(\[{] *-?[\d.]+ *(?:, *-?[\d.]+ *)+\\?[)\]}]')
_KEPT = re.compile(
  rf'{_AFTER_TERM}[+=<>≤≥]{_BEFORE_TERM}|'  # x=5, x+1
  r'(?<=\d)[^\w\s](?=\d)'  # 3.5, 1/2, 10:30, 3-5
  r'|(?<=\d),(?=-\.?\d)|(?<=\d,)-(?=\.?\d)'  # 1,-2
  r'|(?<![\w.,-])-(?=\.?\d)'  # -1
  r'|(?<![\w.])\.(?=\d)'  # .5, -.5
  r'|(?<=\de)-(?=\d)'  # 1e-5
  r'|[<>≤≥~](?=[-.]?\d)'  # <5
  r'|(?<=[\w+#])[+#](?!\d)'  # c++, c#, a+
  r'|(?<=\w)\^(?=-?\w)'  # x^2
  r'|(?<=\b[a-z])-(?!\w)'  # a-
)


def number(text: str) -> Fraction | None:
  r"""Returns the exact value of 12, -0.5, 1/2, 1,000, 1e-5 or $3.50, or None.

  Also of \frac{1}{2} and 1{,}000. A last full stop and spaces around do not
  count. What has a unit is no number, 50% neither: it might be 50 or 0.5.
  """
  text = text.strip().removesuffix('.').replace('−', '-')
  if '\\' in text or '{' in text:
    for latex, plain in _LATEX:
      text = text.replace(latex, plain)
  if len(text) > 2 and text[0] == text[-1] == '$':  # of LaTeX
    text = text[1:-1].strip()
  text = _SIGN_ABOVE.sub(r'-\1', text)
  sign = text[:1] if text.startswith(('+', '-')) else ''
  text = text.removeprefix(sign).removeprefix('$')
  text = _FRACTION.sub(r'\1\3/\2\4', text)
  if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
    return None
  above, _, below = _SEPARATOR.sub('', text).partition('/')
  return Fraction(f'{sign}{above}') / int(below or 1)


def same(answer: str, gold: str) -> bool:
  """Compares as numbers where the gold answer is one, else as normal words."""
  value = number(gold)
  if value is not None:
    return number(answer) == value
  return exact(answer, [gold])


def normal(text: str) -> str:
  """Keeps small letters; drops punctuation, articles and extra spaces.

  As the evaluation of SQuAD does it (arXiv 1606.05250), but nothing that tells
  two answers apart is left out: 3.5 keeps its point, -1 its sign, 10:30 its
  colon, x+1 and C++ their plus, and vitamin A its A, since no article ends a
  text. Spaces around signs do not: x = 5, (1, 2).
  """
  text = unicodedata.normalize('NFC', text).casefold()
  text = ''.join(x for x in text if unicodedata.category(x) != 'Sc')  # $, €
  text = _GROUPS.sub(' ', _POWER.sub(r'^\1', _ANY_FRAC.sub('frac', text)))
  text = _THOUSANDS.sub('', _RANGE.sub('-', _SIGN.sub('-', text)))
  text = _SPACED.sub(lambda m: m[1] or '-', text)
  text = _TUPLE.sub(lambda m: m[0].replace(' ', ''), text)
  needed = {match.start() for match in _KEPT.finditer(text)}
  bare = _SPECIAL.sub(
    lambda m: m[0] if m.start() in needed or not _is_punctuation(m[0]) else '',
    text,
  )
  words = bare.split()
  return ' '.join([x for x in words[:-1] if x not in _ARTICLES] + words[-1:])


def squad_words(text: str) -> str:
  """Splits as SQuAD's evaluation does, where 3.5 is 35: for keys of questions.

  Splits are made by these keys, and must not move.
  """
  bare = text.lower().translate(_ASCII_PUNCTUATION)
  return ' '.join(_ANY_ARTICLE.sub(' ', bare).split())


def _is_punctuation(x: str) -> bool:
  return x in string.punctuation or unicodedata.category(x).startswith('P')


def _words(text: str) -> list[str]:
  """Returns the normal words; of an answer of punctuation alone, all of it."""
  return normal(text).split() or text.casefold().split()


def exact(answer: str, accepted: Sequence[str]) -> bool:
  """Matches the normal words exactly with an accepted answer that has any."""
  words = _words(answer)
  return bool(words) and words in [_words(gold) for gold in accepted]


def f1(answer: str, accepted: Sequence[str]) -> float:
  """Returns the best over accepted answers of

    F₁ = 2 · |common words| / (|words of the answer| + |words accepted|),

  the words normal, and counted as often as they stand.
  """
  words = _words(answer)
  return max((_f1(words, _words(gold)) for gold in accepted), default=0)


def _f1(words: list[str], gold: list[str]) -> float:
  common = (Counter(words) & Counter(gold)).total()
  return 2 * common / (len(words) + len(gold)) if common else 0.0


def f1_of_counts(said: float, right: float, wanted: float) -> float:
  """Returns F₁ = 2 right / (said + wanted); 1 where both are 0."""
  total = said + wanted
  return 2 * right / total if total else 1.0


def rouge_l(answer: str, gold: str) -> float:
  """Scores ROUGE-L, the F₁ of the longest common subsequence of words:

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
