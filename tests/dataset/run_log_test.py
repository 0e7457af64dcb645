"""Logs of runs as trajectories, by phase."""

from agentrl.dataset import run_log
from agentrl.log import trajectories
from tests import errors
from tests.dataset.trajectory_test import LINE


def test_phases_are_chosen(tmp_path):
  writer = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  for step, phase in enumerate(('sft', 'rl', 'eval', 'rl')):
    writer.write(LINE | {'phase': phase, 'step': step})
  writer.close()
  steps = [x.step for x in run_log.read(tmp_path, phase='all')]
  assert steps == [0, 1, 2, 3]
  assert [x.step for x in run_log.read(tmp_path)] == [1, 3]
  assert [x.step for x in run_log.read(tmp_path, phase='eval')] == [2]
  for first, last in ((1, 2), (0, 0), (3, 9), (4, 9)):
    found = run_log.read(tmp_path, phase='all', steps=(first, last))
    assert [x.step for x in found] == [*range(first, min(last, 3) + 1)]
  with errors.raises(ValueError, 'test'):
    next(run_log.read(tmp_path, phase='test'))


def test_what_was_not_played_is_no_attempt(tmp_path):
  writer = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  for step, ids in enumerate(({}, {'unplayed': 1}, {'unplayed': 0})):
    writer.write(LINE | {'step': step, 'ids': ids})
  writer.close()
  assert [x.step for x in run_log.read(tmp_path)] == [0, 2]
