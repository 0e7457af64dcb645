"""Both forms of actions: what they write they read, and nothing else."""

import itertools

import pytest

from agentrl.env.worlds.shop.action_forms import FORMS, fields_of, form_of
from agentrl.env.worlds.shop.action_reward import ATTRIBUTES, ShopperAction
from tests import errors

CLICK = ShopperAction('click', 'red mug')
SEARCH = ShopperAction('type_and_submit', 'search', 'mug: big')
END = ShopperAction('terminate')


@pytest.mark.parametrize(
  ('name', 'action'), [*itertools.product(FORMS, (CLICK, SEARCH, END))]
)
def test_a_form_reads_what_it_writes(name, action):
  form = form_of(name)
  text = form.write(action)
  assert form.parse(text) == action
  assert form.parse(f'<think>click[no] {{}}</think>I would. {text}') == action
  assert form.parse(f'<think>{text}') is None
  assert ShopperAction(**fields_of(action)) == action


def test_each_form_teaches_every_type():
  for form in FORMS.values():
    assert all(kind in form.teach for kind in ATTRIBUTES)


@pytest.mark.parametrize(
  ('text', 'action'),
  [
    ('click[]', ShopperAction('click')),
    ('click[ a ]', ShopperAction('click', 'a')),
    ('terminate[now]', END),
    ('type_and_submit[search]', ShopperAction('type_and_submit', 'search')),
    ('type_and_submit[:mug]', ShopperAction('type_and_submit', '', 'mug')),
    ('click[a] click[b]', None),
    ('terminate', None),
    ('buy[a]', None),
    ('doubleclick[a]', None),
    ('click[a', None),
    ('click[a\n]', None),
    ('', None),
  ],
)
def test_short(text, action):
  assert FORMS['short'].parse(text) == action


@pytest.mark.parametrize(
  ('text', 'action'),
  [
    ('{"type": "click"}', ShopperAction('click')),
    ('{"type": "click", "name": "a", "x": 1}', ShopperAction('click', 'a')),
    ('{"rationale": "r", "action": {"type": "terminate"}}', END),
    ('{"type": "terminate", "name": "a"}', END),
    ('{"type": "click", "name": 3}', None),
    ('{"type": "click", "name": null}', None),
    ('{"type": "buy"}', None),
    ('{"type": ["click"]}', None),
    ('{"action": "click"}', None),
    ('{"name": "a"}', None),
    ('{"type": "click"', None),
    ('["click"]', None),
    ('{"a":' * 5000, None),
    ('', None),
  ],
)
def test_json(text, action):
  assert FORMS['json'].parse(text) == action


def test_an_unknown_form():
  with errors.raises(ValueError, 'form xml'):
    form_of('xml')
