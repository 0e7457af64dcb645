"""Latencies of made-up tools, and a generator that waits for everybody."""

import numpy as np

from agentrl.lab.bench import slow_envs


def test_calls_have_the_median_and_one_in_fifty_is_long():
  seconds = slow_envs.waits(2000, 10, 0.3, 5.0)
  assert seconds.shape == (2000, 10)
  np.testing.assert_allclose(np.median(seconds), 0.3, rtol=0.05)
  np.testing.assert_allclose(np.mean(seconds > 5.0), 0.02, atol=0.005)
  np.testing.assert_array_equal(seconds, slow_envs.waits(2000, 10, 0.3, 5.0))


class Engine:
  busy = False

  def __init__(self):
    self.lines = []

  def submit(self, line):
    self.lines.append(line)

  def dispatch(self):
    pass

  def cancel(self, line):
    pass


def test_in_lockstep_nobody_speaks_before_all_who_are_left_have_asked():
  engine = Engine()
  lockstep = slow_envs.Lockstep(engine, 3)
  lockstep.submit(0)
  lockstep.submit(1)
  lockstep.dispatch()
  assert not engine.lines
  assert not lockstep.busy
  lockstep.cancel(2)
  assert lockstep.busy
  lockstep.dispatch()
  assert engine.lines == [0, 1]
