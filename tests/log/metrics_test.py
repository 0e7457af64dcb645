"""Rows survive kills without gap or duplicate; metrics are read late."""

import json
import logging as python_logging
import math
import os
import pathlib
import random
import signal
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.log import metrics
from tests import errors
from tests.log import metric_rows

REPOSITORY = pathlib.Path(__file__).parents[2]


def steps_of(folder) -> list[int]:
  return [row['step'] for row in metrics.read(folder / 'metrics.jsonl')]


def test_numbers_come_back_exactly(tmp_path):
  row = {
    'third': 1 / 3,
    'tiny': 5e-324,
    'half': float(np.float32(0.1)),
    'tokens': 2**60,
    'numpy': np.float32(0.1),
    'nan': math.nan,
    'up': math.inf,
    'down': -math.inf,
  }
  w = metric_rows.writer(tmp_path)
  w.write(1, row, phase='sft')
  w.close()
  (got,) = metrics.read(tmp_path / 'metrics.jsonl')
  assert got.pop('step') == 1
  assert got.pop('phase') == 'sft'
  assert math.isnan(got.pop('nan'))
  del row['nan']
  assert got == row
  assert type(got['tokens']) is int


def test_file_is_strict_json(tmp_path):
  def refuse(word):
    raise AssertionError(word)

  w = metric_rows.writer(
    tmp_path, worst=-math.inf, deep={'list': [math.nan, 1]}
  )
  w.write(1, {'x': math.nan, 'y': -math.inf}, phase='rl')
  w.close()
  text = (tmp_path / 'metrics.jsonl').read_text()
  row = json.loads(text, parse_constant=refuse)
  assert row == {'step': 1, 'phase': 'rl', 'x': 'nan', 'y': '-inf'}
  header = (tmp_path / 'header.json').read_text()
  assert json.loads(header, parse_constant=refuse) == {
    'worst': '-inf',
    'deep': {'list': ['nan', 1]},
  }


def test_every_row_is_readable_before_close(tmp_path):
  w = metric_rows.writer(tmp_path)
  for step in range(1, 4):
    w.write(step, {'x': step}, phase='rl')
    assert steps_of(tmp_path) == list(range(1, step + 1))
  w.close()


def test_resume_cuts_back_without_gap_or_duplicate(tmp_path):
  metric_rows.write_steps(tmp_path, range(1, 8))
  with (tmp_path / 'metrics.jsonl').open('a') as f:
    f.write('{"step": 8, "loss/to')  # torn
  assert steps_of(tmp_path) == list(range(1, 8))
  metric_rows.write_steps(tmp_path, range(5, 10), resume_after=4)
  assert steps_of(tmp_path) == list(range(1, 10))
  metric_rows.write_steps(tmp_path, range(10, 11), resume_after=9)
  assert steps_of(tmp_path) == list(range(1, 11))


def test_a_line_whose_newline_is_missing_is_torn(tmp_path):
  metric_rows.write_steps(tmp_path, [1, 2])
  path = tmp_path / 'metrics.jsonl'
  os.truncate(path, path.stat().st_size - 1)
  metric_rows.write_steps(tmp_path, [2, 3], resume_after=1)
  assert steps_of(tmp_path) == [1, 2, 3]


def test_lost_rows_are_told(tmp_path, caplog):
  metric_rows.write_steps(tmp_path, [1, 2])
  with caplog.at_level(python_logging.WARNING, logger='absl'):
    metric_rows.write_steps(tmp_path, [6], resume_after=5)
  assert 'ends at step 2: rows up to 5 are lost' in caplog.text
  with caplog.at_level(python_logging.WARNING, logger='absl'):
    metric_rows.write_steps(tmp_path / 'other', [6], resume_after=5)
  assert 'is missing: earlier rows are lost' in caplog.text


def test_a_new_start_keeps_the_old_file_aside(tmp_path, caplog):
  metric_rows.write_steps(tmp_path, [1, 2])
  metric_rows.write_steps(tmp_path, [1])
  with caplog.at_level(python_logging.WARNING, logger='absl'):
    metric_rows.write_steps(tmp_path, [1, 2, 3])
  assert 'metrics.2.jsonl' in caplog.text
  assert steps_of(tmp_path) == [1, 2, 3]
  kept = [metrics.read(tmp_path / f'metrics.{i}.jsonl') for i in (1, 2)]
  assert [len(rows) for rows in kept] == [2, 1]
  assert [
    step for step, _ in metric_rows.shown_scalars(tmp_path / 'tensorboard')
  ] == [1, 2, 3]


def test_a_broken_line_in_the_middle_is_named(tmp_path):
  path = tmp_path / 'metrics.jsonl'
  path.write_text('{"step": 1, "phase": "rl"}\nrubbish\n{"step": 3}\n')
  with errors.raises(ValueError, 'metrics.jsonl 2 JSON'):
    metrics.read(path)


def test_a_pipe_is_not_waited_for(tmp_path):
  os.mkfifo(tmp_path / 'metrics.jsonl')
  with errors.raises(ValueError, 'metrics.jsonl'):
    metrics.read(tmp_path / 'metrics.jsonl')


def test_steps_increase_and_an_evaluation_may_follow_its_step(tmp_path):
  w = metric_rows.writer(tmp_path)
  w.write(3, {}, phase='sft')
  w.write(3, {}, phase='eval')
  for step, phase in [(3, 'rl'), (3, 'eval'), (2, 'eval')]:
    with errors.raises(ValueError, f'{step} {phase}'):
      w.write(step, {}, phase=phase)
  w.write(4, {}, phase='rl')
  w.close()
  w = metric_rows.writer(tmp_path, resume_after=3)
  with errors.raises(ValueError, '3'):
    w.write(3, {}, phase='eval')
  w.write(4, {}, phase='eval')
  w.close()
  assert steps_of(tmp_path) == [3, 3, 4]


