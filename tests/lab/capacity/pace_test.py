"""Pace of asynchronous collecting, against every schedule and every split."""

import collections
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.configs import grpo
from agentrl.lab.capacity import pace
from agentrl.lab.capacity.pace import Pace
from agentrl.rollout import tickets
from agentrl.run import workdir
from agentrl.run.check import fields
from tests import errors

SECONDS = st.integers(1, 40)


def played(now: Pace, bound: int, depth: int, steps: int = 400) -> float:
  """Seconds of a step: tickets begun and trained on one after the other."""
  book = tickets.Book(bound, 'fixed', first=0, end=steps)
  admitted = {}  # ticket -> the version that lets it begin
  for version in range(steps):
    for n in range(book.admitted(version)):
      admitted.setdefault(n, version)
  idle = collections.deque([0.0] * depth)
  done = [0.0]  # done[v]: when version v is there
  for n in range(steps):
    begin = max(done[admitted[n]], min(idle))
    idle.remove(min(idle))
    idle.append(begin + now.collect)
    done.append(max(begin + now.collect, done[n]) + now.update)
  half = steps // 2
  return (done[-1] - done[half]) / (steps - half)


@given(SECONDS, SECONDS, st.integers(0, 6), st.integers(1, 6))
def test_a_step_takes_what_the_tickets_take(collect, update, bound, depth):
  now = Pace(float(collect), float(update))
  got = pace.seconds(now, bound, depth)
  assert got == pytest.approx(played(now, bound, depth), rel=0.02)


@given(SECONDS, SECONDS)
def test_the_least_bound_that_keeps_the_learner_busy(collect, update):
  now = Pace(float(collect), float(update))
  least = pace.depth(now)
  assert pace.seconds(now, least, least) == update
  for bound, depth in itertools.product(range(least + 2), range(1, least + 2)):
    busy = pace.seconds(now, bound, depth) == update
    assert busy == (bound >= least and depth >= least)


@given(st.floats(0.01, 100), st.floats(0.01, 100), st.integers(2, 64))
def test_the_split_is_the_best_of_all(learn, collect, devices):
  got = pace.split(learn, collect, devices)
  every = [max(learn / n, collect / (devices - n)) for n in range(1, devices)]
  assert got.learn + got.collect == devices
  assert got.learn > 0
  assert got.collect > 0
  assert got.seconds == pytest.approx(min(every))
  assert got.seconds >= (learn + collect) / devices * (1 - 1e-9)


def test_what_is_told():
  text = '\n'.join(
    pace.lines(Pace(30.0, 10.0), learners=4, collectors=4, devices=8)
  )
  rows = [x.split() for x in text.splitlines() if x.endswith('x')]
  assert rows == [
    ['0', '40', '1.00x'],
    ['1', '30', '1.33x'],
    ['2', '15', '2.67x'],
    ['3', '10', '4.00x'],
  ]
  assert 'staleness.bound=3' in text
  # 40 and 120 device-seconds.
  assert '8 is 2 that learn and staleness.devices=6: 20 s' in text
  one = pace.lines(Pace(30.0, 10.0), learners=1, collectors=1, devices=1)
  assert 'staleness.devices' not in '\n'.join(one)


def rows(steps, collect=3.0, wait=0.5, step=2.0):
  return [
    {
      'step': i + 1,
      'phase': 'rl',
      'time/seconds': step * i + 100 * (i > 0),
      'time/collect_seconds': collect,
      'time/wait_seconds': wait,
    }
    for i in range(steps)
  ]


def test_a_run_is_measured():
  """Medians: the first step compiles."""
  warm = [{'step': 1, 'phase': 'sft', 'time/seconds': 1.0}]
  assert pace.measured(warm + rows(9)) == Pace(3.0, 1.5)
  lacking = [{'step': 9, 'phase': 'rl', 'time/collect_seconds': None}]
  with errors.raises(ValueError, '--measured time/collect_seconds 2'):
    pace.measured(lacking + rows(2))


def test_seconds_or_a_run_are_read(tmp_path):
  assert pace.read('30,1e1') == Pace(30.0, 10.0)
  for text in ('30,0', '-1,2', '1e999,1', '1,.'):
    with errors.raises(ValueError, f'--measured {text}'):
      pace.read(text)
  with errors.raises(ValueError, 'nowhere'):
    pace.read(str(tmp_path / 'nowhere'))
  workdir.keep_config(fields.read(grpo.get_config('tiny')), str(tmp_path))
  lines = ''.join(json.dumps(x) + '\n' for x in rows(9))
  (tmp_path / 'metrics.jsonl').write_text(lines)
  assert pace.read(str(tmp_path)) == Pace(3.0, 1.5)
