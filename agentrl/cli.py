"""What the mains share: their flags, and every mistake as one sentence.

  def main() -> None: ...

  if __name__ == '__main__':
    cli.run(main, required=('config', 'workdir'))

A mistake ends in `error: ...` on stderr and exit code 2, what the machine
refuses (a full disk, a folder that is gone) in the same and exit code 1;
--verbosity=1 shows where it was found. A flag defined by `flag` lies in its
domain when main runs.
"""

import errno
import importlib
import os
import pkgutil
import re
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags

from agentrl import experiments
from agentrl.domain import Domain, Path, Real, Whole
from agentrl.preemption import Stopped
from agentrl.run import config_file

flags.disclaim_key_flags()  # a flag is the main's that defines it
_DOMAINS: dict[str, Domain] = {}


def flag(name: str, default: Any, of: Domain, meaning: str) -> flags.FlagHolder:
  """Defines a flag; a value outside its domain is refused before main runs.

  meaning: a sentence without its full stop
  """
  _DOMAINS[name] = of
  if isinstance(of, Whole):
    text = f'{meaning}: {of.explain()}.'
    return flags.DEFINE_integer(name, default, text)
  if isinstance(of, Real):
    return flags.DEFINE_float(name, default, f'{meaning}: {of.explain()}.')
  return flags.DEFINE_string(name, default, f'{meaning}.')


class _ConfigParser(flags.ArgumentParser):
  """Of --config, whose fields are flags as well."""

  def parse(self, argument: str) -> ConfigDict:
    return config_file.load(argument).lock()


def config_flag() -> flags.FlagHolder:
  """Defines --config: a method or a config file, and its argument."""
  holder = config_flags.DEFINE_config_file(
    'config', None, 'The experiment, e.g. oprl:tiny or configs/oprl.py:tiny'
  )
  flags.FLAGS['config'].parser = _ConfigParser()
  return holder


def workdir_flag(meaning: str) -> flags.FlagHolder:
  return flag('workdir', None, Path(empty=False), meaning)


MISTAKE, MACHINE = 2, 1  # exit codes
_NO_SPACE = 'make room there, or use another disk'
_NOT_WRITABLE = 'make it writable, or use another --workdir'
_ADVICE = {
  errno.ENOSPC: _NO_SPACE,
  errno.EDQUOT: _NO_SPACE,
  errno.EFBIG: 'raise the limit of file sizes (ulimit -f)',
  errno.EROFS: _NOT_WRITABLE,
  errno.EACCES: _NOT_WRITABLE,
  errno.EPERM: _NOT_WRITABLE,
  errno.ENOENT: 'somebody removed it, or its disk is gone',
  errno.ESTALE: 'somebody removed it, or its disk is gone',
}


def run(
  main: Callable[..., None],
  required: Sequence[str] = (),
  operands: Sequence[str] = (),
) -> None:
  """Parses the flags, complains of those that lack, runs main.

  operands: what main takes, words that are not flags; the last one takes all
    that follow if it ends in '...'
  """
  jax.config.config_with_absl()  # so that --jax_debug_nans and others exist

  def parse(argv):
    return _parse(argv, required)

  app.run(lambda argv: _guarded(main, argv, operands), flags_parser=parse)


def command() -> None:
  """`agentrl NAME ...` is `python -m agentrl.experiments.NAME ...`."""
  mains = sorted(x.name for x in pkgutil.iter_modules(experiments.__path__))
  if len(sys.argv) < 2 or sys.argv[1] not in mains:
    print(f'usage: agentrl NAME ...; NAME is one of {", ".join(mains)}')
    sys.exit(MISTAKE)
  name = sys.argv.pop(1)
  sys.argv[0] += f' {name}'  # --help and the run's header say how to repeat it
  runpy.run_module(f'{experiments.__name__}.{name}', run_name='__main__')


def in_clone(module: str) -> types.ModuleType:
  """A module that stands beside this package in a clone, in no wheel."""
  try:
    return importlib.import_module(module)
  except ModuleNotFoundError as error:
    if error.name != module.partition('.')[0]:
      raise
    fail(f'there is no {module} here; start this in a clone of the repository')


def _ours(record) -> bool:
  """Whether a reader of the log can use the line."""
  return not any(x in record.pathname for x in ('orbax', 'xla_bridge'))


def fail(message: str, code: int = MISTAKE) -> NoReturn:
  print(f'error: {message}', file=sys.stderr)
  sys.exit(code)


