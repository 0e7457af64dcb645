"""Command line: flags of the mains, and mistakes as one sentence.

  def main() -> None: ...

  if __name__ == '__main__':
    cli.run(main, required=('config', 'workdir'))

A mistake ends in `error: ...` on stderr and exit code 2, what the machine
refuses (a full disk, a folder that is gone) in the same and exit code 1;
--verbosity=1 shows where it was found. A flag defined by `flag` lies in its
domain when main runs.
"""

import ast
import contextlib
import errno
import importlib
import os
import pathlib
import pkgutil
import re
import runpy
import sys
import types
from collections.abc import Callable, Sequence
from logging import WARNING, LogRecord
from typing import Any, NoReturn

from absl import app, flags, logging
from ml_collections import ConfigDict, config_flags

from agentrl import experiments
from agentrl.domain import Domain, Path, Real, Whole, suggest
from agentrl.run import config_file
from agentrl.runtime import compile_cache
from agentrl.runtime.preemption import Stopped

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


def counts(size: Any) -> Callable[[], dict[str, int]]:
  """Defines a flag for each whole number of a NamedTuple of sizes.

  Returns: what reads them, by name, once flags are parsed
  """
  held = {
    name: flags.DEFINE_integer(name, value, f'Size.{name}', lower_bound=1)
    for name, value in size._asdict().items()
    if isinstance(value, int)
  }
  return lambda: {name: flag.value for name, flag in held.items()}


class _ConfigParser(flags.ArgumentParser):
  """Parser of --config, whose fields are flags as well."""

  def parse(self, argument: str) -> ConfigDict:
    return _with_components(config_file.load(argument), sys.argv).lock()


def config_flag() -> flags.FlagHolder:
  """Defines --config: a method or a config file, and its argument."""
  holder = config_flags.DEFINE_config_file(
    'config', None, 'The experiment, e.g. oprl:tiny or configs/oprl.py:tiny'
  )
  flags.FLAGS['config'].parser = _ConfigParser()
  return holder


def workdir_flag(meaning: str, *, bucket: bool = False) -> flags.FlagHolder:
  return flag('workdir', None, Path(empty=False, bucket=bucket), meaning)


MISTAKE, MACHINE = 2, 1  # exit codes
HELP = ('--help', '--helpshort', '--helpfull', '-help', '-h', '-?')
_NO_SPACE = 'make room there, or use another disk'
_NO_FOLDER = 'a file is in the place of a folder; name another one'
_GONE = 'it was removed, or its disk is gone'
_NOT_WRITABLE = 'make it writable, or use another --workdir'
_ADVICE = {
  errno.ENOSPC: _NO_SPACE,
  errno.EDQUOT: _NO_SPACE,
  errno.EFBIG: 'raise the limit of file sizes (ulimit -f)',
  errno.EROFS: _NOT_WRITABLE,
  errno.EACCES: _NOT_WRITABLE,
  errno.EPERM: _NOT_WRITABLE,
  errno.EEXIST: _NO_FOLDER,
  errno.ENOTDIR: _NO_FOLDER,
  errno.ENOENT: _GONE,
  errno.ESTALE: _GONE,
}


def run(
  main: Callable[..., None],
  required: Sequence[str] = (),
  operands: Sequence[str] = (),
) -> None:
  """Parses the flags, reports missing ones, runs main.

  operands: what main takes, words that are not flags; the last one takes all
    that follow if it ends in '...', and may be left out in brackets
  """

  def parse(argv):
    if set(HELP) & set(argv[1:]):
      _list_fields(argv)
      every = '--helpfull' in argv
      app.usage(shorthelp=not every, writeto_stdout=True, exitcode=0)
    first = os.environ.get('JAX_PROCESS_ID', '0') == '0'
    first &= not any(re.match('--?process=[1-9]', x) for x in argv)
    if first and 'workdir' in required and (given := _given(argv)):
      print(f'loading JAX and the config {given}', file=sys.stderr, flush=True)
    import jax  # takes a second, which help does not need

    compile_cache.enable()  # before JAX's flags, which win
    jax.config.config_with_absl()  # so that --jax_debug_nans and others exist
    return _parse(argv, required)

  app.run(lambda argv: _guarded(main, argv, operands), flags_parser=parse)


def command() -> None:
  """Runs `agentrl NAME ...` as `python -m agentrl.experiments.NAME ...`."""
  mains = commands()
  name = sys.argv[1] if len(sys.argv) > 1 else '--help'
  if name in (*HELP, 'help'):
    lines = (f'  {name:<16}{line}' for name, line in mains.items())
    print('usage: agentrl COMMAND ...; agentrl COMMAND --help explains one')
    print('\n'.join(['', *lines]))
    return
  if name not in mains:
    close = suggest(name, mains)
    fail(f'unknown command {name!r}{close}; agentrl --help lists them')
  del sys.argv[1]
  sys.argv[0] += f' {name}'  # --help and the run's header say how to repeat it
  runpy.run_module(f'{experiments.__name__}.{name}', run_name='__main__')


def commands() -> dict[str, str]:
  """Lists {name of a main: the first line of its docstring}; imports none."""
  folder, lines = pathlib.Path(experiments.__path__[0]), {}
  for main in sorted(pkgutil.iter_modules([str(folder)])):
    text = (folder / f'{main.name}.py').read_text(encoding='utf-8')
    lines[main.name] = (ast.get_docstring(ast.parse(text)) or '').split('\n')[0]
  return lines


def in_clone(module: str) -> types.ModuleType:
  """Imports a module that only a clone has, not a wheel."""
  try:
    return importlib.import_module(module)
  except ModuleNotFoundError as error:
    if error.name != module.partition('.')[0]:
      raise
    fail(f'{module} is only in a clone of the repository; run this there')


