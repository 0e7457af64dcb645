"""docs/METHODS.md and docs/methods are what the generator makes."""

import importlib

import pytest

from agentrl.run import config_file
from docs.generate import method_cost, method_groups, methods
from tests import errors


def test_the_pages_are_up_to_date():
  want = methods.pages(config_file.methods(), methods.read_numbers())
  found = [methods.DOCS / methods.PAGE, *methods.DOCS.glob('methods/*.md')]
  assert {str(x.relative_to(methods.DOCS)) for x in found} == set(want)
  old = [x for x in want if (methods.DOCS / x).read_text() != want[x]]
  assert old == [], 'run `python -m experiments.methods`'


def test_every_method_is_in_one_group():
  names = [x for group in method_groups.GROUPS.values() for x in group]
  assert len(names) == len(set(names))
  method_groups.check(names)
  with errors.raises(ValueError, 'grpo configs/ GROUPS'):
    method_groups.check([x for x in names if x != 'grpo'])


@pytest.mark.parametrize(
  ('name', 'networks', 'forward', 'trained', 'attempts', 'shared'),
  [
    ('grpo', (), ('policy',), {}, 1, 0),
    ('gpg', (), (), {}, 1, 0),
    ('dapo', (), ('policy',), {}, 2, 0),
    ('remax', (), (), {}, 2, 0),
    ('arpo', (), ('policy',), {}, 1, 0.5),
    ('ppo', ('value',), ('policy', 'value'), {'value': 4}, 1, 0),
    (
      'prime',
      ('prm', 'reference'),
      ('policy', 'reference', 'prm'),
      {'prm': 1},
      1,
      0,
    ),
  ],
)
def test_cost(name, networks, forward, trained, attempts, shared):
  module = importlib.import_module(f'agentrl.configs.{name}')
  got = method_cost.cost(module.get_config())
  assert got == (networks, forward, trained, attempts, shared)


def test_reading_a_docstring():
  got = methods.parse_docstring("""A method: it does
  this.

Paper: A Title, with a Comma, and
More, 2501.01234, v2.

  A = R - 1

Unlike the paper.

Missing: its
images.

  python -m experiments.train --config=configs/x.py
""")
  assert got.line == 'A method: it does this.'
  assert (got.title, got.arxiv) == (
    'A Title, with a Comma, and More',
    '2501.01234',
  )
  assert got.rest == (
    '```\n  A = R - 1\n```\n\nUnlike the paper.\n\nMissing: its\nimages.'
  )
  assert got.missing == 'its images.'
  assert methods.parse_docstring('As in 2501.01234.').title == ''


@pytest.mark.parametrize(
  'said', ['Its images are missing.', 'All else runs.\nMissing: its images.']
)
def test_what_is_missing_is_not_said_in_passing(said):
  """No list of methods that are half done would hold it."""
  with errors.raises(ValueError, 'Missing: images'):
    methods.parse_docstring(f'A method.\n\n{said}')


def test_a_page_names_what_the_method_is_made_of():
  text = methods.method_page('gigpo', 'turns compared by state')
  for part in (
    'https://arxiv.org/abs/2505.10978',
    '- stream step: `step_return` → `center` → `scale`',
    '- loss: `ppo` by `token_mean`',
    '`agentrl/advantage/normalize.py`',
    '--workdir=runs/gigpo',
    '../METHODS.md#turns-compared-by-state',
    'A(a_t) = z_group( sum r )',
  ):
    assert part in text
