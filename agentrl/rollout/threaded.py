"""Generator whose messages come from elsewhere, each asked for in a thread."""

import concurrent.futures
from collections.abc import Callable, Sequence

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)

_WAIT = 0.05  # seconds for a message before environments are looked after
# (context, how) -> the message, of any sequence; raises what went wrong.
Generate = Callable[[Sequence[int], SamplingParams], Completion]


class ThreadedGenerator:
  """See rollout.host.Generator; open until `close`."""

  def __init__(self, generate: Generate, threads: int):
    """threads: messages that are asked for at a time."""
    self._generate = generate
    self._pool = concurrent.futures.ThreadPoolExecutor(threads)
    self._sequences: dict[concurrent.futures.Future[Completion], int] = {}

  @property
  def busy(self) -> bool:
    return bool(self._sequences)

  def submit(
    self, sequence: int, context: Sequence[int], how: SamplingParams
  ) -> None:
    future = self._pool.submit(self._generate, tuple(context), how)
    self._sequences[future] = sequence

  def dispatch(self) -> None:
    """Requests are on their way already."""

  def collect(self) -> list[Completion | GenerationFault]:
    done, _ = concurrent.futures.wait(
      self._sequences, _WAIT, concurrent.futures.FIRST_COMPLETED
    )
    return [_of_line(self._sequences.pop(x), x) for x in done]

  def cancel(self, sequence: int) -> None:
    for future in [
      x for x, other in self._sequences.items() if other == sequence
    ]:
      future.cancel()
      del self._sequences[future]

  def close(self) -> None:
    self._pool.shutdown(wait=False, cancel_futures=True)


def _of_line(
  sequence: int, future: 'concurrent.futures.Future[Completion]'
) -> Completion | GenerationFault:
  if error := future.exception():
    return GenerationFault(sequence, f'{type(error).__name__}: {error}')
  return future.result()._replace(sequence=sequence)
