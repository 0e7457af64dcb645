"""Answers of judges, read: numbers, grades, choices, numbered lines.

What cannot be read for certain is a fault: a turn without a score is left out,
one with a wrong score is learned from. What is certain is in statements.py.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar, cast

from agentrl.judge import statements
from agentrl.judge.item import JudgeFault
from agentrl.judge.statements import Mention
from agentrl.text.tool_calls.base import spoken

T = TypeVar('T')

LONGEST = 100_000  # characters of an answer that is read
_SCALAR = str | bool | int | float  # of JSON
_SHOWN = 80  # characters of it in a fault
# Also what is part of a word, a date, a version, a range or a share.
_NUMERIC = re.compile(r'[\w.,/%+\-−]+')
_PLAIN = re.compile(r'[-+]?(?:\d+(?:\.\d*)?|\.\d+)', re.ASCII)
_PERCENT = r'%|per ?cent\b'
_MARKS = '[*_`]*'  # of Markdown
# '1: yes', '2) no', '- **3.** yes', '[4] no', '"5": yes', '| 6 | no |'
_LINE = re.compile(
  r'[\W_]*([0-9]{1,4})[*_`"\']*\s*(?:[:)\]=|]|[.\-–—](?!\d))(.*)'
)
_ITEM = re.compile(r'\W*(\d+)[.)]\s')
_FENCE = re.compile(r'```\w*\n(.*?)```', re.DOTALL)
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
  """Returns the text. Raises JudgeFault for one too long to be an answer."""
  if len(text) > LONGEST:
    raise JudgeFault(
      f'an answer of {len(text)} characters, of which {LONGEST} are read'
    )
  return text


def scale(most: float) -> str:
  """Writes the end of a scale as a judge reads and writes it."""
  return f'{most:.15g}'


def number(text: str, most: float = 1.0) -> float:
  """Returns the number that an answer states, over `most`: in [0, 1].

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
  """Finds what says in a line on which scale a number is."""
  top = rf'{re.escape(scale(most))}(?:\.0+)?(?![.,]?\w|[/%])'
  ends = rf'(?<![\w.,/%+−-])[01](?:\.0+)? ?(?:to|through|[-–—]) ?{top}'
  on = r'\b(?:on|in|using) (?:an?|the)'
  possible = r'(?: an?| the)?(?: possible| maximum| total)?'
  share = rf'(?:/|(?:points? )?(?:out )?of{possible}) ?{_MARKS}{top}'
  return re.compile(
    rf'(?<=[\d.]){_MARKS}[ ,]?[ (]?(?:{share})(?: stars\b)?'
    + rf'|(?<=[\d.]) ?(?:{_PERCENT})' * (most == 100)
    + rf'|(?:{on} )?\bscale (?:of|from) (?:{ends}|{top})'
    rf'|{on} (?:{ends}|{top})[ -](?:point )?scale\b'
    rf'|\bout of{possible} {top}'
    rf'|\bbetween [01] and {top}'
    rf'|(?:\b(?:from|of|in) )?{ends}',
    re.IGNORECASE,
  )


def _numbers(line: str) -> list[Mention]:
  """Reads the numbers of a line: floats, or texts where they are not plain."""
  out = []
  for match in _NUMERIC.finditer(line):
    if re.search(r'\d', match[0]):
      word = match[0].lstrip('_,').rstrip('.,_')
      start = match.start() + match[0].index(word)
      value = float(word) if _PLAIN.fullmatch(word) else word
      out.append(Mention(start, start + len(word), value, number=True))
  return out


def _without_items(lines: list[str]) -> list[str]:
  """Drops the numbers of a list from lines: '1. a', '2. b', and so on."""
  items = [(i, m) for i, x in enumerate(lines) if (m := _ITEM.match(x))]
  order = [m[1] for _, m in items]
  if len(items) > 1 and order == [str(k + 1) for k in range(len(order))]:
    lines = list(lines)
    for i, match in items:
      lines[i] = lines[i][match.end() :]
  return lines


def grade(text: str, grades: tuple[str, ...]) -> float:
  """Returns 1 for the first of n grades, 0 for the last: 1 − i / (n − 1).

  Capitals matter in grades of one letter.

  Raises:
    JudgeFault: the answer states none, or several.
  """
  same_letters = len({x.lower() for x in grades}) < len(grades)
  words = '|'.join(
    re.escape(x) if same_letters or len(x) == 1 else f'(?i:{re.escape(x)})'
    for x in sorted(grades, key=len, reverse=True)
  )
  pattern = re.compile(
    rf'(?<![^\W_])(?<![.+−-])(?:{words})(?![^\W_]|[+−-]|[.,]\w)'
  )
  of = (
    {x: x for x in grades} if same_letters else {x.lower(): x for x in grades}
  )
  stated = statements.only_statement(
    _readable(text),
    lambda line: [
      Mention(*m.span(), of.get(m[0]) or of[m[0].lower()])
      for m in pattern.finditer(line)
    ],
    verbs=('say',),
  )
  if stated is None:
    raise JudgeFault(
      f'the judge answered {text[-_SHOWN:]!r}, which does not state one of'
      f' {grades}'
    )
  return 1 - grades.index(str(stated.value)) / (len(grades) - 1)


