"""Answers of judges, read: numbers, grades, choices, numbered lines.

What cannot be read for certain is a fault: a turn without a score is left out,
one with a wrong score is learned from. What is certain is in statements.py.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from agentrl.judge import statements
from agentrl.judge.item import JudgeFault
from agentrl.judge.statements import Mention
from agentrl.text.tool_calls.base import spoken

T = TypeVar('T')

LONGEST = 100_000  # characters of an answer that is read
_SHOWN = 80  # characters of it in a fault
# Also what is part of a word, a date, a version, a range or a share.
_NUMERIC = re.compile(r'[\w.,/%+\-−]+')
_PLAIN = re.compile(r'[-+]?(?:\d+(?:\.\d*)?|\.\d+)', re.ASCII)
_PERCENT = r'%|per ?cent\b'
# '1: yes', '2) no', '- **3.** yes', '[4] no', '"5": yes', '| 6 | no |'
_LINE = re.compile(
  r'[\W_]*([0-9]{1,4})[*_`"\']*\s*(?:[:)\]=|]|[.\-–—](?!\d))(.*)'
)
_ITEM = re.compile(r'\W*(\d+)[.)]\s')
_FENCE = re.compile(r'\s*```\w*\n(.*)```\s*', re.DOTALL)
_YES_OR_NO = {
  **dict.fromkeys(('yes', 'true', 'good', 'met', '1'), True),
  **dict.fromkeys(('no', 'false', 'bad', 'unmet', '0'), False),
  **dict.fromkeys(('not met', 'not true', 'not good'), False),
}
_YES_IT_IS = re.compile(
  r'(?<!\w)(yes|no)(?= (?:he|it|she|that|the|there|they|this)\b)', re.IGNORECASE
)
# No answers of their own, but what they say of one that is given.
_ASIDES = {
  **dict.fromkeys(('right', 'correct', 'not bad', 'not wrong'), True),
  **dict.fromkeys(('not false', 'not incorrect', 'not unmet'), True),
  **dict.fromkeys(('wrong', 'incorrect', 'not right', 'not correct'), False),
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
  """The number that an answer states, over `most`: in [0, 1].

  The scale itself is no number of the answer: '8/10', '8 out of 10', '8, from 0
  to 10', '8 on a scale of 1 to 10' are 8 where `most` is 10, and '80%' is 80
  where it is 100.

  Raises:
    JudgeFault: there is none, it is not in [0, most], or it is part of what is
      no plain number: '1,000', '1e3', '2-3', '8/9', 'v0.5', '٣'.
  """
  of_scale = _scale_pattern(most)
  lines = [of_scale.sub(' ', x) for x in _without_items(_readable(text))]
  stated = statements.only_statement(lines, _numbers, verbs=('say',))
  value = stated.value if stated else None
  if not (isinstance(value, float) and 0 <= value <= most):
    raise JudgeFault(
      f'the judge answered {text[-_SHOWN:]!r}, which does not state one number'
      f' in [0, {most:g}]'
    )
  return abs(value) / most  # -0 is 0


def _scale_pattern(most: float) -> re.Pattern[str]:
  """What says on which scale a number is, in a line."""
  top = rf'{re.escape(scale(most))}(?:\.0+)?(?![.,]?\w|[/%])'
  ends = rf'(?<![\w.,/%+−-])[01](?:\.0+)? ?(?:to|through|[-–—]) ?{top}'
  on = r'\b(?:on|in|using) (?:an?|the)'
  possible = r'(?: an?| the)?(?: possible| maximum| total)?'
  share = rf'(?:/|(?:points? )?(?:out )?of{possible}) ?{top}'
  return re.compile(
    rf'(?<=[\d.])[ ,]?[ (]?(?:{share})'
    + rf'|(?<=[\d.]) ?(?:{_PERCENT})' * (most == 100)
    + rf'|(?:{on} )?\bscale (?:of|from) (?:{ends}|{top})'
    rf'|{on} (?:{ends}|{top})[ -](?:point )?scale\b'
    rf'|\bout of{possible} {top}'
    rf'|\bbetween [01] and {top}'
    rf'|(?:\b(?:from|of|in) )?{ends}',
    re.IGNORECASE,
  )


def _numbers(line: str) -> list[Mention]:
  """The numbers of a line: floats, or texts where they are not plain."""
  out = []
  for match in _NUMERIC.finditer(line):
    if re.search(r'\d', match[0]):
      word = match[0].lstrip('_,').rstrip('.,_')
      start = match.start() + match[0].index(word)
      value = float(word) if _PLAIN.fullmatch(word) else word
      out.append(Mention(start, start + len(word), value, number=True))
  return out


def _without_items(lines: list[str]) -> list[str]:
  """The lines without the numbers of a list: '1. a', '2. b', and so on."""
  items = [(i, m) for i, x in enumerate(lines) if (m := _ITEM.match(x))]
  order = [m[1] for _, m in items]
  if len(items) > 1 and order == [str(k + 1) for k in range(len(order))]:
    lines = list(lines)
    for i, match in items:
      lines[i] = lines[i][match.end() :]
  return lines


def grade(text: str, grades: tuple[str, ...]) -> float:
  """1 for the first of n grades, 0 for the last: 1 − i / (n − 1).

  Capitals matter.

  Raises:
    JudgeFault: the answer states none, or several.
  """
  words = '|'.join(re.escape(x) for x in sorted(grades, key=len, reverse=True))
  pattern = re.compile(
    rf'(?<![^\W_])(?<![.+−-])(?:{words})(?![^\W_]|[+−-]|[.,]\w)'
  )
  stated = statements.only_statement(
    _readable(text),
    lambda x: [Mention(*m.span(), m[0]) for m in pattern.finditer(x)],
    verbs=('say',),
  )
  if stated is None:
    raise JudgeFault(
      f'the judge answered {text[-_SHOWN:]!r}, which does not state one of'
      f' {grades}'
    )
  return 1 - grades.index(str(stated.value)) / (len(grades) - 1)


def choice(
  text: str, options: Mapping[str, T], asides: Mapping[str, T] | None = None
) -> T:
  """The value of the option, in small letters, that an answer states.

  Args:
    asides: what is no answer, but speaks for one of the values

  Raises:
    JudgeFault: it states none, or several: 'yes or no', '1/2'.
  """
  values = {**(asides or {}), **options}
  names = sorted((x for x in values if not x.isdigit()), key=len, reverse=True)
  # 'no' before another word, as in 'no doubt', is not an answer.
  pattern = re.compile(
    rf'(?<![^\W_])(?:{"|".join(map(re.escape, names)) or r"(?!)"})'
    r'(?![^\W_]|[.,:/−-]?\d)'
    r'(?!(?<=\bno) (?!(?:because|since|or|and)\b)[^\W\d_])'
  )

  def mentions(line: str) -> list[Mention]:
    out = []
    for x in _numbers(line):
      name = line[x.start : x.end]
      value = options.get(name, name)
      out.append(x._replace(value=value, answer=name in options))
    inside = {i for x in out for i in range(x.start, x.end)}
    for match in pattern.finditer(line):
      if match.start() not in inside:
        name = match[0]
        answer = name in options
        out.append(Mention(*match.span(), values[name], answer=answer))
    return sorted(out, key=lambda x: x.start)

  lines = [x.lower() for x in _readable(text)]
  stated = statements.only_statement(lines, mentions)
  if stated is None:
    raise JudgeFault(f'the judge answered {text[:_SHOWN]!r}, no plain choice')
  return cast(T, stated.value)


def yes_or_no(text: str) -> bool:
  """The yes or no that is stated. Raises JudgeFault where there is neither."""
  return choice(_YES_IT_IS.sub(r'\1,', text), _YES_OR_NO, _ASIDES)


def _readable(text: str) -> list[str]:
  """The lines of an answer behind its thought, or of the answer in JSON."""
  text = spoken(check_size(text))
  value = _json_value(text)
  if isinstance(value, tuple):
    given = [x for name, x in value if statements.is_label(name)]
    scalar = len(given) == 1 and isinstance(given[0], str | bool | int | float)
    text = _scalar_text(given[0]) if scalar else ''
  return statements.plain_lines(text)


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
  text = spoken(check_size(text))
  entries = _json_entries(text)
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
  value = _json_value(text)
  if isinstance(value, list):
    pairs = [(str(i), x) for i, x in enumerate(value, 1)]
  elif isinstance(value, tuple):
    pairs = list(value)
  else:
    return None
  return [
    (int(i), _scalar_text(x))
    for i, x in pairs
    if re.fullmatch('[0-9]{1,4}', i) and isinstance(x, str | bool | int | float)
  ]


def _json_value(text: str) -> Any:
  """The value, an object as a tuple of pairs; None where it is not JSON."""
  fence = _FENCE.fullmatch(text)
  try:
    # A key may stand in an object twice.
    return json.loads(fence[1] if fence else text, object_pairs_hook=tuple)
  except (ValueError, RecursionError):
    return None


def _scalar_text(x: str | bool | float) -> str:
  return x if isinstance(x, str) else json.dumps(x)
