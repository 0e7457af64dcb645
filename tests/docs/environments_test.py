"""docs/ENVIRONMENTS.md is run as it stands, and names what there is."""

import json
import pathlib
import re

from agentrl.env import base, math_python, search_questions
from agentrl.env.shop import catalogue

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / 'docs/ENVIRONMENTS.md').read_text(encoding='utf-8')
CODE = re.findall(r'```python\n(.*?)```', TEXT, re.DOTALL)
PRINTED = re.findall(r'^prints\n\n```\n(.*?)```', TEXT, re.DOTALL | re.M)


def test_it_prints_what_it_says(capsys):
  exec(''.join(CODE), {'__name__': '__main__'})
  assert capsys.readouterr().out == ''.join(PRINTED)


def test_the_readme_shows_the_same_one():
  readme = (ROOT / 'README.md').read_text(encoding='utf-8')
  shown = re.search(r'<!-- world -->\n```python\n(.*?)```', readme, re.DOTALL)
  assert shown[1] == CODE[0]


def test_an_environment_is_short():
  assert len([line for line in CODE[0].splitlines() if line]) <= 40


def test_the_table_has_all_families_and_their_settings():
  rows = re.findall(r'^\| `(\w+)` \| [^|]* \| ([^|]*) \| (\w+) \|', TEXT, re.M)
  assert {row[0] for row in rows} == set(base.FAMILIES)
  for name, fields, place in rows:
    family = base.find(name)
    assert re.findall(r'`(\w+)`', fields) == list(base.settings(family))
    assert family().place == place


def test_lines_it_shows_are_read():
  rows = re.findall(r'^\| `(\w+)` `(\w+)` \| `(\{.*?\})`', TEXT, re.M)
  lines = {(name, field): json.loads(line) for name, field, line in rows}
  assert len(lines) == 4
  assert math_python._task(lines['math_python', 'path'])
  assert search_questions._asked(lines['search_questions', 'questions'])
  assert set(lines['search_questions', 'corpus']) == {'title', 'text'}
  assert catalogue._product(lines['shop', 'catalogue'])


def test_examples_in_errors_are_read():
  assert math_python._task(json.loads(math_python.EXAMPLE))
  assert search_questions._asked(json.loads(search_questions.EXAMPLE))
  assert catalogue._product(json.loads(catalogue.EXAMPLE))
