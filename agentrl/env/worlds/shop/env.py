"""A web shop in text: search, look, choose and buy what was asked for.

As WebShop (arXiv 2207.01206), over a catalogue of the user's or a small one
that is made up:

  Buy a mug: hand made; color red; for at most $30. Write search[words].
  search[mug hand made]
  [p7] arvo mug, hand made, recycled $12.50
  ...
  [next] [back]
  click[p7]
  [p7] arvo mug, hand made, recycled $12.50
  color: [red] [blue]
  [buy now] [description] [prev] [back]
  click[red]
  ...
  click[buy now]
"""

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import base, task_sampling
from agentrl.env.base import HostTask, Step
from agentrl.env.worlds.shop import catalogue as shop_catalogue
from agentrl.env.worlds.shop.catalogue import Product
from agentrl.text import spans
from agentrl.text.spans import Interval
from agentrl.text.tool_calls.base import Call, Place, spoken
from agentrl.tool.search import Index

LOST = 'Write one action: search[words] or click[thing].'
RULES = (
  'You are in a web shop. Buy what is asked for. In each message write one'
  ' action: search[words], or click[thing] for a thing in brackets. Choose'
  ' options before you click[buy now].'
)
_ACTION = re.compile(r'\b(search|click)\[([^\[\]\n]*)\]')
_FOUND = 50  # products of a search, on all its pages
_PRICE_STEP = 10  # dollars; what one is ready to pay is a multiple


@dataclasses.dataclass(frozen=True)
class Shelf:
  """Searchable catalogue."""

  products: Sequence[Product]
  index: Index
  place: Mapping[str, int]  # of an id

  def find(self, words: str) -> list[int]:
    return self.index.best(words, _FOUND)


