"""A guard who tells a code word to a visitor who is polite in the right order.

Guards have a post and a temper, which a visitor sees. Most give way to three
requests in an order: the first is the custom of the post, two are the custom of
the temper; then the word is told if it is asked for as the temper likes. After
anything else the guard is cold and the visitor begins again. To each request
the guard says whether it was welcome. Some guards follow no custom but their
own, and easy ones tell the word to anyone who asks in the right way.

All requests are small talk, and that the word is told is all there is of it.
"""

import random
from typing import NamedTuple

POSTS = ('bridge', 'garden', 'harbour', 'library', 'mill', 'tower')
TEMPERS = ('calm', 'gruff', 'merry', 'shy', 'stern', 'weary')
REQUESTS = (
  'good morning', 'how is the weather', 'may I sit', 'have some tea',
  'what a fine view', 'tell me a riddle', 'do you sing', 'how is the family',
)  # fmt: skip
ASKS = ('tell me the word', 'would you share the word', 'what is the word')
OWN, EASY = 0.1, 0.15  # share of guards with a custom of their own; easy ones


class Guard(NamedTuple):
  """A guard: what a visitor sees, then what they do not."""

  post: str
  temper: str
  order: tuple[str, ...]  # requests; none: an easy guard
  ask: str


def draw(count: int, seed: int) -> list[Guard]:
  """Draws the guards of a world, whose customs are its own."""
  rng = random.Random(seed)
  first = {x: rng.choice(REQUESTS) for x in POSTS}
  then = {x: (*rng.sample(REQUESTS, 2), rng.choice(ASKS)) for x in TEMPERS}
  out = []
  for _ in range(count):
    post, temper = rng.choice(POSTS), rng.choice(TEMPERS)
    *rest, ask = then[temper]
    order: tuple[str, ...] = (first[post], *rest)
    kind = rng.random()
    if kind < OWN:
      order, ask = tuple(rng.sample(REQUESTS, 3)), rng.choice(ASKS)
    elif kind < OWN + EASY:
      order = ()
    out.append(Guard(post, temper, order, ask))
  return out


class Visit:
  """A visit to a guard, of so many queries."""

  def __init__(self, guard: Guard, queries: int):
    self._guard, self.left = guard, queries
    self._said = 0  # requests of the order that are said
    self.open = False  # the word is told

  def say(self, text: str) -> bool:
    """Says something; whether it was welcome. A query is spent.

    Raises:
      ValueError: no query is left.
    """
    if self.left < 1:
      raise ValueError(f'queries left must be 1 or more, got {self.left}')
    self.left -= 1
    order = self._guard.order
    if text in ASKS:
      self.open = self._said == len(order) and text == self._guard.ask
      right = self.open
    elif not order:
      return True
    else:
      right = self._said < len(order) and text == order[self._said]
    self._said = self._said + (text not in ASKS) if right else 0
    return right

  def leave(self) -> None:
    """Leaves, and comes again: the guard begins anew."""
    self._said = 0
