"""Signals ask a run to stop, once; the next one is not kept waiting."""

import os
import signal
import threading

import pytest

from agentrl.runtime import preemption
from tests import errors


@pytest.mark.parametrize('number', preemption.SIGNALS)
def test_the_first_signal_is_raised_where_the_run_looks(number):
  with preemption.Interrupt() as check:
    check()
    os.kill(os.getpid(), number)
    with errors.raises(preemption.Stopped, signal.Signals(number).name):
      check()


def test_the_second_signal_reaches_whoever_had_it_before():
  before = signal.getsignal(signal.SIGTERM)
  calls = []
  signal.signal(signal.SIGTERM, lambda *_: calls.append('before'))
  try:
    with preemption.Interrupt():
      os.kill(os.getpid(), signal.SIGTERM)
      assert not calls
      os.kill(os.getpid(), signal.SIGTERM)
      assert calls == ['before']
    os.kill(os.getpid(), signal.SIGTERM)
    assert calls == ['before'] * 2
  finally:
    signal.signal(signal.SIGTERM, before)


def test_beside_the_main_thread_it_does_nothing():
  errors = []

  def run():
    try:
      with preemption.Interrupt() as check:
        check()
    except ValueError as error:
      errors.append(error)

  thread = threading.Thread(target=run)
  thread.start()
  thread.join()
  assert not errors
