"""Users and judges: who answers an environment in words.

A simulated user or a judge is a `Service`: a function of Python, or another
model (rollout/engine/service.py). What it says reaches the agent as an
observation or as a score, so no token of it is ever trained on.
"""

import collections
import importlib
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from agentrl.text.message import Message


class ServiceFault(Exception):
  """A service that gave no answer; it costs the trajectory that asked."""


class Service(Protocol):
  """Who answers; called from several threads at once, and blocks."""

  def __call__(self, messages: Sequence[Message], *, seed: int) -> str:
    """What it says next; the 'assistant' among the messages is itself.

    Args:
      messages: from the first on; the last is not its own.
      seed: of what is random, in [0, 2³¹); for equal arguments the answer is
        equal, as long as the service is the same.

    Raises:
      ServiceFault: it has no answer, and says why.
    """


class Function:
  """The service that a function of some module is."""

  def __init__(self, path: str):
    """Of 'module:name'.

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
      self._function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
      raise ValueError(
        f"{path!r} names no function ({error}); write 'module:name', the module"
        ' as Python imports it'
      ) from error
    if not callable(self._function):
      raise ValueError(
        f'{path!r} is of type {type(self._function).__name__} and cannot be'
        ' called; name a function of (messages, *, seed)'
      )
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


def told(service: Service, system: str) -> Service:
  """The service with a system text before what environments tell it."""

  def ask(messages: Sequence[Message], *, seed: int) -> str:
    first, rest = system, list(messages)
    if rest and rest[0].role == 'system':  # some templates take only one
      first = f'{system}\n{rest.pop(0).content}'
    return service([Message('system', first), *rest], seed=seed)

  return ask if system else service


_Known = collections.OrderedDict[Hashable, str]


class Watched:
  """A service whose calls are counted and, if wanted, remembered.

  counts: 'calls', those that were 'failed', those that were 'known' already,
  and 'tokens' of what was said.
  """

  def __init__(
    self,
    service: Service,
    tokens: Callable[[str], int],
    *,
    kept: int = 0,
  ):
    """Of what answers equal messages equally, if any answer is to be kept.

    Args:
      tokens: -> how many a text has.
      kept: answers that are remembered, the latest used ones; 0 where answers
        depend on the seed.

    Raises:
      ValueError: kept is negative.
    """
    if kept < 0:
      raise ValueError(f'kept={kept} is negative; use 0 to remember nothing')
    self._service, self._tokens, self._most = service, tokens, kept
    self._known: _Known = collections.OrderedDict()
    self._lock = threading.Lock()
    self._counts: collections.Counter[str] = collections.Counter()

  def __call__(self, messages: Sequence[Message], *, seed: int) -> str:
    asked, known = tuple(messages), self._known
    if (text := self._find(known, asked)) is not None:
      return text
    try:
      text = self._service(messages, seed=seed)
    except ServiceFault:
      with self._lock:
        self._counts['failed'] += 1
      raise
    self._keep(known, asked, text)
    return text

  def forget(self) -> None:
    """Remembers nothing: the service has become another."""
    self._known = collections.OrderedDict()  # who asks now keeps the old one

  def taken(self) -> dict[str, int]:
    """The counts since this was called last."""
    with self._lock:
      counts, self._counts = self._counts, collections.Counter()
    names = ('calls', 'failed', 'known', 'tokens')
    return {name: counts[name] for name in names}

  def _find(self, known: _Known, asked: Hashable) -> str | None:
    with self._lock:
      self._counts['calls'] += 1
      if asked not in known:
        return None
      self._counts['known'] += 1
      known.move_to_end(asked)
      return known[asked]

  def _keep(self, known: _Known, asked: Hashable, text: str) -> None:
    with self._lock:
      self._counts['tokens'] += self._tokens(text)
      known[asked] = text
      while len(known) > self._most:
        known.popitem(last=False)
