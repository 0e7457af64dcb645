"""Rulings of referees, as they travel."""

import json

import numpy as np

from agentrl.env import base, seats
from tests import errors
from tests.rollout import tables


def test_a_referee_is_played_as_an_environment():
  made = tables.Kuhn()
  assert isinstance(made, seats.SeatedFamily)
  assert not isinstance(base.find('door_codes')(), seats.SeatedFamily)
  env = made.env()
  first = json.loads(env.reset({'deal': 0}, 0))
  assert (first['seat'], first['text'], first['role']) == (0, 'J\n', 'user')
  second = env.step('p')
  told = json.loads(second.text)
  assert (told['seat'], told['text'], second.done) == (1, 'Qp\n', False)
  assert told['reward'] == told['score'] == [0.0, 0.0]
  last = env.step('x')
  told = json.loads(last.text)
  assert (told['seat'], last.done, last.invalid) == (None, True, True)
  assert told['reward'] == [0.5, -1.5]
  assert told['score'] == [1.0, 0.0]
  assert told['info'] == [{}, {'illegal': 1.0}]


def test_numbers_are_plain_and_seats_are_known():
  names = ('a', 'b')
  ruling = seats.Ruling('b', reward={'b': np.float32(0.5)}, score={'a': 1})
  told = json.loads(seats.encode(ruling, names))
  assert (told['seat'], told['reward']) == (1, [0.0, 0.5])
  assert told['score'] == [1.0, 0.0]
  for wrong in (
    seats.Ruling('c'),
    seats.Ruling('a', reward={'c': 1.0}),
    seats.Ruling('', score={'c': 1.0}),
    seats.Ruling('a', info={'c': {}}),
  ):
    with errors.raises(ValueError, 'seats c'):
      seats.encode(wrong, names)


def test_to_close_it_closes_the_referee():
  closed = []

  class Referee:
    def close(self):
      closed.append(True)

  seats.RefereedEnv(Referee(), ('a', 'b')).close()
  assert closed == [True]
