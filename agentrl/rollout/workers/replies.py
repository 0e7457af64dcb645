"""Replies of host environments: validation, and JSON between processes.

Every fault of an environment is detected here, in a thread (`InProcessEnv`
alone) or in another process, where an `InProcessEnv` encodes its reply as JSON
(`encode_reply`) and the trainer, which trusts no environment, decodes it
(`decode_reply`) with the same checks. Imports little, since every child
process waits for it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.env.base import EnvFamily, HostEnv, Step

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
  """An environment that failed; it costs its trajectory, never the run."""

  def __init__(self, kind: str, text: str):
    """kind: one of `KINDS`; text: a sentence."""
    if kind not in KINDS:
      raise ValueError(f'fault kind {kind!r} is unknown; use one of {KINDS}')
    super().__init__(text)
    self.kind = kind
    self.text = text


class InProcessEnv:
  """One environment in this process; after a fault the next one is new."""

  def __init__(self, family: EnvFamily, characters: int):
    self._family, self._characters = family, characters
    self._env: HostEnv | None = None

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task: -> the first observation.

    Raises:
      EnvError: any but timeout.
      ValueError: the family has no environment here, and says why.
    """
    if self._env is None:
      self._env = self._made()
    return self._careful(
      lambda env: observed(env.reset(task, seed), self._characters)
    )

  def step(self, message: str) -> Step:
    """One turn.

    Raises:
      EnvError: any but timeout.
    """
    return self._careful(
      lambda env: checked(
        env.step(message), self._family.columns, self._characters
      )
    )

  def close(self) -> None:
    env, self._env = self._env, None
    try:
      if env is not None:
        env.close()
    except BaseException:  # its errors no longer matter
      return

  def kill(self) -> bool:
    """A call that is under way cannot be stopped."""
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
      raise ValueError('no task is under way; call reset before step')
    try:
      return call(self._env)
    except EnvError as error:
      fault = error
    except BaseException as error:  # it may not end the program either
      fault = EnvError('exception', described(error))
    self.close()
    raise fault  # here, so that it does not hold what the environment raised


def observed(text: Any, characters: int = CHARACTERS) -> str:
  """The text of an observation, as a plain string.

  Raises:
    EnvError: malformed, no text that UTF-8 can hold; oversize, too long.
  """
  if not isinstance(text, str):
    raise EnvError(
      'malformed', f'the observation is of type {type(text).__name__}, not str'
    )
  text = str.__str__(text)
  if len(text) > characters:
    raise EnvError(
      'oversize',
      f'the observation has {len(text)} characters, more than {characters}',
    )
  try:
    text.encode()
  except UnicodeEncodeError as error:
    raise EnvError(
      'malformed', f'the observation is no Unicode text: {error.reason}'
    ) from None
  return text


def checked(
  value: Any, columns: Sequence[str], characters: int = CHARACTERS
) -> Step:
  """A `Step` of plain strings, floats and bools, its info by the columns.

  Scalars of NumPy are numbers, of at most `MOST`; values that are missing are
  0. A score is in [0, 1]: what a game pays beyond that is its reward.

  Args:
    value: what `step` returned.
    columns: of the family.
    characters: most of its text.

  Raises:
    EnvError: malformed if it is none, oversize if its text is too long.
  """
  if not isinstance(value, Step):
    raise EnvError(
      'malformed', f'the answer is of type {type(value).__name__}, not Step'
    )
  info = value.info
  if not isinstance(info, Mapping):
    raise EnvError('malformed', f'info={_shown(info)} is no mapping')
  if unknown := sorted(map(str, set(info) - set(columns))):
    raise EnvError(
      'malformed', f'info {unknown} are not among the columns {tuple(columns)}'
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
    EnvError: what it sent is no answer, so it is not as it was started.
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
  raise EnvError('malformed', f'its process sent {_shown(data)}')


def described(error: BaseException) -> str:
  """Formats an exception in a line: type, message and place.

  It may come from code that shows nothing without raising once more.
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
  """As a plain float, finite in float32 too and when it is squared."""
  plain = _plain(value)
  if isinstance(plain, int | float) and -MOST <= plain <= MOST:
    return float(plain)
  raise EnvError(
    'malformed', f'{name}={_shown(value)} is no number within ±{MOST:g}'
  )


def _score(value: Any) -> float:
  score = _number('score', value)
  if not 0 <= score <= 1:
    raise EnvError(
      'malformed',
      f'score={_shown(value)} is not in [0, 1]; what a game pays is its reward',
    )
  return score


def _flag(name: str, value: Any) -> bool:
  plain = _plain(value)
  if isinstance(plain, bool):
    return plain
  raise EnvError('malformed', f'{name}={_shown(value)} is no bool')


def _role(value: Any) -> str:
  if isinstance(value, str) and value in ('user', 'tool'):
    return str(value)
  raise EnvError(
    'malformed', f"role={_shown(value)} is neither 'user' nor 'tool'"
  )


def _shown(value: Any) -> str:
  try:
    return repr(value)[:80]
  except BaseException:  # it is not ours
    return f'a {type(value).__name__}, which cannot be shown'


def _plain(value: Any) -> Any:
  """A scalar of NumPy as Python's own, without importing NumPy."""
  if type(value).__module__ == 'numpy' and value.shape == ():
    return value.item()
  return value
