"""Tools that a demonstration calls, and the reason that it states.

`sure` calls the best tool without faults, `every` any tool and then that one.
`needed` is SMART's (arXiv 2502.11435): a call only where the question takes
one, behind a thought that says so; `never` answers by heart.
"""

from collections.abc import Sequence
from typing import Annotated

import numpy as np

from agentrl import domain

WAYS = ('sure', 'every', 'needed', 'never')
Way = Annotated[str, domain.OneOf(*WAYS)]


def tools(
  offers: Sequence[Sequence],
  costs: Sequence[float],
  way: str,
  rng: np.random.Generator,
) -> tuple[str, ...] | None:
  """Names the tools, in order; None where no tool is without faults.

  The cheapest of those without faults is the last one. By `every` one that is
  drawn goes before it, unless it is the same; by `never` there are none.

  Args:
    offers: (name, price, seconds, share of failures, share of errors) each
    costs: of a call, weighed, one for each offer
    way: one of WAYS
  """
  if way == 'never':
    return ()
  sure = [
    (cost, name)
    for cost, (name, _, _, fails, errors) in zip(costs, offers, strict=True)
    if not fails and not errors
  ]
  if not sure:
    return None
  first = last = min(sure)[1]
  if way == 'every':
    first = offers[int(rng.integers(len(offers)))][0]
  return (last,) if first == last else (first, last)


def reason(easy: bool) -> str:
  """Returns the thought before a call or an answer."""
  return f'<think>{"small" if easy else "large"} numbers</think>'
