"""Tools with costs and delays that fail or give wrong answers.

Several tools offer one operation on different terms. Delays are only stated,
like prices, and randomness is a function of seed and call, so a trajectory
replays exactly:

  fails   by (seed, tool, wording, turn): the same call may answer later
  wrong   by (seed, tool, wording): the same call gives the same wrong answer

A wording is the argument without spaces. A wrong answer replaces the last digit
by one of the other nine, with equal probability.
"""

import hashlib
import re
from collections.abc import Callable
from typing import NamedTuple

from agentrl.tool.base import ToolError
from agentrl.tool.calculator import Number, show
from agentrl.tool.schema import schema

DIGITS = 10  # numbers that differ in the last digit alone
MOST = 8  # tools on offer
EXAMPLE = 'exact 1 8 0 0, cheap .1 1 0 .3'
_NAME = re.compile('[a-z][a-z0-9_]*')
_TAKEN = ('answer', 'confidence', 'result', 'think')  # tags of their own


class Offer(NamedTuple):
  """Terms of a tool."""

  name: str
  price: float  # of a call, also of one that fails
  seconds: float  # that a call takes, also one that fails
  failures: float  # share of the calls that fail
  errors: float  # share of the answers that are wrong


class Use(NamedTuple):
  """Record of one call."""

  tool: str
  wording: str
  right: Number | None  # the right answer; None: the argument has none
  answer: Number | None  # the tool's answer; None: none

  @property
  def failed(self) -> bool:
    """Whether the tool failed on an argument that has an answer."""
    return self.right is not None and self.answer is None

  @property
  def wrong(self) -> bool:
    return self.answer is not None and self.answer != self.right


class UnreliableTool:
  """One offer of an operation, valid for one trajectory."""

  schema = schema(['text'], text='string')

  def __init__(
    self,
    offer: Offer,
    description: str,
    evaluate: Callable[[str], Number],
    seed: int,
    turn: Callable[[], int],
    record: Callable[[Use], None],
  ):
    """Stores the offer and the sources of its answers.

    Args:
      offer: its terms.
      description: for the model.
      evaluate: argument -> the right answer; it raises ToolError.
      seed: of the trajectory.
      turn: -> the number of turns before this one.
      record: receives every call, from several threads.
    """
    self.name, self.description = offer.name, description
    self._offer, self._evaluate, self._seed = offer, evaluate, seed
    self._turn, self._record = turn, record

  def __call__(self, text: str) -> str:
    wording = ''.join(text.split())
    try:
      right = self._evaluate(text)
    except ToolError:
      self._record(Use(self.name, wording, None, None))
      raise
    answer = self._answer(wording, right)
    self._record(Use(self.name, wording, right, answer))
    if answer is None:
      raise ToolError('error', f'{self.name} failed')
    return show(answer)

  def _answer(self, wording: str, right: Number) -> Number | None:
    call = self._seed, self.name, wording
    if uniform('fails', *call, self._turn()) < self._offer.failures:
      return None
    if uniform('wrong', *call) < self._offer.errors:
      return wrong(right, uniform('digit', *call))
    return right


def uniform(*parts: str | int) -> float:
  """Hashes the parts with SHA-256 to a number in [0, 1)."""
  digest = hashlib.sha256(repr(parts).encode('utf-8', 'backslashreplace'))
  return (int.from_bytes(digest.digest()[:8]) >> 11) / 2**53


def wrong(right: Number, u: float) -> Number:
  """Picks one of the nine numbers with another last digit, by u in [0, 1)."""
  digit = right % DIGITS
  shift = 1 + int(u * (DIGITS - 1))
  return right - digit + (digit + shift) % DIGITS


def offers(text: str) -> tuple[Offer, ...]:
  """Parses offers from a text such as `EXAMPLE`.

  Raises:
    ValueError: it is malformed.
  """
  fix = f'; write name, price, seconds, failures and errors: {EXAMPLE!r}'
  out = []
  for part in text.split(','):
    try:
      name, *numbers = part.split()
      offer = Offer(name, *map(float, numbers))
    except (TypeError, ValueError):
      raise ValueError(f'tools={text!r} holds {part.strip()!r}{fix}') from None
    if mistake := _mistake(offer):
      raise ValueError(f'tools={text!r} holds {part.strip()!r}, {mistake}{fix}')
    out.append(offer)
  if len({x.name for x in out}) < len(out) or len(out) > MOST:
    raise ValueError(
      f'tools={text!r} must name at most {MOST} different tools{fix}'
    )
  return tuple(out)


def _mistake(offer: Offer) -> str:
  """Returns what is wrong with an offer, else ''."""
  if not _NAME.fullmatch(offer.name) or offer.name in _TAKEN:
    return 'whose name must be an unused lower-case tag'
  if not 0 <= offer.price < 1e6 or not 0 <= offer.seconds < 1e6:
    return 'whose price and seconds must be in [0, 1e6)'
  if not 0 <= offer.failures < 1 or not 0 <= offer.errors <= 1:
    return 'whose failures must be in [0, 1) and errors in [0, 1]'
  return ''


def shown(offer: Offer) -> str:
  """Formats as $1 8s; $0.1 1s wrong 30%; $0.7 1s fails 40%."""
  fails = f' fails {offer.failures:.0%}' if offer.failures else ''
  lies = f' wrong {offer.errors:.0%}' if offer.errors else ''
  return f'${offer.price:g} {offer.seconds:g}s{fails}{lies}'
