"""docs/METHODS.md is what the generator makes of what is here."""

import importlib
import pathlib
import re

import pytest

from agentrl.run import config_file
from docs.generate import method_cost, method_groups, methods
from tests import errors


def test_the_page_is_up_to_date():
  want = methods.page(config_file.methods(), methods.read_numbers())
  with open(methods.PAGE, encoding='utf-8') as f:
    assert f.read() == want, 'run `python -m experiments.methods`'


def test_every_method_is_in_one_group():
  names = [x for group in method_groups.GROUPS.values() for x in group]
  assert len(names) == len(set(names))
  method_groups.check(names)
  with errors.raises(ValueError, 'grpo configs/ GROUPS'):
    method_groups.check([x for x in names if x != 'grpo'])


def test_the_readme_groups_methods_in_the_same_way():
  with open('README.md', encoding='utf-8') as f:
    section = re.search(r'## Compare methods\n(.*?)\n- ', f.read(), re.DOTALL)[
      1
    ]
  rows = re.findall(r'^\| (`.*`.*?) \| (.*?) \|$', section, re.M)
  assert [title for _, title in rows] == list(method_groups.GROUPS)
  for names, title in rows:
    names = tuple(re.findall(r'`(\w+)`', names))
    assert method_groups.GROUPS[title][: len(names)] == names


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
      *('prime', ('prm', 'reference'), ('policy', 'reference', 'prm')),
      *({'prm': 1}, 1, 0),
    ),
  ],
)
def test_cost(name, networks, forward, trained, attempts, shared):
  module = importlib.import_module(f'agentrl.configs.{name}')
  got = method_cost.cost(module.get_config())
  assert got == (networks, forward, trained, attempts, shared)


def test_numbers_of_the_advice_are_those_of_the_results():
  pages = pathlib.Path('docs/results').glob('*.md')
  results = ''.join(x.read_text(encoding='utf-8') for x in pages)
  numbers = re.findall(r'\d+\.\d', methods.FIRST)
  assert len(numbers) == 4
  assert [x for x in numbers if x not in results] == []
  for name in re.findall(r'\[(\w+)\]\(#', methods.FIRST):
    assert f'`{name}`' in results or name.upper() in results


def test_reading_a_docstring():
  got = methods.parse_docstring("""A method: it does
  this.

Paper: A Title, with a Comma, and
More, 2501.01234, v2.

  A = R - 1

Unlike the paper.

  python -m experiments.train --config=configs/x.py
""")
  assert got.line == 'A method: it does this.'
  assert (got.title, got.arxiv) == (
    'A Title, with a Comma, and More',
    '2501.01234',
  )
  assert got.rest == '```\n  A = R - 1\n```\n\nUnlike the paper.'
  assert methods.parse_docstring('As in 2501.01234.').title == ''


def test_a_section_names_what_the_method_is_made_of():
  text = methods.section('gigpo', {'tests/a_test.py': "x = 'gigpo'"})
  for part in (
    'https://arxiv.org/abs/2505.10978',
    '- stream step: `step_return` → `center` → `scale`',
    '- loss: `ppo` by `token_mean`',
    '`agentrl/advantage/normalize.py`',
    '- tests that name it: `tests/a_test.py`',
    'A(a_t) = z_group( sum r )',
  ):
    assert part in text
  assert 'python -m' not in text
