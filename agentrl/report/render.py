"""Pages from templates: every text is escaped, what is missing is left out."""

import pathlib

import jinja2

from agentrl.report import numbers as numbers_lib
from agentrl.report import svg

_PAGES = jinja2.Environment(
  loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent / 'templates'),
  autoescape=True,
  undefined=jinja2.ChainableUndefined,
  trim_blocks=True,
  lstrip_blocks=True,
)
_PAGES.globals |= {
  'NOTHING': numbers_lib.NOTHING,
  'any_value': numbers_lib.any_value,
  'count': numbers_lib.count,
  'duration': numbers_lib.duration,
  'is_number': numbers_lib.is_number,
  'number': numbers_lib.number,
  'p_value': numbers_lib.p_value,
  'rate': numbers_lib.rate,
  'share': svg.share,
}
_PAGES.filters |= {
  'level_head': 'at level {:.3g}'.format,
  'milli': lambda x: numbers_lib.number(x, 3),
  'seed_head': lambda seed: f'seed {numbers_lib.number(seed, 0)}',
  'whole': lambda x: numbers_lib.number(x, 0),
}


def render(template: str, **values) -> str:
  """Fills a page's template; it can load nothing, whatever a label says."""
  return _PAGES.get_template(template).render(values)
