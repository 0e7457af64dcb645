"""Replies of host environments: validation, and JSON between processes.

Every fault of an environment is detected here, either in a thread
(`InProcessEnv`) or across processes, where the child encodes replies as JSON
(`encode_reply`) and the trainer, which trusts no environment, decodes them with
the same checks (`decode_reply`). Imports little, since every child process
waits for it.
"""

import json
import pickle
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.env.base import CanFork, EnvFamily, HostEnv, Step

# It raised, took too long, its process ended, its reply was too large, or no
# valid reply.
KINDS = ('exception', 'timeout', 'crash', 'oversize', 'malformed')
CHARACTERS = 100_000  # most of an observation
# Most of a number. Arrays are float32, where 3e38 is the end, and advantages,
# critics and the norm of a gradient square what was earned: 1e24, which leaves
# 1e14 for how many turns and parameters they add it up over.
MOST = 1e12
_SAID = 2000  # characters of an error text from another process


class EnvError(Exception):
  """Failure of an environment; it costs its trajectory, never the run."""

  def __init__(self, kind: str, text: str):
    """Sets kind, one of `KINDS`, and text, a sentence."""
    if kind not in KINDS:
      raise ValueError(f'fault kind must be one of {KINDS}, got {kind!r}')
    super().__init__(text)
    self.kind = kind
    self.text = text


