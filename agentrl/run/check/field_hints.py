"""Hints for fields that a config lacks, and for values that are none of it."""

import difflib
from collections.abc import Iterable

from agentrl import registry
from agentrl.configs.config import Config
from agentrl.run.check import fields

_MOST = 3  # names that are told


def near(c: Config, path: str) -> str:
  """Names fields of the whole config that a path may mean; '' for none.

  " (did you mean 'role.policy.lr' or 'sft.lr'?)" for 'lr'. A weight that comes
  with a term of the loss is told with the terms that have its name.
  """
  section, _, name = path.rpartition('.')
  close = _closest(name, {x: _last(x) for x in fields.flat(c)}, section)
  terms = _closest(name, {x: x for x in registry.names('loss')})
  if terms and (section == 'coef' or not close):
    return (
      f' (it comes with a term of the loss: name {_either(terms)} in'
      ' config.loss first)'
    )
  return f' (did you mean {_either(close)}?)' if close else ''


def wrong_value(c: Config, path: str, value: str) -> str:
  """Says what a field may hold; '' where that is not known."""
  try:
    of = fields.domain_of(c, path)
  except (KeyError, ValueError, AttributeError):
    return ''
  return f'must be {of.explain()}, got {value!r}' if of else ''


def _alike(mine: str, theirs: str) -> bool:
  """Returns whether one name may be another's short, long or mistyped form."""
  words = set(mine.split('_')), set(theirs.split('_'))
  initials = ''.join(x[:1] for x in mine.split('_'))
  return (
    words[0] <= words[1]
    or words[1] <= words[0]
    or (len(mine) > 2 and theirs.startswith(mine))
    or (len(initials) > 1 and initials == theirs)
    or difflib.SequenceMatcher(None, mine, theirs).ratio() >= 0.8
  )


def _closest(name: str, names: dict[str, str], section: str = '') -> list[str]:
  """Returns the paths whose last names are closest to a name, best first.

  Those of the section come before others; beside equal names there are none.
  """
  likely = {x: y for x, y in names.items() if _alike(name, y)}
  equal = [x for x in likely if likely[x] == name]

  def distance(path: str) -> tuple[bool, float, str]:
    ratio = difflib.SequenceMatcher(None, name, likely[path]).ratio()
    return path.rpartition('.')[0] != section, -ratio, path

  return sorted(equal or likely, key=distance)[:_MOST]


def _last(path: str) -> str:
  return path.rpartition('.')[2]


def _either(names: Iterable[str]) -> str:
  *first, last = (repr(x) for x in names)
  return f'{", ".join(first)} or {last}' if first else last
