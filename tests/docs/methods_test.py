"""docs/METHODS.md is what the generator makes of what is here."""

from agentrl.run import config_file
from docs.generate import methods


def test_the_page_is_up_to_date():
  want = methods.page(config_file.methods(), methods.read_numbers())
  with open(methods.PAGE, encoding='utf-8') as f:
    assert f.read() == want, 'run `python -m experiments.methods`'


def test_reading_a_docstring():
  got = methods.said("""A method: it does
  this.

Paper: A Title, with a Comma, and
More, 2501.01234, v2.

  A = R - 1

Unlike the paper.

  python -m experiments.train --config=configs/x.py
""")
  assert got.line == 'A method: it does this.'
  assert (got.title, got.arxiv) == (
    'A Title, with a Comma, and More', '2501.01234',
  )  # fmt: skip
  assert got.rest == '```\n  A = R - 1\n```\n\nUnlike the paper.'
  assert methods.said('As in 2501.01234.').title == ''


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
