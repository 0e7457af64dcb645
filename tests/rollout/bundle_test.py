"""Whose trajectory is whose in a bundle of several seats."""

import numpy as np

from agentrl.rollout import pack
from agentrl.rollout.bundle import HostEnvBundle
from agentrl.rollout.limits import EpisodeLimits
from agentrl.text import chat_format, tokenizer
from agentrl.types import Status
from tests.rollout import tables

LIMITS = EpisodeLimits(turns=2, message=2, observation=4, opening=0, context=12)
TALK = chat_format.bare(tokenizer.Embedded())


def test_seats_and_matches_stand_side_by_side():
  ended = [pack.Episode((), Status.FAILED, 0.0)] * 6
  one = HostEnvBundle(tables.Kuhn(), [], TALK, LIMITS, system='play')
  assert (one.seats, one.system_of(3)) == (1, 'play')
  assert one.record(ended).seat is None
  several = one._replace(systems=('a', 'b', 'c'))
  assert several.seats == 3
  assert [several.system_of(b) for b in range(4)] == ['a', 'b', 'c', 'a']
  record = several.record(ended)
  np.testing.assert_array_equal(record.seat, [0, 1, 2, 0, 1, 2])
  np.testing.assert_array_equal(record.match, [0, 0, 0, 1, 1, 1])
