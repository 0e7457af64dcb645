"""Generator of given messages, for demonstrations and replays."""

from collections.abc import Mapping, Sequence

from agentrl.rollout.engine.engine import Completion, SamplingParams


class ScriptedGenerator:
  """Returns a sequence's messages one after another; after them empty turns.

  Args:
    script: sequence -> its messages, each a list of tokens
    eot: the one token of an empty turn
    seats: neighbours who share a script, and say its messages in turn: those of
      a match. Then `script` is by match.
  """

  def __init__(
    self,
    script: Mapping[int, Sequence[Sequence[int]]],
    eot: int,
    *,
    seats: int = 1,
  ):
    self._seats = seats
    self._script = {
      sequence: iter(messages) for sequence, messages in script.items()
    }
    self._eot = eot
    self._pending: list[int] = []

  @property
  def busy(self) -> bool:
    return bool(self._pending)

  def submit(
    self, sequence: int, context: Sequence[int], how: SamplingParams
  ) -> None:
    self._pending.append(sequence)

  def dispatch(self) -> None:
    """Computes nothing."""

  def collect(self) -> list[Completion]:
    sequences, self._pending = self._pending, []
    completions = []
    for sequence in sequences:
      ids = list(next(self._script[sequence // self._seats], (self._eot,)))
      n = len(ids)
      completions.append(
        Completion(sequence, ids, [0.0] * n, [0.0] * n, [0] * n)
      )
    return completions

  def cancel(self, sequence: int) -> None:
    self._pending = [other for other in self._pending if other != sequence]
