"""Words of the code: names of the field, one name for one class.

Read from the syntax tree, so that text in strings and comments does not count.
"""

import ast
import collections
import functools
import pathlib
import re
from collections.abc import Iterator

import pytest

ROOT = pathlib.Path(__file__).parent.parent
# Past participles that said nothing of what they held -> how often at most.
WORN = {
  'told': 0,
  'said': 0,
  'known': 0,
  'asked': 0,
  'brought': 0,
  'kept': 0,
  'luck': 0,
  'heard': 0,
  'found': 10,
}
NO_SUBJECT = re.compile(r'(What|Who|How|Of)\b')
MOST_SKIPS = 10  # comments that switch the formatter off, in the whole tree


def files(*folders: str) -> list[pathlib.Path]:
  """Python files; agentrl/{configs,experiments} are links, read at the root."""
  return [
    path
    for folder in folders
    for path in sorted((ROOT / folder).rglob('*.py'))
    if path.relative_to(ROOT).parts[:2]
    not in (('agentrl', 'configs'), ('agentrl', 'experiments'))
  ]


OURS = files('agentrl', 'configs', 'experiments', 'docs')
LIBRARY = files('agentrl', 'configs', 'experiments')


@functools.cache
def parsed(path: pathlib.Path) -> ast.Module:
  return ast.parse(path.read_text(encoding='utf-8'))


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
  """Yields every name that is bound, and its line: also fields and imports."""
  for node in ast.walk(tree):
    match node:
      case ast.Name(id=name, ctx=ast.Store()):
        yield name, node.lineno
      case ast.Attribute(attr=name, ctx=ast.Store()):
        yield name, node.lineno
      case ast.arg(arg=name):
        yield name, node.lineno
      case (
        ast.FunctionDef(name=name)
        | ast.AsyncFunctionDef(name=name)
        | ast.ClassDef(name=name)
      ):
        yield name, node.lineno
      case ast.alias(name=name, asname=other):
        yield other or name.split('.')[0], node.lineno
      case ast.ExceptHandler(name=str(name)):
        yield name, node.lineno
      case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
        yield name, node.lineno


def classes(tree: ast.AST) -> Iterator[str]:
  for node in ast.walk(tree):
    if isinstance(node, ast.ClassDef) and not node.name.startswith('_'):
      yield node.name


def places(path: pathlib.Path, word: str) -> list[str]:
  return [
    f'{path.relative_to(ROOT)}:{line}'
    for name, line in bound(parsed(path))
    if name == word
  ]


@pytest.mark.parametrize('word', WORN)
def test_names_are_of_the_field(word):
  where = [place for path in OURS for place in places(path, word)]
  assert len(where) <= WORN[word], (
    f'{word!r} is bound at {where}; say what it is'
  )


def test_docstrings_begin_with_a_subject():
  vague = [
    str(path.relative_to(ROOT))
    for path in OURS
    if NO_SUBJECT.match(ast.get_docstring(parsed(path)) or '')
  ]
  assert not vague, 'begin with what can be looked up: "Computes ...", a noun'


def test_public_classes_share_no_name():
  homes = collections.defaultdict(list)
  for path in LIBRARY:
    for name in classes(parsed(path)):
      homes[name].append(str(path.relative_to(ROOT)))
  assert not {name: at for name, at in homes.items() if len(at) > 1}


def test_the_formatter_is_seldom_switched_off():
  skip = '# fmt: ' + 'skip'
  count = collections.Counter(
    {
      str(path.relative_to(ROOT)): path.read_text(encoding='utf-8').count(skip)
      for path in files('agentrl', 'configs', 'experiments', 'docs', 'tests')
    }
  )
  assert count.total() <= MOST_SKIPS, count.most_common(5)


def test_the_reader_of_names_sees_every_binding():
  """So that the tests above can fail."""
  tree = ast.parse(
    'import a.b, c as d\n'
    'from e import f\n'
    'class G:\n  h: int\n'
    'def i(j, *k, l=0, **m):\n'
    '  self.n = o = 0\n'
    '  for p, (q, *r) in s: pass\n'
    '  with t as u: [v for w in x if (y := w)]\n'
    '  try: pass\n  except E as z: pass\n'
    'match s:\n  case [A, *B]: pass\n'
  )
  assert {name for name, _ in bound(tree)} == set('adfGhijklmnopqruwyzAB')
  assert list(classes(ast.parse('class A: pass\nclass _B: pass'))) == ['A']
  assert NO_SUBJECT.match('Of the decoder.')
  assert not NO_SUBJECT.match('Often used.')