class InProcessEnv:
  """Environment in this process, replaced after a fault."""

  delayed = False

  def __init__(self, family: EnvFamily, characters: int):
    self._family, self._characters = family, characters
    self._env: HostEnv | None = None

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task and returns the first observation.

    Raises:
      EnvError: any but timeout.
      ValueError: the family cannot make an environment here, and says why.
    """
    if self._env is None:
      self._env = self._made()
    return self._careful(
      lambda env: observed(env.reset(task, seed), self._characters)
    )

  def step(self, message: str) -> Step:
    """Plays one turn.

    Raises:
      EnvError: any but timeout.
    """
    return self._careful(
      lambda env: checked(
        env.step(message), self._family.columns, self._characters
      )
    )

  def fork(self) -> 'InProcessEnv | None':
    """Returns a copy that goes on from here; None where it cannot fork.

    Raises:
      EnvError: exception.
    """
    mine = self._env
    if not isinstance(mine, CanFork):
      return None
    other = InProcessEnv(self._family, self._characters)
    other._env = self._careful(lambda _: mine.fork())
    return other

  def rest(self) -> None:
    """Keeps the environment for the next task."""

  def close(self) -> None:
    env, self._env = self._env, None
    try:
      if env is not None:
        env.close()
    except BaseException:  # its errors no longer matter
      return

  def kill(self) -> bool:
    """Returns False: a running call cannot be stopped in a thread."""
    return False

  def _made(self) -> HostEnv:
    try:
      return self._family.env()
    except ValueError:  # what the user can mend
      raise
    except BaseException as error:
      fault = EnvError('exception', f'no environment: {described(error)}')
    raise fault

  def _careful(self, call: Callable[[HostEnv], Any]) -> Any:
    if self._env is None:
      raise ValueError('reset must be called before step')
    try:
      return call(self._env)
    except EnvError as error:
      fault = error
    except BaseException as error:  # it may not end the program either
      fault = EnvError('exception', described(error))
    self.close()
    raise fault  # here, so that it does not hold what the environment raised


def load_family(data: bytes) -> Any:
  """Unpickles a family; one that is lost says so when it makes environments."""
  try:
    return pickle.loads(data)
  except BaseException as error:
    why = described(error)

  def lost() -> None:
    raise ValueError(
      f'the family must be importable in a separate process: {why}; move it'
      " to an importable module, or use 'thread'"
    )

  return types.SimpleNamespace(env=lost, worker='thread', columns=())


def observed(text: Any, characters: int = CHARACTERS) -> str:
  """Checks the text of an observation and returns a plain string.

  Raises:
    EnvError: malformed if UTF-8 cannot encode it, oversize if too long.
  """
  if not isinstance(text, str):
    raise EnvError(
      'malformed', f'the observation must be a str, got {type(text).__name__}'
    )
  text = str.__str__(text)
  if len(text) > characters:
    raise EnvError(
      'oversize',
      f'the observation must have at most {characters} characters, got'
      f' {len(text)}',
    )
  try:
    text.encode()
  except UnicodeEncodeError as error:
    raise EnvError(
      'malformed', f'the observation must be valid Unicode: {error.reason}'
    ) from None
  return text


def checked(
  value: Any, columns: Sequence[str], characters: int = CHARACTERS
) -> Step:
  """Converts a `Step` to plain strings, floats and bools, info by column.

  Numbers, NumPy scalars included, are at most `MOST` in size; missing values
  are 0. A score is in [0, 1]; larger payoffs belong in the reward.

  Args:
    value: returned by `step`.
    columns: of the family.
    characters: limit of its text.

  Raises:
    EnvError: malformed if it is invalid, oversize if its text is too long.
  """
  if not isinstance(value, Step):
    raise EnvError(
      'malformed', f'step must return a Step, got {type(value).__name__}'
    )
  info = value.info
  if not isinstance(info, Mapping):
    raise EnvError('malformed', f'info must be a mapping, got {_shown(info)}')
  if unknown := sorted(map(str, set(info) - set(columns))):
    raise EnvError(
      'malformed', f'info must be among {tuple(columns)}, got {unknown}'
    )
  return Step(
    text=observed(value.text, characters),
    reward=_number('reward', value.reward),
    done=_flag('done', value.done),
    score=_score(value.score),
    invalid=_flag('invalid', value.invalid),
    role=_role(value.role),
    info={x: _number(f'info[{x!r}]', info.get(x, 0.0)) for x in columns},
  )


def encode_reply(call: Callable[[], str | Step]) -> bytes:
  """Runs a call and encodes its result or error as JSON."""
  try:
    out = call()
    message = (
      {'text': out} if isinstance(out, str) else {'reply': out._asdict()}
    )
  except EnvError as fault:
    message = {'fault': fault.kind, 'why': fault.text}
  except ValueError as error:
    message = {'refused': str(error)}
  return json.dumps(message).encode()


def decode_reply(
  data: bytes, columns: Sequence[str], characters: int = CHARACTERS
) -> str | Step | EnvError | ValueError:
  """Decodes the JSON of `encode_reply`, with the checks of `InProcessEnv`.

  Raises:
    EnvError: the data are not a reply, so the process is corrupt.
  """
  try:
    match json.loads(data):
      case {'text': text}:
        return observed(text, characters)
      case {'reply': {**fields}}:
        given: dict[Any, Any] = fields
        return checked(Step(**given), columns, characters)
      case {'fault': str(kind), 'why': str(why)} if kind in KINDS:
        return EnvError(kind, why[:_SAID])
      case {'refused': str(why)}:
        return ValueError(why[:_SAID])
  except (ValueError, TypeError, RecursionError):  # no JSON, or no such field
    pass
  raise EnvError('malformed', f'its process must send JSON, got {_shown(data)}')


def described(error: BaseException) -> str:
  """Formats an exception in one line: type, message and location.

  Handles exceptions whose own formatting raises.
  """
  try:
    text = f'{type(error).__name__}: {error}'[:500]
  except BaseException:
    text = f'{type(error).__name__}, which cannot be shown'
  at = error.__traceback__
  while at is not None and at.tb_next is not None:
    at = at.tb_next
  if at is None:
    return text
  return f'{text} ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})'


def _number(name: str, value: Any) -> float:
  """Returns a plain float whose square is finite in float32."""
  plain = _plain(value)
  if isinstance(plain, int | float) and -MOST <= plain <= MOST:
    return float(plain)
  raise EnvError(
    'malformed',
    f'{name} must be a number within ±{MOST:g}, got {_shown(value)}',
  )


def _score(value: Any) -> float:
  score = _number('score', value)
  if not 0 <= score <= 1:
    raise EnvError(
      'malformed',
      f'score must be in [0, 1], got {_shown(value)}; payoffs are rewards',
    )
  return score


def _flag(name: str, value: Any) -> bool:
  plain = _plain(value)
  if isinstance(plain, bool):
    return plain
  raise EnvError('malformed', f'{name} must be a bool, got {_shown(value)}')


def _role(value: Any) -> str:
  if isinstance(value, str) and value in ('user', 'tool'):
    return str(value)
  raise EnvError(
    'malformed', f"role must be 'user' or 'tool', got {_shown(value)}"
  )


def _shown(value: Any) -> str:
  try:
    return repr(value)[:80]
  except BaseException:  # it is not ours
    return f'a {type(value).__name__}, which cannot be shown'


def _plain(value: Any) -> Any:
  """Converts a NumPy scalar to Python's, without importing NumPy."""
  if type(value).__module__ == 'numpy' and value.shape == ():
    return value.item()
  return value
