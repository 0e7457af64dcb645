"""Requests of many threads, in rounds of one."""

import threading
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest

from agentrl.rollout.engine.driver import GeneratorDriver
from agentrl.rollout.engine.engine import Completion, SamplingParams

HOW = SamplingParams(np.zeros(2, np.uint32), 4)


class Echo:
  """Says the context after two rounds; refuses an empty one."""

  def __init__(self):
    self.sequences, self.most, self.begun = {}, 0, 0

  @property
  def busy(self):
    return any(left for left, _ in self.sequences.values())

  def submit(self, sequence, context, how):
    if not context:
      raise ValueError('an empty context')
    self.sequences[sequence] = [2, list(context)]
    self.begun += 1

  def dispatch(self):
    self.most = max(self.most, len(self.sequences))

  def collect(self):
    out = []
    for sequence, entry in self.sequences.items():
      entry[0] -= 1
      if not entry[0]:
        ids = entry[1]
        out.append(Completion(sequence, ids, [0.0], [0.0], [0]))
    return out

  def cancel(self, sequence):
    self.sequences.pop(sequence, None)


@pytest.fixture
def driver():
  made = GeneratorDriver(Echo())
  over = threading.Event()
  thread = threading.Thread(
    target=lambda: [made.round(0.05) for _ in iter(over.is_set, True)]
  )
  thread.start()
  yield made
  over.set()
  thread.join()


def test_each_caller_gets_its_own(driver):
  with ThreadPoolExecutor(8) as pool:
    futures = pool.map(lambda i: driver.submit([i, i], HOW), range(1, 40))
    assert [f.result(10).ids for f in futures] == [[i, i] for i in range(1, 40)]
  assert not driver.generator.sequences


def test_what_is_refused_fails_alone(driver):
  good, bad = driver.submit([1], HOW), driver.submit([], HOW)
  with pytest.raises(ValueError):
    bad.result(10)
  assert good.result(10).ids == [1]


def test_requests_of_a_round_go_together():
  driver = GeneratorDriver(Echo())
  several = [driver.submit([i], HOW) for i in (1, 2, 3)]
  driver.round()
  driver.round()
  assert [f.result(0).ids for f in several] == [[1], [2], [3]]
  assert driver.generator.most == 3


def test_a_cancelled_request_is_taken_back():
  driver = GeneratorDriver(Echo())
  one, two = driver.submit([1], HOW), driver.submit([2], HOW)
  driver.round()
  assert one.cancel()
  driver.round()
  assert two.result(0).ids == [2]
  assert not driver.generator.sequences
  late = driver.submit([3], HOW)
  assert late.cancel()  # before it was even begun
  driver.round(0.0)
  assert driver.generator.begun == 2
  with pytest.raises(CancelledError):
    late.result(0)


def test_nothing_comes_after_the_end():
  driver, ended = GeneratorDriver(Echo()), []
  waiting = driver.submit([1], HOW)
  driver.round()
  driver.close(lambda: ended.append(1))
  driver.close(lambda: ended.append(2))
  assert not driver.order(lambda: ended.append(3))
  with pytest.raises(ValueError):
    driver.submit([1], HOW).result(0)
  driver.fail(ValueError('why'))
  with pytest.raises(ValueError):
    waiting.result(0)
  driver.round(0.0)
  assert ended == [1]
