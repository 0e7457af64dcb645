"""Mistakes by operators, as edits of a module's text.

They are found in the syntax tree and applied by position, so that the rest of
the text stays. What no test is meant to see has none: text, annotations,
assertions, and what is raised, printed or logged.
"""

import ast
import difflib
import itertools
import re
import types
from collections.abc import Callable, Iterator
from typing import NamedTuple

_SIGNS = {ast.Add: '+-', ast.Sub: '-+', ast.Mult: '*/', ast.Div: '/*'}
_BOUNDS = {
  ast.Lt: ('<', '<='),
  ast.LtE: ('<=', '<'),
  ast.Gt: ('>', '>='),
  ast.GtE: ('>=', '>'),
  ast.Eq: ('==', '!='),
  ast.NotEq: ('!=', '=='),
}
_GUARDS = 1e-5, 1e5  # a float beyond only keeps a division or a mask finite
# Their arguments may be swapped, or never are by mistake.
_SYMMETRIC = re.compile(
  r'(.*\.)?(max|min|maximum|minimum|add|multiply|logical_(and|or)|isclose'
  r'|allclose|array_equal|hypot|isinstance|issubclass)'
)
_SILENT = re.compile(
  r'(logging|warnings)\..*|print|.*(assert_|DEFINE_|lru_cache|dataclass).*'
)
_ENTRY = re.compile(r'.*TYPE_CHECKING|__name__ == .*')
_SEQUENCES = ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp
_FUNCTIONS = ast.FunctionDef, ast.AsyncFunctionDef

Span = tuple[int, int, str]  # start, end, what stands there instead


class Edit(NamedTuple):
  """Replaces text[start:end], counted in bytes, by other text."""

  operator: str
  line: int
  start: int
  end: int
  new: str

  def applied(self, text: str) -> str:
    old = text.encode()
    return (old[: self.start] + self.new.encode() + old[self.end :]).decode()


class Source:
  """Where the nodes of a syntax tree stand in the text."""

  def __init__(self, text: str):
    self.bytes = text.encode()
    lengths = (len(line) for line in self.bytes.splitlines(keepends=True))
    self._lines = [0, *itertools.accumulate(lengths)]

  def start(self, node) -> int:
    return self._lines[node.lineno - 1] + node.col_offset

  def end(self, node) -> int:
    return self._lines[node.end_lineno - 1] + node.end_col_offset

  def whole(self, node, new: str) -> Span:
    return self.start(node), self.end(node), new

  def between(self, left, right, old: str, new: str) -> Span:
    """`old`, which stands between two nodes."""
    at = self.bytes.index(old.encode(), self.end(left), self.start(right))
    return at, at + len(old), new

  def swapped(self, left, right) -> Span:
    cuts = self.start(left), self.end(left), self.start(right), self.end(right)
    a, between, b = (self.bytes[i:j].decode() for i, j in _pairs(cuts))
    return cuts[0], cuts[-1], f'{b}{between}{a}'

  def without(self, items: list, i: int) -> Span:
    """A list of arguments less the i-th, with its comma."""
    if i:
      return self.end(items[i - 1]), self.end(items[i]), ''
    end = self.start(items[1]) if len(items) > 1 else self.end(items[0])
    return self.start(items[0]), end, ''


_pairs = itertools.pairwise


def sign(node: ast.AST, source: Source) -> Iterator[Span]:
  match node:
    case (
      ast.BinOp(left=left, right=right, op=op)
      | ast.AugAssign(target=left, value=right, op=op)
    ):
      if type(op) in _SIGNS and not (_sequence(left) or _sequence(right)):
        yield source.between(left, right, *_SIGNS[type(op)])
    case ast.UnaryOp(op=ast.USub()):
      yield source.start(node), source.start(node) + 1, ''


def boundary(node: ast.AST, source: Source) -> Iterator[Span]:
  if isinstance(node, ast.Compare):
    for (left, right), op in zip(
      _pairs([node.left, *node.comparators]), node.ops, strict=True
    ):
      if type(op) in _BOUNDS:
        yield source.between(left, right, *_BOUNDS[type(op)])


def constant(node: ast.AST, source: Source) -> Iterator[Span]:
  match node:
    case ast.Constant(value=bool(x)):
      yield source.whole(node, str(not x))
    case ast.Constant(value=int(x)):
      yield source.whole(node, str(0 if x == 1 else x + 1))
    case ast.Constant(value=float(x)):
      if not x or _GUARDS[0] < x < _GUARDS[1]:
        yield source.whole(node, str(2 * x or 1.0))


