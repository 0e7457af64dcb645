"""The action reward against a table of cases worked out by hand."""

import itertools

import numpy as np
import pytest

from agentrl.env.worlds.shop.action_reward import (
  ATTRIBUTES,
  SCALE,
  ActionMatch,
  ShopperAction,
  hierarchical,
  match,
)

CLICK = ShopperAction('click', 'red mug')
SEARCH = ShopperAction('type_and_submit', 'search box', 'big red mug')
END = ShopperAction('terminate')
NAMELESS = ShopperAction('click')
# action, gold, v(a) at DARS 1000, v(a) at DARS 1
TABLE = [
  (CLICK, CLICK, 0.3 + 0.2 + 1000, 1.5),
  (ShopperAction('click', 'mug'), CLICK, 0.5 + 1000 * 2 / 3, 0.5 + 2 / 3),
  (ShopperAction('click', 'mug red'), CLICK, 0.5 + 500, 1.0),
  (ShopperAction('click', 'hat'), CLICK, 0.5, 0.5),
  (ShopperAction('click'), CLICK, 0.3, 0.3),
  (CLICK, NAMELESS, 0.3, 0.3),
  (NAMELESS, NAMELESS, 0.3, 0.3),
  (SEARCH, SEARCH, 0.3 + 0.1 + 0.1 + 0.1 + 1000, 1.6),
  (
    ShopperAction('type_and_submit', 'search', 'mug'),
    SEARCH,
    0.3 + 0.1 + 0.1 + 0.1 * 2 / 3 + 1000 * 2 / 4,
    0.5 + 0.2 / 3 + 0.5,
  ),
  (ShopperAction('type_and_submit', '', 'hat'), SEARCH, 0.4, 0.4),
  (ShopperAction('type_and_submit', 'search box'), SEARCH, 0.5, 0.5),
  (ShopperAction('type_and_submit'), SEARCH, 0.3, 0.3),
  (END, END, 0.3, 0.3),
  (END, CLICK, 0.0, 0.0),
  (CLICK, END, 0.0, 0.0),
  (CLICK, SEARCH, 0.0, 0.0),
  (ShopperAction('click', 'search box', 'big red mug'), SEARCH, 0.0, 0.0),
  (None, CLICK, 0.0, 0.0),
  (None, END, 0.0, 0.0),
]


@pytest.mark.parametrize(('action', 'gold', 'scaled', 'plain'), TABLE)
def test_the_table(action, gold, scaled, plain):
  assert SCALE == 1000
  for dars, value in ((1000.0, scaled), (1.0, plain)):
    reward = hierarchical(action, gold, dars=dars)
    np.testing.assert_allclose(np.float64(reward), value, rtol=1e-14)
  assert hierarchical(action, gold) == hierarchical(action, gold, dars=1000.0)


def test_exact_is_all_of_the_action():
  for action, gold in itertools.product(
    (CLICK, SEARCH, END, NAMELESS), (CLICK, SEARCH, END)
  ):
    assert match(action, gold).exact == (action == gold)
  assert match(ShopperAction('click', 'Red  mug.'), CLICK).exact == 1
  assert match(SEARCH._replace(name='box'), SEARCH).exact == 0
  assert match(SEARCH._replace(text='mug'), SEARCH).exact == 0


def test_no_other_action_is_worth_more():
  names = ('', 'red', 'red mug', 'red mug red mug', 'search box', 'box')
  texts = ('', 'mug', 'big red mug', 'big red mug big')
  for gold in (CLICK, SEARCH, END):
    best = hierarchical(gold, gold)
    for kind, name, text in itertools.product(ATTRIBUTES, names, texts):
      assert hierarchical(ShopperAction(kind, name, text), gold) <= best


def test_a_threshold_drops_what_is_little_alike():
  half = ShopperAction('click', 'mug red')
  assert hierarchical(half, CLICK, threshold=0.5) == pytest.approx(500.5)
  assert hierarchical(half, CLICK, threshold=0.51) == pytest.approx(0.5)
  assert match(CLICK, CLICK, threshold=1.0) == match(CLICK, CLICK)
  assert match(None, CLICK) == ActionMatch()
