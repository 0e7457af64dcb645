"""Progress: lines in time, the time left, one line on a terminal."""

import io

import pytest

from agentrl.log import progress


class Terminal(io.StringIO):
  """A stream that says it is a terminal."""

  def isatty(self) -> bool:
    return True


class Clock:
  now = 0.0

  def __call__(self) -> float:
    return self.now


def reporter(stream, **changes):
  clock = Clock()
  made = progress.Progress(stream=stream, clock=clock, every=10, **changes)
  return clock, made


@pytest.mark.parametrize(
  ('seconds', 'text'), [(42, '42 s'), (210, '3.5 min'), (7200, '2.0 h')]
)
def test_durations(seconds, text):
  assert progress.duration(seconds) == text


def test_the_time_left_follows_the_pace_of_the_last_steps():
  assert progress.seconds_left([(3, 5.0)], 9) is None
  assert progress.seconds_left([(3, 5.0), (5, 9.0)], 9) == 8.0
  assert progress.seconds_left([(3, 5.0), (9, 6.0)], 9) == 0.0


def test_a_line_has_phase_steps_success_and_the_time_left():
  scalars = {'loss/total': 0.00217, 'rollout/success': 0.406, 'other': 1.0}
  text = progress.line('rl', 5, 32, scalars, 24.2)
  assert text == 'rl 5/32  success 40.6%  loss 0.00217  24 s left'
  assert progress.line('rl', 32, 32, {}, 0.0) == 'rl 32/32'


def test_a_log_gets_a_line_now_and_then_and_one_at_the_end():
  log = io.StringIO()
  clock, made = reporter(log)
  for step in range(1, 8):
    made.update('sft', step, 7, {})
    clock.now += 4
  assert log.getvalue().splitlines() == [
    'sft 1/7',
    'sft 4/7  12 s left',
    'sft 7/7',
  ]


def test_silence_is_broken_by_what_goes_on():
  log = io.StringIO()
  clock, made = reporter(log)
  made.begin('compiling the update')
  for clock.now in (9.0, 12.0, 15.0, 23.0):
    made.beat()
  made.begin('saving', quiet=True)
  assert log.getvalue().splitlines() == [
    'compiling the update',
    'still compiling the update, 12 s',
    'still compiling the update, 23 s',
  ]


def test_silence_is_broken_by_the_last_update_before_what_goes_on():
  """Steps that each begin anew, quietly, are never still going on for 0 s."""
  log = io.StringIO()
  clock, made = reporter(log)
  for step in range(1, 5):
    made.begin('computing the update', quiet=True)
    clock.now = 6.0 * step
    made.update('rl', step, 9, {})
    clock.now += 5
    made.beat()
  clock.now += 10
  made.beat()
  assert log.getvalue().splitlines() == [
    'rl 1/9',
    'rl 2/9  42 s left',
    'rl 4/9  30 s left',
    'still computing the update, 16 s',
  ]


def test_a_terminal_has_one_line_for_updates():
  screen = Terminal()
  _, made = reporter(screen)
  for step in range(1, 4):
    made.update('rl', step, 4, {})
  made.say('saved')
  text = screen.getvalue()
  assert text.count('\n') == 2
  assert text.splitlines()[-1] == 'saved'
  assert text.count('\r') == 3


def test_its_thread_beats_and_other_processes_are_silent():
  log = io.StringIO()
  with progress.Progress(stream=log, every=0.01) as made:
    made.begin('waiting')
    for _ in range(1000):
      made._done.wait(0.01)
      if 'still waiting' in log.getvalue():
        break
  assert 'still waiting' in log.getvalue()
  silent = io.StringIO()
  with progress.Progress(stream=silent, active=False) as made:
    made.begin('waiting')
    made.update('rl', 1, 1, {})
  assert silent.getvalue() == ''
