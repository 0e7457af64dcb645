"""Answers of judges, read: numbers, grades, choices, numbered lines.

What cannot be read for certain is a fault: a turn without a score is left out,
one with a wrong score is learned from.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from agentrl.judge.item import JudgeFault

T = TypeVar('T')

LONGEST = 100_000  # characters of an answer that is read
_SHOWN = 80  # characters of it in a fault
# Also what is part of a word, a date, a version, a range or a share.
_NUMERIC = re.compile(r'[\w.,/%+\-−]+')
_PLAIN = re.compile(r'[-+]?(?:\d+(?:\.\d*)?|\.\d+)', re.ASCII)
_EITHER = r'/|\||&|or\b|and\b'  # between two answers: none of them
_PERCENT = r'%|per ?cent\b'
# '1: yes', '2) no', '- **3.** yes', '[4] no', '"5": yes', '| 6 | no |'
_LINE = re.compile(
  r'[\W_]*([0-9]{1,4})[*_`"\']*\s*(?:[:)\]=|]|[.\-–—](?!\d))(.*)'
)
_FENCE = re.compile(r'\s*```\w*\n(.*)```\s*', re.DOTALL)
_YES_OR_NO = {
  **dict.fromkeys(('yes', 'true', 'good', 'met', '1'), True),
  **dict.fromkeys(('no', 'false', 'bad', 'unmet', '0'), False),
  **dict.fromkeys(('not met', 'not true', 'not good'), False),
}


def check_size(text: str) -> str:
  """The text. Raises JudgeFault for one that is too long to be an answer."""
  if len(text) > LONGEST:
    raise JudgeFault(
      f'an answer of {len(text)} characters, of which {LONGEST} are read'
    )
  return text


def scale(most: float) -> str:
  """The end of a scale as a judge reads it, and writes it."""
  return f'{most:.15g}'


def number(text: str, most: float = 1.0) -> float:
  """The last number of an answer, over `most`: in [0, 1].

  The scale itself is no number of the answer: '8/10', '8 out of 10', '8, from 0
  to 10' are 8 where `most` is 10, and '80%' is 80 where it is 100.

  Raises:
    JudgeFault: there is none, it is not in [0, most], or it is part of what is
      no plain number: '1,000', '1e3', '2-3', '8/9', 'v0.5', '٣'.
  """
  top = rf'{re.escape(scale(most))}(?![.,]?\w|[/%])'
  share = rf'(?:/|of)\s*{top}' + f'|{_PERCENT}' * (most == 100)
  bare = re.sub(
    rf'(?<=[\d.])\s*(?:{share})|\bout of {top}'
    rf'|(?<![\w.,/%+−-])0\s*(?:to|-|–)\s*{top}',
    ' ',
    check_size(text),
  )
  words = [m for m in _NUMERIC.finditer(bare) if re.search(r'\d', m[0])]
  start, end = words[-1].span() if words else (0, 0)
  last = bare[start:end].lstrip('_,').rstrip('.,_')
  whole = not (
    re.search(r'\d\s*(?:/|of)\s*$', bare[:start])
    or re.match(rf'\s*(?:{_PERCENT}|/)', bare[end:])
  )
  if not (whole and _PLAIN.fullmatch(last) and 0 <= float(last) <= most):
    raise JudgeFault(
      f'the judge answered {text[-_SHOWN:]!r}, whose last number is not in'
      f' [0, {most:g}]'
    )
  return float(last) / most


def grade(text: str, grades: tuple[str, ...]) -> float:
  """1 for the first of n grades, 0 for the last: 1 − i / (n − 1).

  The grade is what the answer ends with, or the only one of them that it has
  as a word of its own. Capitals matter.

  Raises:
    JudgeFault: there is none, or there are several, none of which is the end.
  """
  words = '|'.join(re.escape(x) for x in sorted(grades, key=len, reverse=True))
  matches = list(
    re.finditer(
      rf'(?<![^\W_])(?<![.+−-])(?:{words})(?![^\W_]|[+−-]|\.\w)',
      check_size(text),
    )
  )
  if not matches or (len({m[0] for m in matches}) > 1 and not _ends(matches)):
    raise JudgeFault(
      f'the judge answered {text[-_SHOWN:]!r}, not one of {grades}'
    )
  return 1 - grades.index(matches[-1][0]) / (len(grades) - 1)


def _ends(matches: Sequence[re.Match[str]]) -> bool:
  """Whether the last match ends the text, and is no 'B' of 'A or B'."""
  before, last = matches[-2:]
  between = last.string[before.end() : last.start()]
  alone = not re.fullmatch(rf'\s*(?:{_EITHER})\s*', between)
  return alone and not re.search(r'[^\W_]', last.string[last.end() :])


def choice(text: str, options: Mapping[str, T]) -> T:
  """The value of the option, in small letters, that an answer begins with.

  Raises:
    JudgeFault: it begins with none, or with several: 'yes or no', '1/2'.
  """
  check_size(text)
  words = '|'.join(re.escape(x) for x in sorted(options, key=len, reverse=True))
  several = rf'\s*(?:{_EITHER})\s*(?:{words})(?![^\W_])'
  part = r'[^\W_]|[.,:/−-]?\d|\s*%'
  match = re.match(
    rf'[\W_]*(?<![.,/+−-](?=\d))({words})(?!{part}|{several})', text.lower()
  )
  if match is None:
    raise JudgeFault(f'the judge answered {text[:_SHOWN]!r}, no plain choice')
  return options[match[1]]


def yes_or_no(text: str) -> bool:
  """The first word, as yes or no. Raises JudgeFault where it is neither."""
  return choice(text, _YES_OR_NO)


def lines(text: str, count: int) -> dict[int, str]:
  """Numbered lines, '1: yes' or '2) no': number -> the rest of the line.

  Or, in JSON, an object, {"1": true}, or a list, [true, false], with or without
  a fence of code around it. What has no number, and null, is not read.

  Args:
    count: how many things were asked about, from 1 on

  Raises:
    JudgeFault: a number stands twice, with different text, or is none of these.
  """
  out: dict[int, str] = {}
  entries = _json_entries(check_size(text))
  for i, rest in _line_entries(text) if entries is None else entries:
    if not 1 <= i <= count:
      raise JudgeFault(f'the judge answered to {i}, of {count}')
    if out.setdefault(i, rest) != rest:
      raise JudgeFault(f'the judge answered twice to {i}')
  return out


def numbered(text: str, count: int) -> list[str]:
  """`lines` as a list. Raises JudgeFault also where one is left out."""
  given = lines(text, count)
  for i in range(1, count + 1):
    if i not in given:
      raise JudgeFault(f'the judge left out {i}, of {count}')
  return [given[i] for i in range(1, count + 1)]


def _line_entries(text: str) -> Iterable[tuple[int, str]]:
  for match in map(_LINE.match, text.splitlines()):
    if match:
      yield int(match[1]), match[2].strip(' \t*_`')


def _json_entries(text: str) -> list[tuple[int, str]] | None:
  """Numbers and scalars of a JSON object or list; None: it is neither."""
  fence = _FENCE.fullmatch(text)
  try:
    # An object becomes a tuple of pairs, for a key may stand in it twice.
    value = json.loads(fence[1] if fence else text, object_pairs_hook=tuple)
  except (ValueError, RecursionError):
    return None
  if isinstance(value, list):
    pairs = [(str(i), x) for i, x in enumerate(value, 1)]
  elif isinstance(value, tuple):
    pairs = list(value)
  else:
    return None
  return [
    (int(i), x if isinstance(x, str) else json.dumps(x))
    for i, x in pairs
    if re.fullmatch('[0-9]{1,4}', i) and isinstance(x, str | bool | int | float)
  ]
