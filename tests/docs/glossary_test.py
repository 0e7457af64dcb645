"""docs/GLOSSARY.md points to files and names that exist."""

import ast
import re

from tests.docs.pages import ROOT, Page

TEXT = Page('docs/GLOSSARY.md').text
ROWS = re.findall(r'^\| ([^|`]+) \| ([^|]+) \| (.*`.*) \|$', TEXT, re.M)


def test_every_term_stands_once():
  terms = [x.strip(' *') for term, _, _ in ROWS for x in term.split(', ')]
  assert len(terms) >= 30
  assert len(set(terms)) == len(terms)


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
