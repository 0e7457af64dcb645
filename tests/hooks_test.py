"""Each hook alone."""

import contextlib
import logging
import types

import numpy as np
import pytest

from agentrl import hooks
from agentrl.runtime.preemption import Stopped
from tests import errors

STATE = types.SimpleNamespace(step=np.array(0))


def call(hook, step, metrics=None, aux=None):
  hook(step, STATE, metrics or {}, aux)


def checkpoint(every=100, last=9, saved=0):
  steps = []
  hook = hooks.Checkpoint(
    lambda step, state: steps.append(step), every=every, last=last, saved=saved
  )
  return hook, steps


def log(*sinks):
  return hooks.LogMetrics(
    sinks, lambda step: 'sft' if step < 3 else 'rl', lambda: 7.0
  )


def test_metrics_are_written_a_step_late_under_their_own_stage():
  rows = []
  hook = log(lambda step, scalars, phase: rows.append((step, scalars, phase)))
  call(hook, 2, {'x': np.float32(5)})
  assert not rows
  call(hook, 3, {'x': (np.float32(6), np.float32(2))})
  assert rows == [(2, {'x': 5.0, 'time/seconds': 7.0}, 'sft')]
  hook.drain()
  hook.drain()
  assert rows[1:] == [(3, {'x': 3.0, 'time/seconds': 7.0}, 'rl')]


def test_metrics_of_several_seeds_keep_their_axis():
  rows = []
  hook = hooks.LogMetrics(
    [lambda step, scalars, phase: rows.append(scalars['x'])],
    lambda step: 'rl',
    lambda: 0.0,
    (2,),
  )
  call(hook, 1, {'x': np.array([1.0, 2.0])})
  hook.drain()
  np.testing.assert_array_equal(rows, [[1.0, 2.0]])


def test_an_evaluation_is_written_after_the_rows_before_it():
  rows = []
  metrics = log(lambda step, scalars, phase: rows.append((step, phase)))
  drained = []
  hook = hooks.Evaluate(
    lambda state, step: {'eval/x': 1.0},
    lambda step: step == 2,
    metrics,
    lambda: drained.append(len(rows)),
  )
  for step in (1, 2, 3):
    call(metrics, step, {'x': np.float32(0)})
    call(hook, step)
  assert rows == [(1, 'sft'), (2, 'sft'), (2, 'eval')]
  assert drained == [2]


@pytest.mark.parametrize('step', [0, 4, 9])
def test_an_evaluation_in_which_nothing_was_played_has_no_row(step, caplog):
  """It ends the run where nothing was played before, or will be."""
  rows = []

  def evaluate(state, step):
    raise hooks.NothingPlayedError('none of 8 episodes, since x')

  hook = hooks.Evaluate(
    evaluate,
    lambda step: True,
    log(lambda step, scalars, phase: rows.append(step)),
    needed=(0, 9),
  )
  if step == 4:
    with caplog.at_level(logging.WARNING, logger='absl'):
      call(hook, step)
    assert 'step 4: none of 8 episodes, since x' in caplog.text
  else:
    with errors.raises(hooks.NothingPlayedError, '8'):
      call(hook, step)
  assert not rows


@pytest.mark.parametrize('one', [1.0, np.array([0.0, 1.0])])
def test_skipped_updates_stop_a_run_if_in_a_row(one):
  """Those of one of several seeds, too."""
  saving, steps = checkpoint()
  hook = hooks.StopOnNonFinite(saving)
  most = hooks.MAX_NONFINITE_UPDATES
  for skipped in [one] * (most - 1) + [0 * one] + [one] * (most - 1):
    hook.count(1, {'policy/nonfinite_skips': skipped}, phase='rl')
    hook.count(1, {}, phase='eval')  # is of no update
    call(hook, 1)
  hook.count(1, {'policy/nonfinite_skips': one}, phase='rl')
  with errors.raises(hooks.NotFiniteError, '5'):
    call(hook, 5)
  assert steps == [5]


def test_a_signal_stops_after_a_step_but_the_last():
  def check():
    raise Stopped('SIGTERM')

  for step, saved in (3, [3]), (9, []):
    saving, steps = checkpoint()
    with (
      errors.raises(Stopped, 'SIGTERM 3')
      if saved
      else contextlib.nullcontext(),
      hooks.StopOnSignal(check, saving, last=9) as hook,
    ):
      call(hook, step)
    assert steps == saved


@pytest.mark.parametrize(
  ('error', 'told'),
  [
    (Stopped('SIGINT'), 'SIGINT 4'),
    (hooks.NothingPlayedError('none of 8 episodes'), '8 4'),
  ],
)
def test_what_cuts_a_step_saves_the_one_before(error, told):
  saving, steps = checkpoint()
  with (
    errors.raises(type(error), told),
    hooks.StopOnSignal(lambda: None, saving, last=9) as hook,
  ):
    call(hook, 4)
    raise error
  assert steps == [4]


def test_a_program_is_compiled_once_and_computed_after_that():
  told = []
  hook = hooks.SayWhatRuns(lambda *a, **how: told.append((*a, how)), 'rl')
  for _ in range(2):
    hook.before_collect()
    hook.before_update()
  assert told == [
    ('compiling the rl batch', {'quiet': False}),
    ('compiling the rl update', {'quiet': False}),
    ('computing the rl batch', {'quiet': True}),
    ('computing the rl update', {'quiet': True}),
  ]
