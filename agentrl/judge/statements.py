"""Statements: where a text says what its answer is, and nothing against it.

A value in a text is its answer only where it is stated: only words of answers
(`_LEAD`) stand before it in its sentence, and an end, a pause or a reason
behind it:

  7. / **Score:** 7 / I would rate it 7. / First 3, then 4, so 5.

'not 7', 'at least 7', '7 or 8', '7 steps', 'Style: 7' and '7?' state nothing.
A text that states two values, or takes one back, has no answer.
"""

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from typing import NamedTuple

_NOUNS_TEXT = """
  answer choice estimate grade judgement judgment mark number option points
  probability rating response result score total value verdict winner
"""
_OTHERS_TEXT = """
  a an assign award be believe best choose correct deserves earns final get gets
  give gives here i i'd i'll in is it it's my of ok okay opinion output overall
  pick rate rates scale scores sure that that's the think this view would
"""
# What is judged is named beside a word that awards: 'I give the message a 7.',
# but 'The total of the agent is 7.' tells of its work.
_JUDGED_TEXT = """
  agent agent's as assistant assistant's for last message reply trajectory
"""
_AWARDS_TEXT = 'assign award deserves give grade my rate rating'
_NOUNS = frozenset(_NOUNS_TEXT.split())
_LEAD = _NOUNS.union(_OTHERS_TEXT.split())
_JUDGED = frozenset(_JUDGED_TEXT.split())
_AWARDS = frozenset(_AWARDS_TEXT.split())
# 'Based on this analysis, the score is 7.'
_OPENING = re.compile(
  r'^\W*(?:(?:based on|considering|given)\b[^,]*'
  r'|after [^,]*\b(?:analysis|consideration|evaluation|review)'
  r'|as an? [^,]*\bjudge|in (?:conclusion|short|summary)|on balance),'
  r'(?=.*\b(?:assign|award|give|grade|rate|rating|score)\b)'
)
# They begin a statement in the middle of a sentence: 'First 3, so 4.'
_CONNECTIVE = re.compile(
  r'(?:[,:(—–]|(?<= )- )\W{0,4}'
  r'(?:(?:and|but|finally|hence|overall|so|therefore|thus|yet)\b|no(?=[,:]))'
)
# Behind 'approx.' and its like the sentence goes on.
_SENTENCE_END = re.compile(
  r'(?<!\bapprox)(?<!\bmax)(?<!\bmin)(?<!\bca)(?<!\bvs)(?<!\bno)(?<!\be\.g)\.'
  r'|[?;]|!(?!=)'
)
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_SIGN = re.compile(r'[<>≤≥≠≈±~/\\|&%$+^!−]|[:=] ?-')  # changes what follows
_NEUTRAL = r'(?:[^\w.,;:!?()…—–<>≤≥≠≈±~/\\|&%$+=^−-]|_)*'
_PAUSE = re.compile(
  rf'{_NEUTRAL}(?:(?:points?|marks?|pts|enough|reached|of it)\b{_NEUTRAL})?'
  r'(?:\Z|[.,;:!()…—–]|- |(?:because|since)\b)'
)
_HEDGE = re.compile(
  r'[^\w.!]*(?:\?|(?:or|nor|not|if|unless|were|had|maybe|perhaps|possibly'
  r'|otherwise|only|partly|partially|mostly|almost|nearly|somewhat'
  r'|at (?:least|most|best)|but (?:no|not|only))\b)'
)
_RETRACTION = re.compile(
  r'(?:\A|[.,;!?(—–])\s?(?:(?:wait|actually|sorry|correction|scratch that'
  r'|hmm+)\b|no\s?(?:[,.;:!—–-]|\Z))'
)
_REASON = re.compile(r'\b(?:because|since)\b|, (?:as|for)\b')
_REASON_OR_STOP = re.compile(rf'{_REASON.pattern}|[.!](?!\S)')
_LAYOUT_TAG = re.compile(r'</?(?:b|br|div|em|i|p|span|strong|u)/?>')
_TAG = re.compile(r'<(/?)([A-Za-z][\w-]*)>')
_FONT = re.compile(r'\\(?:text|textbf|mathbf|mathrm)\s?\{([^{}]*)\}')
_BOX = re.compile(r'\$?\s?\\boxed\s?\{([^{}]*)\}\s?\$?')


