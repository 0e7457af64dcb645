"""docs/GLOSSARY.md points to files and names that exist."""

import ast
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / 'docs/GLOSSARY.md').read_text(encoding='utf-8')
ROWS = re.findall(r'^\| ([^|`]+) \| ([^|]+) \| (.*`.*) \|$', TEXT, re.M)


def test_every_term_stands_once_and_is_short():
  terms = [x.strip(' *') for term, _, _ in ROWS for x in term.split(', ')]
  assert len(terms) >= 30
  assert len(set(terms)) == len(terms)
  for term, meaning, _ in ROWS:
    assert meaning.endswith('.'), term
    assert len(meaning) < 240, term


def test_places_exist():
  for term, _, where in ROWS:
    paths = re.findall(r'`([\w/]+\.py)`', where)
    assert paths, term
    for path in paths:
      assert (ROOT / path).is_file(), f'{term}: {path}'


def test_names_are_defined_where_it_says():
  """`field` of `Class` in `file`, or `name` in `file`."""
  count = 0
  for pattern in (
    r'`([A-Z]\w+)` in \[`([\w/]+\.py)`',
    r'`([a-z]\w+)` in \[`(\S+?)`',
  ):
    for name, path in re.findall(pattern, TEXT):
      tree = ast.parse((ROOT / path).read_text(encoding='utf-8'))
      defined = {x.name for x in tree.body if hasattr(x, 'name')}
      for node in tree.body:
        if isinstance(node, ast.Assign):
          defined |= {x.id for x in node.targets if isinstance(x, ast.Name)}
      assert name in defined, f'{name} in {path}'
      count += 1
  fields = r'`(\w+)`(?: and `(\w+)`)? of `(\w+)` in \[`(\S+?)`'
  for first, second, owner, path in re.findall(fields, TEXT):
    tree = ast.parse((ROOT / path).read_text(encoding='utf-8'))
    (node,) = (x for x in tree.body if getattr(x, 'name', None) == owner)
    names = {x.target.id for x in node.body if isinstance(x, ast.AnnAssign)}
    assert {first, second or first} <= names, f'{first} of {owner} in {path}'
    count += 1
  assert count > 20
