"""docs/api is what the docstrings say now."""

import pathlib

import agentrl as rl
from docs.generate import api

FOLDER = pathlib.Path('docs/api')


def test_the_pages_are_up_to_date():
  """If not: python -m docs.generate.api."""
  pages = api.pages()
  assert {x.name for x in FOLDER.iterdir()} == set(pages)
  for name, text in pages.items():
    assert (FOLDER / name).read_text(encoding='utf-8') == text, name


def test_every_public_name_has_an_entry_and_a_docstring():
  page, ops = api.page('agentrl'), api.page('agentrl.ops')
  for name in set(rl.__all__) - {'ops', 'testing'}:
    assert f'## {name}\n' in page
  for name in rl.ops.__all__:
    assert f'## {name}\n' in ops
    assert vars(rl.ops)[name].__doc__
  assert '### Batch.from_turns' in page
  assert ' at 0x' not in page + ops