def test_it_is_known_whether_an_evaluation_was_written(tmp_path):
  w = metric_rows.writer(tmp_path)
  assert not w.evaluated(0)
  w.write(3, {}, phase='rl')
  assert w.evaluated(2)
  assert not w.evaluated(3)
  w.write(3, {}, phase='eval')
  assert w.evaluated(3)
  w.write(4, {}, phase='rl')
  w.close()
  for after, known in [(3, True), (4, False)]:
    w = metric_rows.writer(tmp_path, resume_after=after)
    assert w.evaluated(after) == known
    w.write(4, {}, phase='rl') if after == 3 else w.write(4, {}, phase='eval')
    w.close()


@pytest.mark.parametrize(
  ('scalars', 'told'),
  [
    ({'x': 'high'}, 'x high'),
    ({'x': True}, 'x'),
    ({'step': 3}, 'step'),
  ],
)
def test_bad_scalars_are_named_and_leave_no_row(tmp_path, scalars, told):
  w = metric_rows.writer(tmp_path)
  with errors.raises(ValueError, told):
    w.write(1, scalars, phase='rl')
  w.write(1, {'x': 1.0}, phase='rl')
  w.close()
  assert steps_of(tmp_path) == [1]


def test_device_arrays_are_refused(tmp_path):
  w = metric_rows.writer(tmp_path)
  with errors.raises(ValueError, 'DelayedFetch'):
    w.write(1, {'x': jnp.float32(1)}, phase='rl')
  w.close()


def test_an_inactive_writer_touches_nothing(tmp_path):
  w = metrics.MetricsWriter(
    tmp_path / 'run', resume_after=None, header={}, active=False
  )
  w.write(1, {'x': 1.0}, phase='rl')
  w.flush()
  w.close()
  assert not (tmp_path / 'run').exists()


LOOP = """
import pathlib, sys
import jax.numpy as jnp
from agentrl.log import metrics
workdir, saved = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
start = int(saved.read_text()) if saved.exists() else None
writer = metrics.MetricsWriter(workdir, resume_after=start, header={})
late, step = metrics.DelayedFetch(), start or 0
put = lambda row: row and writer.write(*row, phase='rl')
print('from', step, flush=True)
while True:
  step += 1
  put(late.push(step, {'x': jnp.float32(step)}))
  if step % 5 == 0:
    put(late.drain())
    writer.flush()
    part = saved.with_suffix('.part')
    part.write_text(str(step))
    part.replace(saved)
    print('saved', step, flush=True)
"""


@pytest.mark.slow
def test_sigkill_and_resume_leave_neither_gap_nor_duplicate(tmp_path):
  draw = random.Random(0)
  workdir, saved = tmp_path / 'run', tmp_path / 'saved'
  command = [sys.executable, '-c', LOOP, str(workdir), str(saved)]
  env = os.environ | {'PYTHONPATH': str(REPOSITORY), 'XLA_FLAGS': ''}
  for lines in (1, 1, 2):  # the last one is killed after it saved
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE) as loop:
      for _ in range(lines):
        loop.stdout.readline()
      try:
        loop.wait(timeout=0.02 + draw.random() * 0.1)
      except subprocess.TimeoutExpired:
        loop.send_signal(signal.SIGKILL)
    assert loop.returncode == -signal.SIGKILL
    start = int(saved.read_text()) if saved.exists() else None
    metric_rows.write_steps(workdir, [], resume_after=start)
    rows = metrics.read(workdir / 'metrics.jsonl')
    assert [r['step'] for r in rows] == list(range(1, (start or 0) + 1))
  assert start > 0
  assert [r['x'] for r in rows] == [r['step'] for r in rows]


def test_late_gives_the_step_before():
  late = metrics.DelayedFetch()
  assert late.push(1, {'a': jnp.float32(1), 'loss': {'pg': (6.0, 4)}}) is None
  tree = {'a': jnp.int32(2), 'loss': {'pg': (jnp.float32(3), jnp.int32(0))}}
  assert late.push(2, tree) == (1, {'a': 1.0, 'loss/pg': 1.5})
  step, row = late.drain()
  assert (step, row['a']) == (2, 2.0)
  assert row['loss/pg'] is None
  assert late.drain() is None


def test_late_makes_only_explicit_transfers():
  late = metrics.DelayedFetch()
  with jax.transfer_guard('disallow'):
    late.push(1, {'a': (jax.device_put(3.0), jax.device_put(2.0))})
    assert late.drain() == (1, {'a': 1.5})


@pytest.mark.parametrize('leaf', [jnp.ones(3), (1.0, 2.0, 3.0)])
def test_late_names_what_is_no_scalar(leaf):
  with errors.raises(ValueError, 'a/b'):
    metrics.DelayedFetch().push(1, {'a': {'b': leaf}})


def test_metrics_of_several_runs_come_late_as_one():
  late = metrics.DelayedFetch((2,))
  late.push(1, {'x': (np.array([3.0, 1.0]), np.array([2.0, 0.0]))})
  _, scalars = late.drain()
  assert scalars['x'].tolist() == [1.5, None]
  with errors.raises(ValueError, '2'):
    late.push(2, {'x': 1.0})
