"""What an environment outside of jit answered: checked, or a fault of a kind.

Everything that it can do wrong is found here, wherever it lives: in a thread
(`Local` alone) or in another process, where a `Local` says what it got as JSON
(`told`) and the trainer, which trusts no environment, reads it (`heard`) with
the same checks. Imports little, since every child process waits for it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentrl.env.base import Family, HostEnv, Reply

# It raised, took too long, its process ended, it said too much, or what it
# said is no answer.
KINDS = ('raise', 'time', 'died', 'output', 'answer')
CHARACTERS = 100_000  # most of an observation
# Most of a number. Arrays are float32, where 3e38 is the end, and advantages,
# critics and the norm of a gradient square what was earned: 1e24, which leaves
# 1e14 for how many turns and parameters they add it up over.
MOST = 1e12
_SAID = 2000  # characters of what another process says of a fault


class EnvFault(Exception):
  """An environment that failed; it costs its trajectory, never the run."""

  def __init__(self, kind: str, text: str):
    """One of `KINDS`, and a sentence."""
    if kind not in KINDS:
      raise ValueError(f'fault kind {kind!r} is unknown; use one of {KINDS}')
    super().__init__(text)
    self.kind = kind
    self.text = text


class Local:
  """One environment in this process; after a fault the next one is new."""

  def __init__(self, family: Family, characters: int):
    self._family, self._characters = family, characters
    self._env: HostEnv | None = None

  def reset(self, task: Mapping[str, Any], seed: int) -> str:
    """Begins a task: -> the first observation.

    Raises:
      EnvFault: any but time.
      ValueError: the family has no environment here, and says why.
    """
    if self._env is None:
      self._env = self._made()
    return self._careful(
      lambda env: observed(env.reset(task, seed), self._characters)
    )

  def step(self, message: str) -> Reply:
    """One turn.

    Raises:
      EnvFault: any but time.
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
    except BaseException:  # nobody is left who needs it
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
      fault = EnvFault('raise', f'no environment: {described(error)}')
    raise fault

  def _careful(self, call: Callable[[HostEnv], Any]) -> Any:
    if self._env is None:
      raise ValueError('no task is under way; call reset before step')
    try:
      return call(self._env)
    except EnvFault as error:
      fault = error
    except BaseException as error:  # it may not end the program either
      fault = EnvFault('raise', described(error))
    self.close()
    raise fault  # here, so that it does not hold what the environment raised


def observed(text: Any, characters: int = CHARACTERS) -> str:
  """The text of an observation, as a plain string.

  Raises:
    EnvFault: answer if it is no text that UTF-8 can hold, output if it is too
      long.
  """
  if not isinstance(text, str):
    raise EnvFault(
      'answer', f'the observation is of type {type(text).__name__}, not str'
    )
  text = str.__str__(text)
  if len(text) > characters:
    raise EnvFault(
      'output',
      f'the observation has {len(text)} characters, more than {characters}',
    )
  try:
    text.encode()
  except UnicodeEncodeError as error:
    raise EnvFault(
      'answer', f'the observation is no Unicode text: {error.reason}'
    ) from None
  return text


def checked(
  value: Any, columns: Sequence[str], characters: int = CHARACTERS
) -> Reply:
  """A `Reply` of plain strings, floats and bools, its facts by the columns.

  Scalars of NumPy are numbers, of at most `MOST`; facts that are missing are
  0. A score is in [0, 1]: what a game pays beyond that is its reward.

  Args:
    value: what `step` returned.
    columns: of the family.
    characters: most of its text.

  Raises:
    EnvFault: answer if it is none, output if its text is too long.
  """
  if not isinstance(value, Reply):
    raise EnvFault(
      'answer', f'the answer is of type {type(value).__name__}, not Reply'
    )
  facts = value.facts
  if not isinstance(facts, Mapping):
    raise EnvFault('answer', f'facts={_shown(facts)} is no mapping')
  if unknown := sorted(map(str, set(facts) - set(columns))):
    raise EnvFault(
      'answer', f'facts {unknown} are not among the columns {tuple(columns)}'
    )
  return Reply(
    text=observed(value.text, characters),
    reward=_number('reward', value.reward),
    done=_flag('done', value.done),
    score=_score(value.score),
    invalid=_flag('invalid', value.invalid),
    role=_role(value.role),
    facts={x: _number(f'facts[{x!r}]', facts.get(x, 0.0)) for x in columns},
  )


def told(call: Callable[[], str | Reply]) -> bytes:
  """What came of a call, as JSON: see `heard`."""
  try:
    out = call()
    said = {'text': out} if isinstance(out, str) else {'reply': out._asdict()}
  except EnvFault as fault:
    said = {'fault': fault.kind, 'why': fault.text}
  except ValueError as error:
    said = {'refused': str(error)}
  return json.dumps(said).encode()


def heard(
  data: bytes, columns: Sequence[str], characters: int = CHARACTERS
) -> str | Reply | EnvFault | ValueError:
  """What a call in another process came to, of the JSON that it sent.

  Raises:
    EnvFault: what it sent is no answer, so it is not as it was started.
  """
  try:
    match json.loads(data):
      case {'text': text}:
        return observed(text, characters)
      case {'reply': {**fields}}:
        return checked(Reply(**fields), columns, characters)
      case {'fault': str(kind), 'why': str(why)} if kind in KINDS:
        return EnvFault(kind, why[:_SAID])
      case {'refused': str(why)}:
        return ValueError(why[:_SAID])
  except (ValueError, TypeError, RecursionError):  # no JSON, or no such field
    pass
  raise EnvFault('answer', f'its process sent {_shown(data)}')


def described(error: BaseException) -> str:
  """An exception in a line: its type, what it says, and where it was raised.

  It may come from code that shows nothing without raising once more.
  """
  try:
    said = f'{type(error).__name__}: {error}'[:500]
  except BaseException:
    said = f'{type(error).__name__}, which cannot be shown'
  at = error.__traceback__
  while at is not None and at.tb_next is not None:
    at = at.tb_next
  if at is None:
    return said
  return f'{said} ({at.tb_frame.f_code.co_filename}:{at.tb_lineno})'


def _number(name: str, value: Any) -> float:
  """As a plain float, finite in float32 too and when it is squared."""
  plain = _plain(value)
  if isinstance(plain, int | float) and -MOST <= plain <= MOST:
    return float(plain)
  raise EnvFault(
    'answer', f'{name}={_shown(value)} is no number within ±{MOST:g}'
  )


def _score(value: Any) -> float:
  score = _number('score', value)
  if not 0 <= score <= 1:
    raise EnvFault(
      'answer',
      f'score={_shown(value)} is not in [0, 1]; what a game pays is its reward',
    )
  return score


def _flag(name: str, value: Any) -> bool:
  plain = _plain(value)
  if isinstance(plain, bool):
    return plain
  raise EnvFault('answer', f'{name}={_shown(value)} is no bool')


def _role(value: Any) -> str:
  if isinstance(value, str) and value in ('user', 'tool'):
    return str(value)
  raise EnvFault('answer', f"role={_shown(value)} is neither 'user' nor 'tool'")


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