def fail(message: str, code: int = MISTAKE) -> NoReturn:
  print(f'error: {message}', file=sys.stderr)
  sys.exit(code)


def refused(error: OSError) -> str:
  """Returns a sentence for an error of the operating system."""
  if error.errno is None:
    return str(error)
  where = f'{error.filename}: ' if error.filename is not None else ''
  what = error.strerror or type(error).__name__
  advice = _ADVICE.get(error.errno, '--verbosity=1 says where it happened')
  return f'{where}{what} ({errno.errorcode.get(error.errno)}); {advice}'


def _guarded(main, argv: Sequence[str], operands: Sequence[str]) -> None:
  given = argv[1:]
  many = bool(operands) and operands[-1].strip('[]').endswith('...')
  needed = [x for x in operands if not x.startswith('[')]
  if len(given) > len(operands) and not many:
    wrong = given[len(operands)]
    fail(f'{wrong!r} is not a flag; flags are written --name=value')
  if len(given) < len(needed):
    lacks = needed[len(given)].removesuffix('...')
    fail(f'{lacks} is missing; --help says what to write')
  logging.set_verbosity(max(logging.get_verbosity(), logging.INFO))
  logging.get_absl_handler().addFilter(_is_shown)
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
  except MemoryError as error:
    logging.debug('%s', error, exc_info=True)
    fail(f'memory is full ({error}); lower the sizes in the config', MACHINE)


def _is_shown(record: LogRecord) -> bool:
  """Tells whether a record is for the user; HTTP clients log each request."""
  if 'orbax' in record.pathname or 'xla_bridge' in record.pathname:
    return False
  if logging.get_verbosity() >= logging.DEBUG:
    return True
  return record.name == 'absl' or record.levelno >= WARNING


def _flush() -> None:
  """Writes what was printed; what cannot be is not tried again at the end."""
  try:
    sys.stdout.flush()
  except OSError as error:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    error.filename = 'the standard output'
    raise


def _parse(argv: Sequence[str], required: Sequence[str]) -> list[str]:
  if _has_fields() and (given := _given(argv)):
    try:
      config_file.load(given)
    except (ValueError, OSError) as error:
      fail(f'--config: {error}')
  try:
    rest = flags.FLAGS(argv)
  except Exception as error:
    if isinstance(error, flags.UnrecognizedFlagError):
      name = error.flagname
      close = suggest(f'--{name}', [f'--{x}' for x in flags.FLAGS])
      fail(f'unknown flag --{name}{close}; --help lists all flags')
    if isinstance(error, flags.Error):
      # Without the trace that the flag parser puts before the mistake.
      lines = [x.strip() for x in str(error).split('\n') if x.strip()]
      mistake = re.sub(r'^[A-Za-z_.]*Error: ', '', lines[-1])
      fail(_wrong_value(argv, mistake) or mistake)
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


def _has_fields() -> bool:
  """Returns whether --config is one whose fields are flags as well."""
  return 'config' in flags.FLAGS and isinstance(
    flags.FLAGS['config'].parser, _ConfigParser
  )


def _list_fields(argv: Sequence[str]) -> None:
  """Has --help list the fields of the config that --config names as well."""
  if not _has_fields():
    return
  if not (given := _given(argv)):
    flags.FLAGS['config'].help += '; with it, --help lists its fields'
    return
  from agentrl.run.check import (
    fields,  # takes seconds, which only this help needs
  )

  try:
    c = _with_components(config_file.load(given), argv)
  except (AttributeError, KeyError, ValueError, OSError, flags.Error) as error:
    fail(f'--config: {error}')
  flags.FLAGS['config'].help += fields.listed(c)


def _given(argv: Sequence[str]) -> str:
  """Returns the value of --config."""
  line = '\n'.join(argv) + '\n'
  match = re.search(r'^--?config(?:=|\n)(.*)$', line, re.MULTILINE)
  return match.group(1) if match else ''


def _with_components(c: ConfigDict, argv: Sequence[str]) -> ConfigDict:
  """Returns the config with flags applied and components' fields filled in.

  A component that a flag names brings hyper-parameters, which are flags too.
  """
  flag_of = {x: re.match(r'--?config\.([^=]*)=', x) for x in argv}
  paths = {x: m[1] for x, m in flag_of.items() if m}
  words = [x for x, path in paths.items() if not config_file.filled(path)]
  config_file.add_fields(c, (paths[x] for x in words))
  values, words = flags.FlagValues(), ['main', *words]
  config_flags.DEFINE_config_dict(
    'config', c, flag_values=values, sys_argv=words
  )
  values(words)
  return config_file.add_fields(config_file.fill(c), paths.values())


def _wrong_value(argv: Sequence[str], message: str) -> str:
  """Says what a field of the config may hold; '' for any other flag."""
  match = re.match(r'flag --?config\.([^=]+)=(.*?): ', message)
  if not match:
    return ''
  from agentrl.run.check import field_hints  # takes seconds

  path, value = match.groups()
  c = config_file.fill(config_file.load(_given(argv)))
  rule = field_hints.wrong_value(c, path, value)
  return rule and f'--config.{path} {rule}'


def _unknown_field(argv: Sequence[str]) -> str:
  """Explains the first --config.a.b that the config does not have."""
  c = config_file.load(_given(argv))
  with contextlib.suppress(AttributeError, KeyError):
    _with_components(c, argv)
  paths = (re.match(r'--?config\.([^=]+)', word) for word in argv)
  mistakes = (config_file.no_field(c, x.group(1)) for x in paths if x)
  return next((f'--{x}' for x in mistakes if x), '')