def refused(error: OSError) -> str:
  """What the machine did not do, as a sentence."""
  if error.errno is None:
    return str(error)
  where = f'{error.filename}: ' if error.filename is not None else ''
  what = error.strerror or type(error).__name__
  advice = _ADVICE.get(error.errno, '--verbosity=1 says where it happened')
  return f'{where}{what} ({errno.errorcode.get(error.errno)}); {advice}'


def _guarded(main, argv: Sequence[str], operands: Sequence[str]) -> None:
  given = argv[1:]
  many = bool(operands) and operands[-1].endswith('...')
  if len(given) > len(operands) and not many:
    wrong = given[len(operands)]
    fail(f'{wrong!r} is not a flag; flags are written --name=value')
  if len(given) < len(operands):
    lacks = operands[len(given)].removesuffix('...')
    fail(f'{lacks} is missing; --help says what to write')
  logging.set_verbosity(max(logging.get_verbosity(), logging.INFO))
  logging.get_absl_handler().addFilter(_ours)
  try:
    main(*given)
    _flush()
  except FloatingPointError:  # of --jax_debug_nans, which is asked for a trace
    raise
  except Stopped as reason:
    print(reason, file=sys.stderr)
    sys.exit(130)  # as a shell has it for a program that Ctrl-C ended
  except (ValueError, ArithmeticError) as error:
    logging.debug('%s', error, exc_info=True)
    fail(str(error))
  except OSError as error:
    logging.debug('%s', error, exc_info=True)
    fail(refused(error), MACHINE)


def _flush() -> None:
  """Writes what was printed; what cannot be is not tried again at the end."""
  try:
    sys.stdout.flush()
  except OSError as error:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    error.filename = 'the standard output'
    raise


def _parse(argv: Sequence[str], required: Sequence[str]) -> list[str]:
  fields = 'config' in flags.FLAGS and isinstance(
    flags.FLAGS['config'].parser, _ConfigParser
  )
  if fields and (given := _given(argv)):
    try:
      config_file.load(given)
    except (ValueError, OSError) as error:
      fail(f'--config: {error}')
  if fields and any(x.startswith('--help') for x in argv[1:]):
    _list_fields(argv)
  try:
    rest = flags.FLAGS(argv)
  except Exception as error:
    if isinstance(error, flags.Error):
      fail(_last_line(error))
    if not isinstance(error, AttributeError | KeyError):
      raise
    fail(_unknown_field(argv) or f'a flag cannot be read: {error}')
  for name in required:
    if flags.FLAGS[name].value is None:
      meaning = flags.FLAGS[name].help.rstrip('.')
      fail(f'the flag --{name} is missing: {meaning}; --help lists all flags')
  try:
    for name, of in _DOMAINS.items():
      if flags.FLAGS[name].value is not None:
        of.check(f'--{name}', flags.FLAGS[name].value)
  except ValueError as error:
    fail(str(error))
  return rest


def _list_fields(argv: Sequence[str]) -> None:
  """Has --help list the config's fields as well."""
  from agentrl.configs import base  # takes seconds, which only --help needs
  from agentrl.run import fields

  try:
    given = _given(argv)
    c = config_file.load(given) if given else base.get_config()
  except (ValueError, OSError) as error:
    fail(f'--config: {error}')
  flags.FLAGS['config'].help += fields.listed(c)


def _given(argv: Sequence[str]) -> str:
  """The value of --config."""
  line = '\n'.join(argv) + '\n'
  found = re.search(r'^--?config(?:=|\n)(.*)$', line, re.MULTILINE)
  return found.group(1) if found else ''


def _last_line(error: Exception) -> str:
  """What was wrong, without the trace that the flag parser put before it."""
  lines = [line.strip() for line in str(error).splitlines() if line.strip()]
  return re.sub(r'^[A-Za-z_.]*Error: ', '', lines[-1])


def _unknown_field(argv: Sequence[str]) -> str | None:
  """The first --config.a.b that the config does not have."""
  config = config_file.load(_given(argv))
  for word in argv:
    found = re.match(r'--?config\.([^=]+)', word)
    node = config
    for i, part in enumerate(found.group(1).split('.') if found else ()):
      if not isinstance(node, ConfigDict) or part not in node:
        return _has_not(found.group(1).split('.')[:i], part, node)
      node = node[part]
  return None


def _has_not(before: list[str], part: str, node) -> str:
  path = '.'.join(['config', *before])
  if not isinstance(node, ConfigDict):
    return f'--{path}.{part}: {path} is a value, {node!r}; set --{path} itself'
  fields = ', '.join(sorted(node)) or 'no field'
  return f'--{path}.{part} is no field of this config; {path} has {fields}'
