"""Forms in which an agent writes a shopper's action.

  short  click[p7 arvo mug]  type_and_submit[search: red mug]  terminate[]
  json   {"type": "click", "name": "p7 arvo mug"}, alone or as the "action" of
         an object that holds a "rationale" too, as in Shop-R1

Whatever else a message holds is its rationale.
"""

import json
import re
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from agentrl import domain
from agentrl.env.worlds.shop.action_reward import ATTRIBUTES, ShopperAction
from agentrl.text.tool_calls.base import DECODER, spoken

_SHORT = re.compile(rf'\b({"|".join(ATTRIBUTES)})\[([^\[\]\n]*)\]')


class ActionForm(NamedTuple):
  """One way to write actions."""

  parse: Callable[[str], ShopperAction | None]  # of a message; None: none
  write: Callable[[ShopperAction], str]
  teach: str  # how, for a system text


def _parse_short(message: str) -> ShopperAction | None:
  actions = _SHORT.findall(spoken(message))
  if len(actions) != 1:
    return None
  ((kind, inner),) = actions
  first, _, rest = inner.partition(':')
  match ATTRIBUTES[kind]:
    case ():
      return ShopperAction(kind)
    case ('name',):
      return ShopperAction(kind, inner.strip())
    case _:
      return ShopperAction(kind, first.strip(), rest.strip())


def _write_short(action: ShopperAction) -> str:
  inner = [action.name, action.text][: len(ATTRIBUTES[action.type])]
  return f'{action.type}[{": ".join(inner)}]'


def _parse_json(message: str) -> ShopperAction | None:
  text = spoken(message)
  try:
    value, _ = DECODER.raw_decode(text, text.index('{'))
  except (ValueError, RecursionError):
    return None
  value = value.get('action', value)
  if not isinstance(value, dict) or value.get('type') not in list(ATTRIBUTES):
    return None
  fields = {name: value.get(name, '') for name in ATTRIBUTES[value['type']]}
  if not all(isinstance(text, str) for text in fields.values()):
    return None
  return ShopperAction(value['type'], **fields)


def _write_json(action: ShopperAction) -> str:
  return json.dumps(fields_of(action))


def fields_of(action: ShopperAction) -> dict[str, Any]:
  """Returns the type and its attributes, which JSON can hold."""
  names = ('type', *ATTRIBUTES[action.type])
  return {name: x for name, x in action._asdict().items() if name in names}


FORMS = {
  'short': ActionForm(
    _parse_short,
    _write_short,
    'click[what], type_and_submit[field: text] or terminate[]',
  ),
  'json': ActionForm(
    _parse_json,
    _write_json,
    '{"type": "click", "name": ...}, {"type": "type_and_submit", "name": ...,'
    ' "text": ...} or {"type": "terminate"}',
  ),
}
FormName = Annotated[str, domain.OneOf(*FORMS)]


def form_of(name: str) -> ActionForm:
  """Returns the form of a name.

  Raises:
    ValueError: there is none.
  """
  if name not in FORMS:
    raise ValueError(f'form={name!r} is unknown; use one of {sorted(FORMS)}')
  return FORMS[name]
