"""Calls in threads of their own."""

import threading

import pytest

from agentrl.runtime import threads

WAIT = 20


def test_a_call_gives_what_it_returns_or_raises():
  assert threads.start(lambda: 3).result(WAIT) == 3

  def fail():
    raise SystemExit('no')

  with pytest.raises(SystemExit):
    threads.start(fail).result(WAIT)


def test_calls_do_not_wait_for_each_other():
  all_here = threading.Barrier(50)
  futures = [threads.start(lambda: all_here.wait(WAIT)) for _ in range(50)]
  assert sorted(x.result(WAIT) for x in futures) == list(range(50))


def test_a_call_that_has_begun_is_not_cancelled():
  over = threading.Event()
  future = threads.start(lambda: over.wait(WAIT))
  assert not future.cancel()
  over.set()
  assert future.result(WAIT)


def test_its_thread_does_not_keep_the_program():
  assert threads.start(lambda: threading.current_thread().daemon).result(WAIT)
