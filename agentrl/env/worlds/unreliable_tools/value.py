"""Value of the best way to query unreliable tools, by dynamic programming.

The agent takes the number from tools alone. An answer of tool t is right with
chance 1 − e_t, and else one of nine others with chance e_t / 9 each
(agentrl/tool/unreliable.py). All answers to a question are within the same
ten numbers, so that what they say is a posterior over ten candidates:

  b(v) ∝ Π_answers ((1 − e_t) if it is v else e_t / 9)

  V(b, n) = max(max_v b(v), max_t Σ_a P(a | b, t) V(b_a, n − 1) − c_t)
  V(b, 0) = max_v b(v)
  c_t = (price weight · price_t + seconds weight · seconds_t) / (1 − f_t)

n answers are left to ask for; c_t is the expected cost of one, for a call that
fails, with chance f_t, is paid and made again. Before the first answer nothing
is expected of a guess. The policies over which this is the best are those that
ask the question itself, in new words each time, at most `ANSWERS` times.
"""

import functools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from agentrl.tool.calculator import Number
from agentrl.tool.unreliable import DIGITS, Offer

ANSWERS = 3  # that the expert asks for at most

Answers = Mapping[tuple[int, str], Number]  # to a question, by (tool, wording)
Votes = tuple[tuple[int, ...], ...]  # per candidate: who gave it, sorted


class Terms(NamedTuple):
  """Error rates and costs of the tools, by their place."""

  errors: tuple[float, ...]
  costs: tuple[float, ...]  # of an answer


def weigh(
  offers: Sequence[Offer], price_weight: float, seconds_weight: float
) -> Terms:
  """Returns the tools as the expert sees them."""
  costs = tuple(
    cost(x.price, x.seconds, price_weight, seconds_weight) / (1 - x.failures)
    for x in offers
  )
  return Terms(tuple(x.errors for x in offers), costs)


def cost(
  price: float, seconds: float, price_weight: float, seconds_weight: float
) -> float:
  """Converts money and time to a part of the score."""
  return price_weight * price + seconds_weight * seconds


def votes(answers: Answers) -> Votes:
  """Returns who gave which answer."""
  return _ordered(_by_value(answers).values())


def value(terms: Terms, given: Votes) -> float:
  """Returns V: the expected score less the costs to come, see above."""
  return _value(terms, given, _left(given))


def choice(terms: Terms, given: Votes) -> int | None:
  """Returns the tool that the expert queries next; None: it answers."""
  left = _left(given)
  returns = [
    _query(terms, given, left, tool) if left else -math.inf
    for tool in range(len(terms.errors))
  ]
  best = max(returns)
  return None if best <= _stop(terms, given) else returns.index(best)


def likeliest(terms: Terms, answers: Answers) -> Number:
  """Returns the answer that is most likely right, of one or more."""
  given = votes(answers)
  chances = dict(zip(given, posterior(terms, given)[:-1], strict=True))
  by_value = _by_value(answers)
  return max(by_value, key=lambda x: chances[tuple(sorted(by_value[x]))])


def posterior(terms: Terms, given: Votes) -> list[float]:
  """Returns the chance of each candidate given, then of one of the rest.

  The rest are alike; they have one entry between them, the chance of each.
  """
  total = Counter(tool for group in given for tool in group)
  logs = []
  for group in (*given, ()):
    own = Counter(group)
    logs.append(
      sum(
        _log(n, 1 - e) + _log(total[tool] - n, e / (DIGITS - 1))
        for tool, e in enumerate(terms.errors)
        for n in [own[tool]]
      )
    )
  weights = [math.exp(x - max(logs)) for x in logs]
  whole = sum(weights[:-1]) + (DIGITS - len(given)) * weights[-1]
  return [x / whole for x in weights]


def _by_value(
  answers: Answers,
) -> dict[Number, list[int]]:
  out: dict[Number, list[int]] = {}
  for (tool, _), answer in answers.items():
    out.setdefault(answer, []).append(tool)
  return out


def _left(given: Votes) -> int:
  return max(0, ANSWERS - sum(map(len, given)))


def _log(n: int, p: float) -> float:
  """Returns log pⁿ, also for p = 0."""
  return 0.0 if not n else n * math.log(p) if p else -math.inf


def _ordered(groups: Iterable[Iterable[int]]) -> Votes:
  return tuple(sorted(tuple(sorted(group)) for group in groups))


def _stop(terms: Terms, given: Votes) -> float:
  """Returns the chance that the likeliest candidate is right."""
  if not given:
    return 0.0
  chances = posterior(terms, given)
  return max(chances if len(given) < DIGITS else chances[:-1])


@functools.lru_cache(maxsize=1 << 16)
def _value(terms: Terms, given: Votes, left: int) -> float:
  best = _stop(terms, given)
  for tool in range(len(terms.errors) if left else 0):
    best = max(best, _query(terms, given, left, tool))
  return best


def _query(terms: Terms, given: Votes, left: int, tool: int) -> float:
  """Returns the value of one more answer of a tool, less its cost."""
  e = terms.errors[tool]
  *voted, other = posterior(terms, given)
  after = [
    (_chance(p, e), (*given[:i], (*given[i], tool), *given[i + 1 :]))
    for i, p in enumerate(voted)
  ]
  rest = DIGITS - len(given)
  after.append((rest * _chance(other, e), (*given, (tool,))))
  # What cannot be has no posterior.
  expected = sum(
    p * _value(terms, _ordered(then), left - 1) for p, then in after if p
  )
  return expected - terms.costs[tool]


def _chance(p: float, e: float) -> float:
  """Returns P(a tool gives a candidate whose chance to be right is p)."""
  return p * (1 - e) + (1 - p) * e / (DIGITS - 1)