def choice(
  text: str,
  options: Mapping[str, T],
  asides: Mapping[str, T] | None = None,
  verbs: Collection[str] = (),
) -> T:
  """Returns the value of the option, in small letters, that an answer states.

  Args:
    asides: what is no answer, but speaks for one of the values
    verbs: what may stand before an answer too

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
        mention = Mention(*match.span(), values[name], answer=answer)
        out.append(mention._replace(denial=name == 'no'))
    return sorted(out, key=lambda x: x.start)

  lines = [x.lower() for x in _readable(text)]
  stated = statements.only_statement(lines, mentions, verbs)
  if stated is None:
    raise JudgeFault(f'the judge answered {text[:_SHOWN]!r}, no plain choice')
  return cast(T, stated.value)


def yes_or_no(text: str) -> bool:
  """Returns the stated yes or no. Raises JudgeFault where there is neither."""
  return choice(_YES_IT_IS.sub(r'\1,', text), _YES_OR_NO, _ASIDES)


def _readable(text: str) -> list[str]:
  """Returns the lines behind an answer's thought; of an object, its answer."""
  text = spoken(check_size(text))
  before, value, after = _around_json(text)
  if isinstance(value, tuple):
    labelled = [x for x in value if statements.is_label(x[0])]
    name, x = labelled[0] if len(labelled) == 1 else ('', None)
    # Beside other text, its name says that it is the answer.
    label = f'{name}: ' if f'{before}{after}'.strip() else ''
    given = f'{label}{_scalar_text(x)}' if isinstance(x, _SCALAR) else ''
    text = f'{before}\n{given}\n{after}'
  return statements.plain_lines(text)


def lines(text: str, count: int) -> dict[int, str]:
  """Reads numbered lines, '1: yes' or '2) no': number -> rest of the line.

  Or, in JSON, an object, {"1": true}, or a list, [true, false], all of the text
  or in a fence of code. What has no number, and null, is not read.

  Args:
    count: how many things were asked about, from 1 on

  Raises:
    JudgeFault: a number stands twice, with different text, or is none of these.
  """
  out: dict[int, str] = {}
  before, value, after = _around_json(spoken(check_size(text)))
  entries = [*_line_entries(f'{before}\n{after}'), *_json_entries(value)]
  for i, rest in entries:
    if not 1 <= i <= count:
      raise JudgeFault(f'the judge answered to {i}, of {count}')
    if out.setdefault(i, rest) != rest:
      raise JudgeFault(f'the judge answered twice to {i}')
  return out


def numbered(text: str, count: int) -> list[str]:
  """Reads `lines` as a list. Raises JudgeFault also where one is left out."""
  given = lines(text, count)
  for i in range(1, count + 1):
    if i not in given:
      raise JudgeFault(f'the judge left out {i}, of {count}')
  return [given[i] for i in range(1, count + 1)]


def _line_entries(text: str) -> Iterable[tuple[int, str]]:
  for line in text.splitlines():
    if match := _LINE.match(line):
      # Cells of a table are sentences.
      rest = match[2].replace('|', '; ') if '|' in line[:4] else match[2]
      yield int(match[1]), rest.strip(' \t*_`;')


def _json_entries(value: Any) -> Iterable[tuple[int, str]]:
  """Lists numbers and scalars of an object or a list."""
  pairs = enumerate(value, 1) if isinstance(value, list) else value
  for i, x in pairs if isinstance(value, list | tuple) else ():
    if re.fullmatch('[0-9]{1,4}', str(i)) and isinstance(x, _SCALAR):
      yield int(i), _scalar_text(x)


def _around_json(text: str) -> tuple[str, Any, str]:
  """Finds JSON in a text, whole or fenced: (text before, value, text behind).

  An object is a tuple of pairs, since a key may stand in it twice. None, and
  all of the text before it, where there is none or two.
  """
  if (value := _json_value(text)) is not None:
    return '', value, ''
  fences = [(x, _json_value(x[1])) for x in _FENCE.finditer(text)]
  in_json = [x for x in fences if x[1] is not None]
  if len(in_json) != 1:
    return text, None, ''
  ((match, value),) = in_json
  return text[: match.start()], value, text[match.end() :]


def _json_value(text: str) -> Any:
  try:
    return json.loads(text, object_pairs_hook=tuple)
  except (ValueError, RecursionError):
    return None


def _scalar_text(x: str | bool | float) -> str:
  return x if isinstance(x, str) else json.dumps(x)
