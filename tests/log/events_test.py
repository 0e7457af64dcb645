"""Event files show what the rows hold."""

import math

import numpy as np

from tests.log import metric_rows


def test_event_files_show_each_step_once(tmp_path):
  metric_rows.write_steps(tmp_path, range(1, 8))
  metric_rows.write_steps(tmp_path, range(5, 10), resume_after=4)
  assert len(list((tmp_path / 'tensorboard').iterdir())) == 2
  got = metric_rows.shown_scalars(tmp_path / 'tensorboard')
  assert [step for step, _ in got] == list(range(1, 10))
  np.testing.assert_allclose([v * 3 for _, v in got], range(1, 10), rtol=1e-6)


def test_event_files_skip_what_is_not_finite(tmp_path):
  w = metric_rows.writer(tmp_path)
  w.write(1, {'a': math.nan, 'b': 2.0}, phase='rl')
  w.close()
  assert metric_rows.shown_scalars(tmp_path / 'tensorboard') == [(1, 2.0)]
