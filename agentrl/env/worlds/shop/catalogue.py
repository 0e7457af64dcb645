"""Catalogue of a shop, and the reward of a purchase."""

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentrl import domain
from agentrl.env import task_sampling

EXAMPLE = (  # the last four can be left out; values of options differ
  '{"id": "b1", "title": "Red mug", "price": 9.5, "category": "home › mugs",'
  ' "query": "mug", "attributes": ["hand made"], "options": {"size": ["big",'
  ' "small"]}, "description": "Of clay."}'
)
BUTTONS = ('buy now', 'description', 'next', 'prev', 'back')
_FILLERS = {
  'a', 'an', 'and', 'by', 'for', 'from',
  'in', 'of', 'on', 'the', 'with',
}  # fmt: skip


class Product(NamedTuple):
  id: str
  title: str
  price: float
  category: str  # from the widest to the narrowest, with › between
  query: str = ''  # the words under which one looks for it
  attributes: tuple[str, ...] = ()
  options: Mapping[str, tuple[str, ...]] = {}  # name -> what can be chosen
  description: str = ''


def points(
  product: Product, chosen: Mapping[str, str], goal: Mapping[str, Any]
) -> float:
  """Computes the reward of a purchase, as in WebShop (arXiv 2207.01206):

    r = r_type · (|attributes met| + |options met| + 1[price ≤ most])
               / (|attributes| + |options| + 1)

  r_type is `kind_factor`. Unlike in WebShop attributes and options must match
  exactly; an attribute may also appear in the title or the description.

  Args:
    chosen: option -> value.
    goal: attributes, options (name -> value), most (dollars), and title,
      category and query of its source product.
  """
  text = f'{product.title}\n{product.description}'.lower()
  has = {x.lower() for x in product.attributes}
  met = sum(x.lower() in has or x.lower() in text for x in goal['attributes'])
  met += sum(chosen.get(name) == x for name, x in goal['options'].items())
  met += product.price <= goal['most']
  wanted = len(goal['attributes']) + len(goal['options']) + 1
  return kind_factor(product, goal) * met / wanted


def kind_factor(product: Product, goal: Mapping[str, Any]) -> float:
  """Returns the match with the wanted kind of product: 1, 0.5, 0.1 or 0.

  With t, the share of the wanted title's words that are in this title:

    0    t = 0
    0.1  t < 0.1
    1    t > 0.2, the same query, or two parts of the category in common
    0.5  otherwise

  All words but fillers count; WebShop finds the nouns with spaCy.
  """
  wanted = _words(goal['title'])
  share = len(wanted & _words(product.title)) / len(wanted) if wanted else 0.2
  if share < 0.1:
    return 0.1 if share else 0.0
  common = _parts(product.category) & _parts(goal['category'])
  same = bool(product.query) and product.query == goal['query']
  return 1.0 if share > 0.2 or same or len(common) >= 2 else 0.5


def _words(text: str) -> set[str]:
  return set(re.findall(r'\w+', text.lower())) - _FILLERS


def _parts(category: str) -> set[str]:
  return {part.strip() for part in category.split('›')} - {''}


def read(path: str) -> tuple[Product, ...]:
  """Reads the products of a catalogue.

  Raises:
    ValueError: a line is not a product, or an id repeats.
  """
  products = tuple(task_sampling.lines(path, _product, EXAMPLE))
  if len({x.id for x in products}) < len(products):
    raise ValueError(f'{path} must have products of distinct ids')
  return products


def _product(line: Mapping[str, Any]) -> Product:
  options = {
    name: tuple(map(_clickable, values))
    for name, values in line.get('options', {}).items()
  }
  domain.POSITIVE.check('price', line['price'])
  product = Product(
    **dict(line)
    | {
      'id': _clickable(line['id']),
      'price': float(line['price']),
      'attributes': tuple(map(_clickable, line.get('attributes', ()))),
      'options': options,
    }
  )
  texts = (product.title, product.category, product.query, product.description)
  # A click names no option, so what can be clicked on a page must differ.
  clicks = [*BUTTONS, *(x for values in options.values() for x in values)]
  if (
    not all(isinstance(x, str) for x in texts)
    or product.id in BUTTONS
    or len(set(clicks)) < len(clicks)
  ):
    raise ValueError('it must be a product with distinct option values')
  return product


def _clickable(text: str) -> str:
  """Lower-cases a text, as clicks are parsed."""
  text = text.strip().lower()
  if not text or set('[]\n') & set(text):
    raise ValueError(f'{text!r} cannot be clicked')
  return text


# noun: the narrowest category, and an option besides the colour if any.
_NOUNS = {
  'mug': 'kitchen', 'bowl': 'kitchen', 'pan': 'kitchen', 'kettle': 'kitchen',
  'lamp': 'living room', 'rug': 'living room', 'clock': 'living room',
  'shirt': 'clothes', 'coat': 'clothes', 'scarf': 'clothes',
  'tent': 'outdoor', 'bottle': 'outdoor', 'backpack': 'outdoor',
  'desk': 'office', 'chair': 'office', 'notebook': 'office',
}  # fmt: skip
_ATTRIBUTES = (
  'hand made', 'light weight', 'easy to clean', 'water proof',
  'long lasting', 'fair trade', 'recycled', 'foldable',
)  # fmt: skip
_COLORS = ('red', 'blue', 'green', 'black', 'white')
_SIZES = ('small', 'medium', 'large')
_BRANDS = ('arvo', 'belto', 'corin', 'dalma', 'evren', 'fosta', 'gildo')


@functools.cache
def made(count: int) -> tuple[Product, ...]:
  """Generates a deterministic catalogue of products."""
  rng = np.random.default_rng(0)
  products = []
  for i in range(1, count + 1):
    noun = str(rng.choice(list(_NOUNS)))
    attributes = _some(rng, _ATTRIBUTES, 3)
    options = {'color': _some(rng, _COLORS, 3)}
    if rng.random() < 0.5:
      options['size'] = _some(rng, _SIZES, 2)
    product = Product(
      f'p{i}',
      f'{rng.choice(_BRANDS)} {noun}, {", ".join(attributes[:2])}',
      int(rng.integers(500, 10_000)) / 100,
      f'home › {_NOUNS[noun]} › {noun}',
      noun,
      attributes,
      options,
      f'This {noun} is {" and ".join(attributes)}.',
    )
    products.append(product)
  return tuple(products)


def _some(
  rng: np.random.Generator, things: Sequence[str], count: int
) -> tuple[str, ...]:
  return tuple(rng.permutation(things)[:count].tolist())
