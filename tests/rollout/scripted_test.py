"""Messages written down beforehand, sequence by sequence."""

import numpy as np

from agentrl.rollout.engine.engine import SamplingParams
from agentrl.rollout.scripted import ScriptedGenerator

EOT = 9
HOW = SamplingParams(key=np.zeros(2, np.uint32), budget=4)


def collect(generator, *sequences):
  for sequence in sequences:
    generator.submit(sequence, [1, 2], HOW)
  generator.dispatch()
  return {x.sequence: x for x in generator.collect()}


def test_each_line_says_its_messages_in_order_and_then_empty_turns():
  generator = ScriptedGenerator({3: [[5, EOT], [6, 7, EOT]], 4: []}, EOT)
  first = collect(generator, 3, 4)
  assert (first[3].ids, first[4].ids) == ([5, EOT], [EOT])
  second = collect(generator, 3)[3]
  assert second.ids == [6, 7, EOT]
  assert second.logp == second.entropy == [0.0] * 3
  assert second.version == [0] * 3
  assert collect(generator, 3)[3].ids == [EOT]


def test_who_was_cancelled_is_not_answered():
  generator = ScriptedGenerator({0: [[1]], 1: [[2]]}, EOT)
  assert not generator.busy
  generator.submit(0, [], HOW)
  generator.submit(1, [], HOW)
  generator.cancel(0)
  assert generator.busy
  assert [x.sequence for x in generator.collect()] == [1]
  assert not generator.busy