class Mention(NamedTuple):
  """A value that stands in a line."""

  start: int
  end: int
  value: Hashable
  number: bool = False  # beside a word, a number is not an answer
  answer: bool = True  # or it only speaks for one
  denial: bool = False  # 'not' behind it takes nothing back: 'No, not at all.'


def plain_lines(text: str) -> list[str]:
  """Keeps lines that have a letter or digit, without tags and double spaces."""
  text = _BOX.sub(r' \1 ', _FONT.sub(r'\1', text))
  text = _LAYOUT_TAG.sub(' ', text)
  text = _TAG.sub(lambda m: '\n' if m[1] else f'\n{m[2]} ', text)
  text = text.replace('’', "'")
  lines = (' '.join(line.split()) for line in text.splitlines())
  return [x for x in lines if re.search(r'[^\W_]', x)]


def is_label(text: str) -> bool:
  """Tells whether a text is only words of answers, a noun among them."""
  words = set(re.sub(r'[\W_]+', ' ', text.lower()).split())
  return bool(words & _NOUNS) and words <= _LEAD


def only_statement(
  lines: Sequence[str],
  mentions: Callable[[str], Sequence[Mention]],
  verbs: Collection[str] = (),
) -> Mention | None:
  """Reads what the lines state; None if it is nothing, or not certain.

  Args:
    lines: as of `plain_lines`
    mentions: -> all values in a line, in order
    verbs: what may stand before an answer too
  """
  lead = _LEAD.union(verbs)
  every_stated: list[Mention] = []
  certain = False
  for i, line in enumerate(lines):
    every = mentions(line)
    stated = list(_statements(line, every, lead))
    start = (
      0 if every_stated else stated[0].mention.end if stated else len(line)
    )
    if any(map(_RETRACTION.search, _gaps(line, every, start))):
      return None
    every_stated += [x.mention for x in stated]
    if stated and not certain:
      last = stated[-1]
      ends = i == len(lines) - 1 and not _WORD.search(line, last.mention.end)
      certain = (ends and last.labelled) or _alone(line, every, stated[0])
  answers = [x for x in every_stated if x.answer]
  agree = certain and len({x.value for x in every_stated}) == 1
  return answers[0] if answers and agree else None


class _Statement(NamedTuple):
  mention: Mention
  labelled: bool  # 'Score: 7' or 'so 7', not '7'


def _statements(
  line: str, every: Sequence[Mention], lead: frozenset[str]
) -> Iterator[_Statement]:
  gaps = _gaps(line, every)
  for k, mention in enumerate(every):
    # Behind a value that another one follows is no end.
    after = gaps[k + 1] + '0' * (k < len(every) - 1)
    hedge = _HEDGE.match(after)
    if hedge and mention.denial and hedge[0].endswith('not'):
      hedge = None
    if hedge or not _PAUSE.match(after):
      continue
    *ended, head = _SENTENCE_END.split(gaps[k])
    begins = bool(ended) or not k
    head = f', {_OPENING.sub("", head)}' if begins else head
    pieces = _CONNECTIVE.split(head)
    words = _WORD.findall(pieces[-1])
    allowed = lead if _AWARDS.isdisjoint(words) else lead | _JUDGED
    stated = allowed.issuperset(words) and not _SIGN.search(pieces[-1])
    if stated and (begins or len(pieces) > 1):
      yield _Statement(mention, len(pieces) > 1 or not _NOUNS.isdisjoint(words))


def _gaps(line: str, every: Sequence[Mention], start: int = 0) -> list[str]:
  """Returns what stands before, between and behind mentions from a place."""
  left = [x for x in every if x.start >= start]
  starts = [start, *(x.end for x in left)]
  ends = [*(x.start for x in left), len(line)]
  return [line[a:b].lower() for a, b in zip(starts, ends, strict=True)]


def _alone(line: str, every: Sequence[Mention], stated: _Statement) -> bool:
  """Returns whether the line has no other value, but in a reason for this one.

  Sentences behind 'Score: 7.' are reasons; behind '7.', which may be the number
  of a list, they are not.
  """
  own = stated.mention
  begins = _REASON_OR_STOP if stated.labelled else _REASON
  reason = begins.search(line.lower(), own.end)
  end = reason.start() if reason else len(line)
  return all(
    x.value == own.value or (x.number and not own.number)
    for x in every
    if x.start < end
  )
