"""Messages from threads: each sequence gets its own, or what went wrong."""

import threading
import time

import numpy as np
import pytest

from agentrl.rollout.engine.engine import (
  Completion,
  GenerationFault,
  SamplingParams,
)
from agentrl.rollout.threaded import ThreadedGenerator

HOW = SamplingParams(np.zeros(2, np.uint32), 4)


@pytest.fixture
def over():
  """Ends whoever still hangs when a test does."""
  made = threading.Event()
  yield made
  made.set()


def answer(ids):
  return Completion(0, ids, [0.0], [0.0], [0])


def collected(generator):
  out, end = [], time.monotonic() + 20
  while generator.busy and time.monotonic() < end:
    generator.dispatch()
    out += generator.collect()
  return out


def test_each_line_gets_its_own():
  def generate(context, how):
    if context == (3,):
      raise OSError('gone')
    return answer([*context, how.budget])

  generator = ThreadedGenerator(generate, 2)
  for sequence in (1, 2, 3):
    generator.submit(sequence, [sequence], HOW)
  by = {x.sequence: x for x in collected(generator)}
  assert by[3] == GenerationFault(3, 'OSError: gone')
  assert [by[x].ids for x in (1, 2)] == [[1, 4], [2, 4]]
  generator.close()


def test_what_is_cancelled_is_never_collected(over):
  def generate(context, how):
    over.wait(20)
    return answer([1])

  generator = ThreadedGenerator(generate, 1)
  generator.submit(1, [1], HOW)
  assert generator.collect() == []  # it waits, and not for ever
  generator.cancel(1)
  over.set()
  assert not generator.busy
  assert generator.collect() == []
  generator.close()


def test_requests_that_hang_leave_their_place_to_others(over):
  def generate(context, how):
    if context == (0,):
      over.wait(60)
    return answer(list(context))

  generator = ThreadedGenerator(generate, 2)
  for sequence in range(4):
    generator.submit(sequence, [0], HOW)
  generator.submit(7, [7], HOW)
  assert generator.collect() == []  # two hang, and the others wait
  for sequence in range(4):
    generator.cancel(sequence)
  assert [x.sequence for x in collected(generator)] == [7]
  over.set()
  generator.close()


def test_only_so_many_requests_are_left_behind(over):
  begun = []

  def generate(context, how):
    begun.append(context)
    over.wait(60)
    return answer([1])

  generator = ThreadedGenerator(generate, 1)
  for sequence in range(10):
    generator.submit(sequence, [sequence], HOW)
    generator.cancel(sequence)
  assert not generator.busy
  generator.submit(10, [10], HOW)
  assert generator.collect() == []
  assert (10,) not in begun
  over.set()
  assert [x.sequence for x in collected(generator)] == [10]
  generator.close()


def test_only_so_many_requests_run_at_a_time():
  most, now, lock = [], [0], threading.Lock()

  def generate(context, how):
    with lock:
      now[0] += 1
      most.append(now[0])
    time.sleep(0.01)
    with lock:
      now[0] -= 1
    return answer([1])

  generator = ThreadedGenerator(generate, 3)
  for sequence in range(12):
    generator.submit(sequence, [sequence], HOW)
  assert len(collected(generator)) == 12
  assert max(most) <= 3
  generator.close()


def test_a_request_waits_where_the_system_gives_no_thread(monkeypatch):
  start, most = threading.Thread.start, 2

  def scarce(thread):
    if threading.active_count() >= most:
      raise RuntimeError("can't start new thread")
    start(thread)

  def generate(context, how):
    time.sleep(0.02)
    return answer(list(context))

  most += threading.active_count()
  monkeypatch.setattr(threading.Thread, 'start', scarce)
  generator = ThreadedGenerator(generate, 8)
  for sequence in range(6):
    generator.submit(sequence, [sequence], HOW)
  out = collected(generator)
  assert sorted(x.sequence for x in out) == list(range(6))
  generator.close()
