"""A scripted shopper, whose sessions in the shop become logs.

It has a goal that nobody else is shown. It searches for it in words, looks at
the first product of the right kind that it can pay, chooses the options it
wants and buys; goes back where one is not offered; turns the page; searches
once more in fewer words; and leaves when it has looked at enough.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agentrl.env.worlds.shop.action_reward import ShopperAction
from agentrl.env.worlds.shop.env import ShopEnv, wanted_thing

FIELD = 'search'  # name of the only field to type into
_LOOKS = 2  # products it looks at before it leaves
_PAGES = 2  # of results that it reads for one search
_PRODUCT = re.compile(r'^\[([^\]]+)\] (.*) \$([\d.]+)$', re.MULTILINE)
_OPTION = re.compile(r'^(\w+): (\[.*)$', re.MULTILINE)
_VALUE = re.compile(r'\[([^\]]*)\]( \(chosen\))?')
_DETAIL = re.compile(r',[^$\n]*(?= \$)')  # of a title
_UNUSED = re.compile(r' ?\[(?:description|back)\]')  # buttons it never clicks


class LoggedAction(NamedTuple):
  """An action of a session."""

  page: str  # on which it was taken, cut to what matters
  action: ShopperAction
  command: str  # to the shop; '': none
  why: str = ''  # the shopper's reason, in a few words


def session(shop: ShopEnv, goal: Mapping[str, Any]) -> list[LoggedAction]:
  """Returns all actions of one session, from the first search to the last."""
  shop.reset(goal, 0)
  shopper, log = _Shopper(goal), list[LoggedAction]()
  page = ''  # the first one states the goal
  choice = shopper.search()
  while True:
    log.append(LoggedAction(short_page(page), *choice))
    _, command, _ = choice
    if not command:
      return log
    step = shop.step(command)
    if step.done:
      return log
    page = step.text
    choice = shopper.choose(page)


def queries(goal: Mapping[str, Any]) -> list[str]:
  """Lists searches of a session: first all that is wanted, then its kind."""
  thing = wanted_thing(goal)
  return [
    ' '.join([*goal['options'].values(), thing, *goal['attributes']]),
    thing,
  ]


def short_page(page: str) -> str:
  """Shows a page of the shop without details of titles and unused buttons."""
  return _UNUSED.sub('', _DETAIL.sub('', page)).strip()


Choice = tuple[ShopperAction, str, str]  # action, command and reason


class _Shopper:
  """The shopper's memory of a session."""

  def __init__(self, goal: Mapping[str, Any]):
    self._goal = goal
    self._thing = wanted_thing(goal)
    self._queries = queries(goal)
    self._seen: set[str] = set()
    self._pages = 0

  def search(self) -> Choice:
    words, self._pages = self._queries.pop(0), 1
    why = 'fewer words' if words == self._thing else 'all I want'
    act = ShopperAction('type_and_submit', FIELD, words)
    return act, f'search[{words}]', why

  def choose(self, page: str) -> Choice:
    if '[buy now]' in page:
      return self._on_product(_OPTION.findall(page))
    return self._on_results(_PRODUCT.findall(page), '[next]' in page)

  def _on_product(self, options: Sequence[tuple[str, str]]) -> Choice:
    for name, line in options:
      values = {x: bool(chosen) for x, chosen in _VALUE.findall(line)}
      wish = self._goal['options'].get(name, next(iter(values)))
      if wish not in values:
        return _click('prev', why=f'no {wish}')
      if not values[wish]:
        return _click(wish, f'{name} {wish}', why=f'{wish} is there')
    return _click('buy now', why='all is chosen')

  def _on_results(
    self, products: Sequence[tuple[str, str, str]], ahead: bool
  ) -> Choice:
    leave = ShopperAction('terminate'), ''
    if len(self._seen) == _LOOKS:
      return *leave, 'seen enough'
    for place, title, price in products:
      fits = self._thing in title and float(price) <= self._goal['most']
      if fits and place not in self._seen:
        self._seen.add(place)
        name = f'{place} {title.split(",")[0]}'
        return _click(place, name, why=f'{place} fits')
    if ahead and self._pages < _PAGES:
      self._pages += 1
      return _click('next', why='none fits')
    return self.search() if self._queries else (*leave, 'nothing fits')


def _click(thing: str, name: str = '', *, why: str) -> Choice:
  return ShopperAction('click', name or thing), f'click[{thing}]', why