def dropped(node: ast.AST, source: Source) -> Iterator[Span]:
  match node:
    case ast.AugAssign():
      yield source.whole(node, 'pass')
    case ast.Expr(value=ast.Call() | ast.Await()):
      yield source.whole(node, 'pass')
    case ast.Assign(targets=targets):
      if not any(_creates(x) for x in targets):
        yield source.whole(node, 'pass')
    case ast.UnaryOp(op=ast.Not()):
      at, end = source.start(node), source.end(node)
      word = re.match(rb'not\s*', source.bytes[at:end])
      yield at, at + word.end(), ''
    case ast.If(test=test) if not _ENTRY.fullmatch(ast.unparse(test)):
      guard = isinstance(node.body[-1], ast.Raise)
      yield source.whole(test, str(not guard))
    case ast.Call(
      func=ast.Attribute(attr='replace' | '_replace'), keywords=[_, *_]
    ):
      items = [*node.args, *node.keywords]
      for i in range(len(node.args), len(items)):
        yield source.without(items, i)


def swapped(node: ast.AST, source: Source) -> Iterator[Span]:
  if not isinstance(node, ast.Call) or _SYMMETRIC.fullmatch(_name(node)):
    return
  # Of where(c, a, b) the branches: a condition is no value.
  args = node.args[_name(node).endswith('where') :]
  named = [x.value for x in node.keywords if x.arg]
  for a, b in itertools.chain(_pairs(args), _pairs(named)):
    starred = isinstance(a, ast.Starred) or isinstance(b, ast.Starred)
    alike = _sequence(a) == _sequence(b)  # else it fails at once
    if alike and not starred and ast.dump(a) != ast.dump(b):
      yield source.swapped(a, b)


OPERATORS: dict[str, Callable[[ast.AST, Source], Iterator[Span]]] = {
  'sign': sign,
  'boundary': boundary,
  'constant': constant,
  'dropped': dropped,
  'swapped': swapped,
}


def edits(text: str) -> list[Edit]:
  """Every mistake that the operators can make in a module."""
  source = Source(text)
  return [
    Edit(name, node.lineno, *span)
    for node in _reached(_with_bindings(ast.parse(text)))
    for name, spans in OPERATORS.items()
    for span in spans(node, source)
  ]


def changes(old: str, new: str) -> bool:
  """Whether the text is Python still, and compiles to something else."""
  try:
    return _code(compile(new, '', 'exec')) != _code(compile(old, '', 'exec'))
  except SyntaxError:
    return False


def patch(file: str, old: str, new: str) -> str:
  """Returns the lines that differ, with one line around them."""
  lines = difflib.unified_diff(
    old.splitlines(keepends=True),
    new.splitlines(keepends=True),
    file,
    file,
    n=1,
  )
  return ''.join(lines)


def _code(code: types.CodeType) -> tuple:
  """A program without the places of its text."""
  constants = [
    _code(x) if isinstance(x, types.CodeType) else repr(x)
    for x in code.co_consts
  ]
  return code.co_code, code.co_names, code.co_varnames, constants


def _reached(node: ast.AST) -> Iterator[ast.AST]:
  """Nodes below, without those that no test is meant to see."""
  match node:
    case ast.Raise() | ast.Assert() | ast.JoinedStr():
      return
    case ast.FunctionDef(name='__repr__' | '__str__'):
      return
    case ast.Expr(value=ast.Call() as call) if _SILENT.fullmatch(_name(call)):
      return
    case ast.Call() if _SILENT.fullmatch(_name(node)):
      return
    case ast.If(test=test) if _ENTRY.fullmatch(ast.unparse(test)):
      return
    case ast.keyword(arg='strict'):  # of zip: an assertion
      return
  yield node
  for field, value in ast.iter_fields(node):
    if field not in ('annotation', 'returns'):
      for child in value if isinstance(value, list) else [value]:
        if isinstance(child, ast.AST):
          yield from _reached(child)


def _with_bindings(tree: ast.Module) -> ast.Module:
  """The tree, whose targets say whether they bind a name for the first time."""
  for scope in ast.walk(tree):
    if isinstance(scope, (ast.Module, *_FUNCTIONS)):
      first = {a.arg for a in ast.walk(scope) if isinstance(a, ast.arg)}
      creates = getattr(scope, 'name', '') == '__init__'
      stored = [x for x in ast.walk(scope) if _stores(x)]
      for x in sorted(stored, key=lambda x: (x.lineno, x.col_offset)):
        place = ast.unparse(x)
        of_name = isinstance(x, ast.Name)
        x.creates = place not in first and (of_name or creates)
        first.add(place)
  return tree


def _stores(x: ast.AST) -> bool:
  places = ast.Name, ast.Attribute
  return isinstance(x, places) and isinstance(x.ctx, ast.Store)


def _creates(target: ast.expr) -> bool:
  """Whether a name or a field would be missing without its assignment."""
  if isinstance(target, ast.Tuple | ast.List):
    return any(_creates(x) for x in target.elts)
  if isinstance(target, ast.Starred):
    return _creates(target.value)
  return not isinstance(target, ast.Subscript) and target.creates


def _sequence(x: ast.expr) -> bool:
  """Text or a list, whose + is no sign and whose / is a path's."""
  text = isinstance(x, ast.Constant) and isinstance(x.value, str | bytes)
  return text or isinstance(x, _SEQUENCES)


def _name(call: ast.Call) -> str:
  return ast.unparse(call.func)
