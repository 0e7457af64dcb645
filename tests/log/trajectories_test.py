"""A run's log of trajectories: what is written, resumed, killed, read."""

import math
import os
import signal
import subprocess
import sys
import time

import numpy as np

from agentrl.log import shards, trajectories
from tests import errors

SAID = {'text': 'up<eot>', 'tokens': [265, 2], 'who': 'policy'}
TURN = {'read': {'text': 'a\x1b[31m<b>'}, 'said': SAID, 'reward': 0.5}


def trajectory(step: int, **changes):
  return {
    'phase': 'rl',
    'step': step,
    'task': 7,
    'group': 3,
    'member': 25,
    'status': 'turn_limit',
    'outcome': 0.0,
    'reward': 1.0,
    'turns': [TURN, TURN],
    **changes,
  }


def written(workdir, steps, *, after=None, process=0):
  w = trajectories.TrajectoryWriter(
    workdir, resume_after=after, process=process
  )
  for step in steps:
    w.write(trajectory(step))
  w.close()


def test_the_head_says_what_lists_show(tmp_path):
  w = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  mine = trajectory(4, outcome=0.5, signals={'x': math.nan, 'y': [-math.inf]})
  w.write(mine)
  w.close()
  log = trajectories.Log(tmp_path)
  head = {name: log.heads[name][0].item() for name in shards.FACTS.names}
  assert head == {
    'step': 4,
    'task': 7,
    'group': 3,
    'member': 25,
    'phase': 1,
    'status': 2,
    'turns': 2,
    'tokens': 4,
    'outcome': 0.5,
    'reward': 1.0,
  }
  assert log[0] == mine | {'signals': {'x': 'nan', 'y': ['-inf']}}


def test_a_resumed_run_logs_no_step_twice(tmp_path):
  """What was logged after the checkpoint is cut, and made again."""
  written(tmp_path, [1, 1, 2, 3, 3, 4])
  written(tmp_path, [4, 5], after=3)
  steps = trajectories.Log(tmp_path).heads['step']
  assert steps.tolist() == [1, 1, 2, 3, 3, 4, 5]
  written(tmp_path, [1], after=None)
  assert trajectories.Log(tmp_path).heads['step'].tolist() == [1]


def test_processes_write_files_of_their_own(tmp_path):
  for process, steps in ((1, [2, 3]), (0, [1, 2, 4])):
    written(tmp_path, steps, process=process)
  log = trajectories.Log(tmp_path)
  assert log.heads['step'].tolist() == [1, 2, 4, 2, 3]
  assert [log[i]['step'] for i in range(5)] == [1, 2, 4, 2, 3]
  written(tmp_path, [9], after=2, process=1)
  log.refresh()
  assert [log[i]['step'] for i in range(len(log))] == [1, 2, 4, 2, 9]


def test_a_log_is_followed_while_it_grows(tmp_path):
  w = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  log = trajectories.Log(tmp_path)
  assert len(log) == 0
  for n in range(1, 4):
    w.write(trajectory(n))
    assert len(log) == n - 1
    log.refresh()
    assert [log[i]['step'] for i in range(len(log))] == list(range(1, n + 1))
  w.close()


def test_mistakes_are_one_sentence(tmp_path):
  with errors.raises(ValueError, 'trajectories'):
    trajectories.Log(tmp_path)
  w = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  w.write(trajectory(5))
  with errors.raises(ValueError, '4 5'):
    w.write(trajectory(4))
  w.close()
  with errors.raises(IndexError, '1'):
    trajectories.Log(tmp_path)[1]


def test_an_inactive_writer_touches_nothing(tmp_path):
  w = trajectories.TrajectoryWriter(
    tmp_path / 'x', resume_after=None, active=False
  )
  w.write(trajectory(1))
  w.flush()
  w.close()
  assert not (tmp_path / 'x').exists()


LOOP = """
import sys
sys.path.insert(0, sys.argv[2])
import trajectories_test
from agentrl.log import trajectories
w = trajectories.TrajectoryWriter(sys.argv[1], resume_after=None)
for step in range(10**6):
  w.write(trajectories_test.trajectory(step, said='x' * (step % 7) * 5000))
"""


def test_killed_while_writing(tmp_path):
  """SIGKILL at any moment: at most the last one is lost, none is half."""
  here = os.path.dirname(__file__)
  process = subprocess.Popen([sys.executable, '-c', LOOP, tmp_path, here])
  path = tmp_path / trajectories.FOLDER / '00000-00000.jsonl'
  deadline = time.monotonic() + 60
  while not path.exists() or path.stat().st_size < 2_000_000:
    assert time.monotonic() < deadline
    time.sleep(0.01)
  process.send_signal(signal.SIGKILL)
  process.wait()
  log = trajectories.Log(tmp_path)
  n = len(log)
  torn = path.stat().st_size - shards.end(log.heads)
  assert n > 100
  assert torn < 40_000  # less than one line
  np.testing.assert_array_equal(log.heads['step'], np.arange(n))
  assert [log[i]['step'] for i in range(n)] == list(range(n))
  written(tmp_path, [n], after=n - 1)
  assert len(trajectories.Log(tmp_path)) == n + 1
