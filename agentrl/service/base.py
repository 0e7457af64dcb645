"""Services: simulated users and judges that environments query.

A `Service` is a Python function, or another model
(rollout/engine/service.py). Its text reaches the agent as an observation or a
score, so none of its tokens is ever trained on.
"""

import collections
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from agentrl.runtime import objects
from agentrl.text.message import Message


class ServiceFault(Exception):
  """A service that gave no answer; it costs the trajectory that asked."""


class Service(Protocol):
  """Answers conversations; blocks; called from several threads at once."""

  def __call__(self, messages: Sequence[Message], *, seed: int) -> str:
    """Returns its next message; the 'assistant' among the messages is itself.

    Args:
      messages: from the first on; the last is not its own.
      seed: of what is random, in [0, 2³¹); for equal arguments the answer is
        equal, as long as the service is the same.

    Raises:
      ServiceFault: it has no answer, and says why.
    """


def load_function(path: str, arguments: str) -> Callable:
  """Imports the function 'module:name', of the arguments.

  Raises:
    ValueError: there is no such module, or no such function in it.
  """
  module, colon, name = path.partition(':')
  if not (module and colon and name):
    raise ValueError(
      f"{path!r} names no function; write 'module:name', the module as Python"
      ' imports it'
    )
  try:
    function = objects.load(path)
  except objects.MissingError:
    raise
  except Exception as error:  # whatever the user's module raises
    raise ValueError(
      f"{path!r} names no function ({error}); write 'module:name', the module"
      ' as Python imports it'
    ) from error
  if not callable(function):
    raise ValueError(
      f'{path!r} is of type {type(function).__name__} and cannot be called;'
      f' name a function of {arguments}'
    )
  return function


class Function:
  """Service of a function, 'module:name'."""

  def __init__(self, path: str):
    """Imports the function.

    Raises:
      ValueError: there is no such module, or no such function in it.
    """
    self._function = load_function(path, '(messages, *, seed)')
    self._path = path

  def __call__(self, messages: Sequence[Message], *, seed: int) -> str:
    try:
      text = self._function(messages, seed=seed)
    except ServiceFault:
      raise
    except Exception as error:
      raise ServiceFault(
        f'{self._path} raised {type(error).__name__}: {error}'
      ) from error
    if not isinstance(text, str):
      raise ServiceFault(
        f'{self._path} answered with a {type(text).__name__}, not a str'
      )
    return text


def with_system_text(service: Service, system: str) -> Service:
  """Wraps the service: a system text before the environment's messages."""

  def ask(messages: Sequence[Message], *, seed: int) -> str:
    first, rest = system, list(messages)
    if rest and rest[0].role == 'system':  # some templates take only one
      first = f'{system}\n{rest.pop(0).content}'
    return service([Message('system', first), *rest], seed=seed)

  return ask if system else service


class CountedService:
  """A service whose calls are counted and, if wanted, cached.

  counts: 'calls', those that were 'failed', those that were 'known', that
  is, cached, and 'tokens' of the answers.
  """

  def __init__(
    self, service: Service, tokens: Callable[[str], int], *, capacity: int = 0
  ):
    """Takes a cache; then the service must answer equal messages equally.

    Args:
      tokens: -> how many a text has.
      capacity: answers in the LRU cache; 0 where answers depend on the seed.

    Raises:
      ValueError: capacity is negative.
    """
    if capacity < 0:
      raise ValueError(
        f'capacity={capacity} is negative; use 0 to remember nothing'
      )
    self._service, self._tokens, self._most = service, tokens, capacity
    self._cache: collections.OrderedDict[Hashable, str]
    self.forget()
    self._lock = threading.Lock()
    self._counts: collections.Counter[str] = collections.Counter()

  def __call__(self, messages: Sequence[Message], *, seed: int) -> str:
    key, cache = tuple(messages), self._cache
    with self._lock:
      self._counts['calls'] += 1
      if key in cache:
        self._counts['known'] += 1
        cache.move_to_end(key)
        return cache[key]
    try:
      text = self._service(messages, seed=seed)
    except ServiceFault:
      with self._lock:
        self._counts['failed'] += 1
      raise
    with self._lock:
      self._counts['tokens'] += self._tokens(text)
      cache[key] = text
      while len(cache) > self._most:
        cache.popitem(last=False)
    return text

  def forget(self) -> None:
    """Empties the cache: the service has changed."""
    self._cache = collections.OrderedDict()  # who asks now keeps the old one

  def taken(self) -> dict[str, int]:
    """Returns the counts since this was called last."""
    with self._lock:
      counts, self._counts = self._counts, collections.Counter()
    names = ('calls', 'failed', 'known', 'tokens')
    return {name: counts[name] for name in names}
