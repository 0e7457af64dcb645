"""Workers: calls in order, late ones left behind, nothing waited for twice."""

import threading

import pytest

from agentrl.judge.workers import Late, Workers


def test_results_and_errors_come_back():
  workers = Workers(3, 30.0)

  def fails():
    raise KeyError('no')

  tasks = [workers.submit(lambda i=i: i * i) for i in range(50)]
  bad = workers.submit(fails)
  assert [workers.result(x) for x in tasks] == [i * i for i in range(50)]
  with pytest.raises(KeyError):
    workers.result(bad)
  workers.close()


def test_a_late_call_costs_itself():
  workers, release = Workers(2, 0.2), threading.Event()
  hangs = workers.submit(release.wait)
  others = [workers.submit(lambda i=i: i) for i in range(20)]
  with pytest.raises(Late):
    workers.result(hangs)
  assert [workers.result(x) for x in others] == list(range(20))
  release.set()
  workers.close()


def test_one_that_hangs_for_ever_is_soon_called_no_more():
  """2 x threads calls are waited for; those behind them are not made."""
  workers, release = Workers(2, 0.1), threading.Event()
  calls = []

  def hang():
    calls.append(1)
    release.wait()

  tasks = [workers.submit(hang) for _ in range(40)]
  late = 0
  for task in tasks:
    with pytest.raises(Late):
      workers.result(task)
    late += 1
  assert late == 40
  assert len(calls) <= 6
  with pytest.raises(Late):
    workers.result(workers.submit(lambda: 1))
  release.set()
  workers.close()


def test_a_call_in_time_is_forgiven_the_late_ones_before():
  workers, release = Workers(1, 0.1), threading.Event()
  for _ in range(5):
    with pytest.raises(Late):
      workers.result(workers.submit(release.wait))
    assert workers.result(workers.submit(lambda: 'there')) == 'there'
  release.set()
  workers.close()


def test_closing_waits_for_nobody():
  workers, release = Workers(2, 60.0), threading.Event()
  workers.submit(release.wait)
  workers.close()
  release.set()