@dataclasses.dataclass(frozen=True)
class Shop:
  """A task is a goal, met by a product: attributes, options and a price.

  The reward of buying is `catalogue.points`; the score is 1 if that is 1.
  """

  catalogue: domain.Place = ''  # a file, see `catalogue.EXAMPLE`; '': made up
  products: domain.Count = 200  # of the made-up catalogue
  page: domain.Count = 5  # products on a page of results
  attributes: domain.Count = 1  # most a goal has

  columns: ClassVar[tuple[str, ...]] = ('points',)
  system: ClassVar[str] = RULES
  worker: ClassVar[str] = 'thread'

  def __post_init__(self):
    for name in ('products', 'page', 'attributes'):
      value = dataclasses.asdict(self)[name]
      if value < 1:
        raise ValueError(f'{name} must be at least 1, got {value}')

  def name(self) -> str:
    return task_sampling.name('shop', self, self.catalogue)

  def tasks(self, split: str, count: int, seed: int) -> Iterator[HostTask]:
    """Yields tasks demonstrated by search, clicks, buying; see `EnvFamily`.

    A product that the search does not find has no demonstration.
    """
    shelf = shelf_of(self.catalogue, self.products)
    return task_sampling.drawn(
      lambda rng: draw_goal(rng, shelf.products, self.attributes),
      lambda goal: (goal, self._demo(goal, shelf)),
      split,
      count,
      seed,
    )

  def spans(self, message: str) -> list[Interval]:
    """Marks an action as a call and its brackets' content as argument."""
    return spans.mark(message, _locate(message))

  def describe(self, task: Mapping[str, Any]) -> str:
    return self.env().reset(task, 0)

  def env(self) -> 'ShopEnv':
    return ShopEnv(shelf_of(self.catalogue, self.products), self.page)

  def _demo(self, goal: Mapping[str, Any], shelf: Shelf) -> tuple[str, ...]:
    words = ' '.join([wanted_thing(goal), *goal['attributes']])
    words = re.sub(r'[\[\]\n]', ' ', words)
    results = shelf.find(words)
    place = shelf.place[goal['id']]
    if place not in results:
      return ()
    clicks = ['next'] * (results.index(place) // self.page)
    clicks += [goal['id'], *goal['options'].values(), 'buy now']
    return f'search[{words}]', *(f'click[{x}]' for x in clicks)


@functools.lru_cache(maxsize=2)
def shelf_of(catalogue: str, products: int) -> Shelf:
  """Returns a shelf that all environments of a process share."""
  goods = (
    shop_catalogue.read(catalogue)
    if catalogue
    else shop_catalogue.made(products)
  )
  try:
    index = Index([f'{x.title}\n{x.query}\n{x.description}' for x in goods])
  except ImportError as error:
    raise base.missing('bm25s', 'host') from error
  return Shelf(goods, index, {x.id: i for i, x in enumerate(goods)})


def draw_goal(
  rng: np.random.Generator, products: Sequence[Product], attributes: int
) -> dict[str, Any]:
  """Draws a goal met by one product, with at most `attributes` of them."""
  product = products[int(rng.integers(len(products)))]
  some = rng.permutation(product.attributes)[:attributes]
  steps = int(product.price // _PRICE_STEP) + int(rng.integers(1, 3))
  options = {
    name: values[rng.integers(len(values))]
    for name, values in sorted(product.options.items())
    if values
  }
  return {
    'id': product.id,
    'title': product.title,
    'category': product.category,
    'query': product.query,
    'attributes': sorted(map(str, some)),
    'options': options,
    'most': steps * _PRICE_STEP,
  }


def wanted_thing(goal: Mapping[str, Any]) -> str:
  """Returns the kind of product as search words."""
  return goal['query'] or goal['category'].split('›')[-1].strip()


def ask(goal: Mapping[str, Any]) -> str:
  """Renders the goal as a sentence."""
  options = [f'{name} {value}' for name, value in goal['options'].items()]
  both = map(', '.join, (goal['attributes'], options))
  wishes = '; '.join(filter(None, both))
  thing = wanted_thing(goal) or goal['title']
  return f'Buy {thing}: {wishes}; for at most ${goal["most"]}.'


def _locate(message: str) -> list[Place]:
  """Finds the one action outside the thought; [] if there are several."""
  thought = len(message) - len(spoken(message))
  actions = list(_ACTION.finditer(message, thought))
  if len(actions) != 1:
    return []
  (action,) = actions
  verb, thing = action.groups()
  call = Call(verb, {'thing': thing.strip().lower()})
  return [Place(call, action.span(), action.span(), action.span(2))]


class Where(NamedTuple):
  """Page on the screen."""

  results: Sequence[int] | None = None  # places of products; None: no search
  page: int = 0  # of what was found
  product: int = -1  # the place of the one that is looked at; -1: none
  chosen: Mapping[str, str] = {}  # option -> value


class ShopEnv:
  """Deterministic web shop; see `HostEnv`."""

  def __init__(self, shelf: Shelf, page: int):
    self._shelf, self._page = shelf, page

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    del seed
    self._goal, self._where = task, Where()
    return f'{ask(task)}\n{self._shown()}'

  def step(self, message: str) -> Step:
    actions = _locate(message)
    if not actions:
      return self._reply(LOST, invalid=True)
    call = actions[0].call
    assert isinstance(call, Call), 'as `_locate` makes it'
    thing = call.args['thing']
    if call.name == 'search':
      self._where = Where(self._shelf.find(thing))
      return self._reply()
    if thing == 'buy now' and self._where.product >= 0:
      product = self._shelf.products[self._where.product]
      points = shop_catalogue.points(product, self._where.chosen, self._goal)
      info = {'points': points}
      return Step('', points, True, float(points == 1), info=info)
    after = self._clicked(thing)
    if after is None:
      return self._reply(f'[{thing[:60]}] is not on this page.', invalid=True)
    self._where = after
    if thing == 'description':
      return self._reply(self._shelf.products[after.product].description)
    return self._reply()

  def close(self) -> None:
    """Closes nothing."""

  def _reply(self, note: str = '', invalid: bool = False) -> Step:
    text = '\n'.join(filter(None, [note, self._shown()]))
    return Step(text, invalid=invalid, info={'points': 0.0})

  def _clicked(self, thing: str) -> Where | None:
    """Returns the page behind a click; None if it is not on the page."""
    where = self._where
    if thing == 'back':
      return Where()
    if where.product >= 0:
      options = self._shelf.products[where.product].options
      for name, values in options.items():
        if thing in values:
          return where._replace(chosen={**where.chosen, name: thing})
      if thing == 'prev':
        return where._replace(product=-1, chosen={})
      return where if thing == 'description' else None
    if thing == 'next' and self._ahead():
      return where._replace(page=where.page + 1)
    if thing == 'prev' and where.page:
      return where._replace(page=where.page - 1)
    place = self._shelf.place.get(thing)
    if place is None or place not in self._listed():
      return None
    return where._replace(product=place)

  def _listed(self) -> Sequence[int]:
    start = self._where.page * self._page
    return (self._where.results or ())[start : start + self._page]

  def _ahead(self) -> bool:
    return (self._where.page + 1) * self._page < len(self._where.results or ())

  def _shown(self) -> str:
    """Renders the page."""
    where = self._where
    if where.results is None:
      return 'Write search[words].'
    if where.product < 0:
      lines = [_line(self._shelf.products[i]) for i in self._listed()]
      buttons = ['[prev]'] * bool(where.page) + ['[next]'] * self._ahead()
      return '\n'.join(
        [*(lines or ['Nothing found.']), ' '.join([*buttons, '[back]'])]
      )
    product = self._shelf.products[where.product]
    lines = [_line(product)]
    for name, values in product.options.items():
      chosen = where.chosen.get(name)
      marked = (f'[{x}]' + ' (chosen)' * (x == chosen) for x in values)
      lines.append(f'{name}: {" ".join(marked)}')
    return '\n'.join([*lines, '[buy now] [description] [prev] [back]'])


def _line(product: Product) -> str:
  return f'[{product.id}] {product.title} ${product.price:.2f}'
