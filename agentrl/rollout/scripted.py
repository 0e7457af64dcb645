"""A mouth that says what was written down, for demonstrations and replays."""

from collections.abc import Mapping, Sequence

from agentrl.rollout.engine.engine import How, Spoken


class Script:
  """Says a line's messages one after another; then an empty turn, for ever.

  Args:
    said: line -> its messages, each a list of tokens
    eot: what an empty turn is made of
  """

  def __init__(self, said: Mapping[int, Sequence[Sequence[int]]], eot: int):
    self._said = {line: iter(messages) for line, messages in said.items()}
    self._eot = eot
    self._asked: list[int] = []

  @property
  def busy(self) -> bool:
    return bool(self._asked)

  def ask(self, line: int, context: Sequence[int], how: How) -> None:
    self._asked.append(line)

  def launch(self) -> None:
    """Nothing is to be computed."""

  def land(self) -> list[Spoken]:
    asked, self._asked = self._asked, []
    return [self._next(line) for line in asked]

  def drop(self, line: int) -> None:
    self._asked = [other for other in self._asked if other != line]

  def _next(self, line: int) -> Spoken:
    ids = list(next(self._said[line], (self._eot,)))
    n = len(ids)
    return Spoken(line, ids, [0.0] * n, [0.0] * n, [0] * n)
