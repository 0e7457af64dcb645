"""Names of Python objects, so that a config, which is text, can hold them.

  module:name          what Python imports by that name
  object:name-1a2b3c4d everything else: lambdas, closures, what a notebook or
                       the main script defines; only its own program finds it

The eight digits are a fingerprint: of the source, defaults and closed-over
values of a function, and of the functions, classes and constants of the same
program that it uses. So an object that has changed has another name, and a run
that was begun with the old one is not resumed with it.
"""

import ast
import copyreg
import dis
import functools
import hashlib
import importlib
import inspect
import operator
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from typing import Any

LOCAL = 'object:'
_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)
_DEFINED = (types.FunctionType, type)
_GENERATED = ('__create_fn__', '_recursive_repr')  # by dataclasses
_KEPT: dict[str, Any] = {}  # by name, in this program


class MissingError(ValueError):
  """An object that only another program has."""


def name_of(x: Any) -> str:
  """Returns the name of an object; keeps the object if none can import it."""
  if name := _imported_as(x):
    return name
  if isinstance(x, _DEFINED):  # their state may change, but they do not
    for name, kept in _KEPT.items():
      if kept is x:
        return name
  called = x.__name__ if isinstance(x, _DEFINED) else type(x).__name__
  content = '\0'.join(_content(x, set()))
  digest = hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:8]
  name = f'{LOCAL}{re.sub(r"[^A-Za-z0-9_]", "", called)}-{digest}'
  _KEPT[name] = x
  return name


def is_local(name: Any) -> bool:
  """Returns whether only the program that has the object finds it."""
  return isinstance(name, str) and name.startswith(LOCAL)


def is_missing(name: Any) -> bool:
  """Returns whether it is an object of another program."""
  return is_local(name) and name not in _KEPT


def load(name: str) -> Any:
  """Finds the object of a name.

  Raises:
    MissingError: only another program has it.
    Exception: whatever its module raises, or AttributeError without it.
  """
  if is_missing(name):
    raise MissingError(
      f'{name!r} is a Python object that only the program that began the run'
      ' has; open the run there, passing the object to agentrl.Run again, or'
      " begin a run with a 'module:name' that can be imported"
    )
  if is_local(name):
    return _KEPT[name]
  module, _, path = name.partition(':')
  return operator.attrgetter(path)(importlib.import_module(module))


def _imported_as(x: Any) -> str:
  """Returns the 'module:name' that Python imports it by, else ''."""
  if not isinstance(x, (*_DEFINED, types.BuiltinFunctionType)):
    return ''
  module, path = x.__module__, x.__qualname__
  if not module or module == '__main__' or '<' in path:
    return ''
  try:
    found = operator.attrgetter(path)(importlib.import_module(module))
  except (ImportError, AttributeError):
    return ''
  return f'{module}:{path}' if found is x else ''


def _content(x: Any, seen: set[int]) -> Iterator[str]:
  """Yields texts that differ if the object does; equal in another program."""
  if isinstance(x, _CONSTANTS):
    yield repr(x)
    return
  if (name := _imported_as(x)) or id(x) in seen:
    yield name or 'seen'
    return
  seen.add(id(x))
  yield type(x).__name__
  for part in _parts(x):
    yield from _content(part, seen)


def _parts(x: Any) -> Iterator[Any]:
  """Yields what makes an object that is not a constant what it is."""
  match x:
    case types.FunctionType():
      yield _text(x)
      yield x.__defaults__
      yield x.__kwdefaults__
      yield from (_held(cell) for cell in x.__closure__ or ())
      yield from _used(x)
    case types.CodeType():
      yield x.co_code
      yield from (x.co_names, x.co_varnames, x.co_consts)
    case type():
      yield x.__qualname__
      yield x.__bases__
      for name, member in sorted(vars(x).items()):
        if _written(name, member):
          yield from (name, member)
    case types.MethodType():
      yield from (x.__func__, x.__self__)
    case staticmethod() | classmethod():
      yield x.__func__
    case property() | functools.cached_property():
      yield x.fget if isinstance(x, property) else x.func
    case functools.partial():
      yield from (x.func, x.args, x.keywords)
    case dict():
      for key in sorted(x, key=repr):
        yield from (key, x[key])
    case list() | tuple():
      yield from x
    case set() | frozenset():
      yield from sorted(x, key=repr)
    case _ if _is_array(x) and x.dtype != object:
      yield from (str(x.dtype), str(x.shape))
      yield hashlib.sha256(x.tobytes()).hexdigest()
    case _:
      yield type(x)
      yield from _attributes(x)


def _text(f: types.FunctionType) -> Any:
  """Returns the source without comments; the code where there is none.

  The line of a lambda may hold others.
  """
  if f.__name__ == '<lambda>':
    return f.__code__
  try:
    source = textwrap.dedent(inspect.getsource(f))
    return ast.unparse(ast.parse(source))
  except (OSError, TypeError, SyntaxError):
    return f.__code__


def _held(cell: types.CellType) -> Any:
  try:
    return cell.cell_contents
  except ValueError:  # not assigned yet
    return None


def _used(f: types.FunctionType) -> Iterator[Any]:
  """Yields the constants and definitions that a function uses, by name.

  What may change while it runs, such as a global list, is left out.
  """
  codes, names = [f.__code__], set[str]()
  while codes:
    code = codes.pop()
    codes += [x for x in code.co_consts if isinstance(x, types.CodeType)]
    names |= {
      x.argval
      for x in dis.get_instructions(code)
      if x.opname in ('LOAD_GLOBAL', 'LOAD_NAME')
    }
  fixed = (*_CONSTANTS, *_DEFINED, functools.partial, tuple, frozenset)
  for name in sorted(names & f.__globals__.keys()):
    if isinstance(f.__globals__[name], fixed):
      yield from (name, f.__globals__[name])


def _written(name: str, member: Any) -> bool:
  """Returns whether a member of a class stands in its source.

  Others are made by Python and by decorators such as dataclass.
  """
  if isinstance(member, types.FunctionType):
    return not member.__code__.co_qualname.startswith(_GENERATED)
  return not name.startswith('__') or name == '__slots__'


def _attributes(x: Any) -> Iterator[Any]:
  """Yields names and values of an object that is none of Python's own."""
  kinds = (*_CONSTANTS, *_DEFINED, tuple, list, dict, set, frozenset)
  try:
    held = vars(x)
  except TypeError:  # it has no __dict__
    yield from _reduced(x)
    return
  for name, value in sorted(held.items()):
    if isinstance(value, kinds) or _is_array(value):
      yield from (name, value)


def _is_array(x: Any) -> bool:
  """Tells if it is an array or number of numpy, which workers may not have."""
  numpy = sys.modules.get('numpy')
  return numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic))


def _reduced(x: Any) -> Iterator[Any]:
  """Yields what pickle makes an object of: a path, a date, a pattern."""
  try:
    reduce = copyreg.dispatch_table.get(type(x))
    parts = reduce(x) if reduce else x.__reduce_ex__(2)
  except TypeError:  # of an object that stands for a resource
    return
  if isinstance(parts, tuple):
    _, args, *state = parts
    yield from (args, *state[:1])
    yield from (list(items) for items in state[1:] if items is not None)
