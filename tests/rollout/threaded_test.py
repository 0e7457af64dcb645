"""Messages from threads: each sequence gets its own, or what went wrong."""

import threading

import numpy as np

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.rollout.threaded import ThreadedGenerator

HOW = SamplingParams(np.zeros(2, np.uint32), 4)


def test_each_line_gets_its_own():
  def generate(context, how):
    if context == (3,):
      raise OSError('gone')
    return Completion(0, [*context, how.budget], [0.0], [0.0], [0])

  generator = ThreadedGenerator(generate, 2)
  for sequence in (1, 2, 3):
    generator.submit(sequence, [sequence], HOW)
  out = []
  while generator.busy:
    generator.dispatch()
    out += generator.collect()
  by = {x.sequence: x for x in out}
  assert by[3] == GenerationFault(3, 'OSError: gone')
  assert {sequence: by[sequence].ids for sequence in (1, 2)} == {
    1: [1, 4],
    2: [2, 4],
  }
  generator.close()


def test_what_is_cancelled_is_never_collected():
  go = threading.Event()

  def generate(context, how):
    go.wait(20)
    return Completion(0, [1], [0.0], [0.0], [0])

  generator = ThreadedGenerator(generate, 1)
  generator.submit(1, [1], HOW)
  assert generator.collect() == []  # it waits, and not for ever
  generator.cancel(1)
  go.set()
  assert not generator.busy
  assert generator.collect() == []
  generator.close()
