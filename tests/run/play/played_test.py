"""What is said where nothing is played, and when the run ends."""

import logging as python_logging

import pytest

from agentrl.hooks import NothingPlayedError
from agentrl.rollout import pack
from agentrl.rollout.engine.engine import Completion
from agentrl.run.play import played
from agentrl.types import Status
from tests import errors

SPOKEN = Completion(0, [1], [-1.0], [0.5], [0])


def turn(**info):
  return pack.TurnData([1], SPOKEN, 0, 0.0, False, info)


WHOLE = pack.Episode([turn()], Status.FAILED, 0.0)
CUT = pack.Episode([turn()], Status.TIME_LIMIT, 0.0)
NONE_TO_TAKE = pack.Episode((), Status.SCHEDULE, 0.0)


def broken(text, turns=()):
  return pack.Episode(turns, Status.ENV_ERROR, 0.0, text)


@pytest.mark.parametrize(
  'ended', [[WHOLE], [CUT], [broken('x'), WHOLE], [NONE_TO_TAKE], []]
)
def test_nothing_is_said_where_something_was_played(ended):
  watch = played.Watch()
  watch.see(ended)
  assert watch.unplayed() == ''


@pytest.mark.parametrize(
  ('ended', 'told'),
  [
    ([broken('crash: /nope')] * 8, ('none of 8', '8 of them', 'crash: /nope')),
    ([broken('a'), broken('b'), broken('a')], ('of 3', '2 of them): a')),
    # Of causes that differ in a number, or in a key, alone.
    (
      [broken('x'), *(broken(f'port {i} of {i:032x}') for i in range(9))],
      ('none of 10', '9 of them): port 0 of'),
    ),
    # What had begun is lost as well.
    ([broken('raise: ValueError', [turn()])], ('of 1', 'ValueError')),
    ([broken('')], ('its environment broke',)),
    (
      [pack.Episode((), Status.TOKEN_LIMIT, 0.0), NONE_TO_TAKE],
      ('none of 1', 'before its first message (token_limit)'),
    ),
    ([pack.Episode((), Status.TIME_LIMIT, 0.0)], ('(time_limit)',)),
    ([pack.Episode((), Status.FAILED, 0.0)], ('(failed)',)),
  ],
)
def test_why_nothing_was_played(ended, told):
  watch = played.Watch()
  for part in (ended[:1], ended[1:]):
    watch.see(part)
  text = watch.unplayed()
  for words in told:
    assert words in text
  assert watch.unplayed() == ''  # it is said once


def test_a_long_cause_keeps_its_beginning_and_its_end():
  watch = played.Watch()
  watch.see([broken('crash: x\n' + 'trace\n' * 9999 + 'KeyError: 3')])
  text = watch.unplayed()
  assert len(text) < 500
  assert '\n' not in text
  assert 'crash: x' in text
  assert text.endswith('KeyError: 3')


def test_a_few_iterations_in_a_row_end_the_run(caplog):
  watch = played.Watch()
  with caplog.at_level(python_logging.WARNING, logger='absl'):
    for _ in range(5):
      for _ in range(played.MOST - 1):
        watch.see([broken('crash: gone')] * 4)
        watch.end_iteration()
      watch.see([broken('crash: gone')] * 4 + [WHOLE])
      watch.end_iteration()
    assert caplog.text.count('none of 4 episodes') == 5 * (played.MOST - 1)
    for _ in range(played.MOST - 1):
      watch.see([broken('crash: gone')] * 4)
      watch.end_iteration()
    watch.see([broken('crash: gone')] * 4)
    with errors.raises(NothingPlayedError, '4'):
      watch.end_iteration()


def test_an_iteration_without_attempts_is_neither(caplog):
  watch = played.Watch()
  for _ in range(9):
    watch.see([NONE_TO_TAKE])
    watch.end_iteration()
  assert not caplog.text


def tooled(**faults):
  calls = sum(faults.values())
  faults.pop('answered', None)
  info = {f'fault_{kind}': n for kind, n in faults.items()} | {'calls': calls}
  return pack.Episode([turn(**info)], Status.FAILED, 0.0)


@pytest.mark.parametrize(
  ('rounds', 'said'),
  [
    ([{'error': 8}] * 3, True),
    ([{'error': 3, 'malformed': 90}] * 4, False),
    ([{'time': 5, 'malformed': 9}] * 4, True),
    ([{'malformed': 90}, {'unknown': 90}, {'arguments': 90}] * 4, False),
    ([{'error': 8, 'answered': 1}] * 4, False),
    ([{'error': 15}, {'answered': 1}] * 4, False),
    ([{}] * 40, False),
  ],
)
def test_tools_that_always_fail_are_said_once(rounds, said, caplog):
  watch = played.Watch()
  with caplog.at_level(python_logging.WARNING, logger='absl'):
    for faults in rounds:
      watch.see([tooled(**faults)])
      watch.end_iteration()
  assert caplog.text.count('calls of tools failed') == said
