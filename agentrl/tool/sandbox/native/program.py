"""Runs a program in this process and says how it ended."""

import io
import sys
import types

# How a program ends -> the exit status that tells of it; 0 is well.
ENDS = {
  'error': 1,
  'memory': 81,
  'processes': 82,
  'files': 83,
  'network': 84,
  'refused': 85,
}
_NAME = '<code>'
_NO_NETWORK = 101  # ENETUNREACH
_NO_PROCESS = 11  # EAGAIN
_NO_ROOM = (27, 28, 30)  # EFBIG, ENOSPC, EROFS
_NO_MEMORY = 12  # ENOMEM
_NOT_ALLOWED = (1, 13)  # EPERM, EACCES
_NOT_THERE = 2  # ENOENT


def run(code: str, packages: list[str]) -> int:
  """Runs the code as `__main__`; -> the exit status, one of `ENDS` or 0."""
  sys.path[:0] = packages
  sys.argv = [_NAME]
  sys.dont_write_bytecode = True
  sys.stdin.close()
  assert isinstance(sys.stdout, io.TextIOWrapper)
  sys.stdout.reconfigure(line_buffering=True, errors='backslashreplace')
  sys.modules['__main__'] = main = types.ModuleType('__main__')
  end = 0
  try:
    exec(compile(code, _NAME, 'exec'), main.__dict__)
    threading = sys.modules.get('threading')
    if threading:  # only if the code has imported it
      for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.daemon:
          thread.join()
  except SystemExit as leave:
    if isinstance(leave.code, str):
      _print(leave.code + '\n')
    end = ENDS['error'] if leave.code else 0
  except BaseException as error:
    end = ENDS[_kind(error)]
    _print(_traceback(error, code))
  _print('')
  return end


def _print(text: str) -> None:
  """Prints to the process's own stdout, even if the code has redirected it."""
  try:
    print(text, end='', flush=True, file=sys.__stdout__)
  except (OSError, ValueError):  # the code has closed the output
    return


def _traceback(error: BaseException, code: str) -> str:
  """Returns the traceback, from the code's own first line on."""
  import linecache
  import traceback

  linecache.cache[_NAME] = (len(code), None, code.splitlines(True), _NAME)
  traceback.clear_frames(error.__traceback__)  # memory to say it with
  trace = traceback.TracebackException.from_exception(error)
  while trace.stack and trace.stack[0].filename != _NAME:
    trace.stack.pop(0)
  return ''.join(trace.format())


def _kind(error: BaseException | None) -> str:
  """Returns the kind of fault, from the error or one that led to it."""
  while error is not None:
    if isinstance(error, MemoryError):
      return 'memory'
    if isinstance(error, RuntimeError) and 'new thread' in str(error):
      return 'processes'
    if isinstance(error, OSError) and (kind := _of_system(error)):
      return kind
    error = error.__cause__ or error.__context__
  return 'error'


def _of_system(error: OSError) -> str:
  """Returns the kind of an OSError; '' is none in particular."""
  number, path = error.errno or 0, error.filename
  if number == _NO_NETWORK or number < 0:  # < 0: a name was not found
    return 'network'
  if number == _NO_PROCESS:
    return 'processes'
  if number == _NO_MEMORY:
    return 'memory'
  away = str(path).startswith('/') and not str(path).startswith('/box/')
  if (
    number in _NO_ROOM
    or (number in _NOT_ALLOWED and path is not None)
    or (number == _NOT_THERE and away)
  ):
    return 'files'
  return ''
