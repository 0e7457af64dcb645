"""A process among several: which it is, and what it says to the others."""

import pytest

from agentrl.runtime import distributed


def test_a_place():
  assert distributed.process_info(None, None, None, {}) is None
  told = {
    'JAX_COORDINATOR_ADDRESS': 'a:1',
    'JAX_NUM_PROCESSES': '4',
    'JAX_PROCESS_ID': '3',
  }
  assert distributed.process_info(None, None, None, told) == ('a:1', 4, 3)
  assert distributed.process_info('b:2', 2, 0, told) == ('b:2', 2, 0)


@pytest.mark.parametrize(
  ('told', 'environ', 'message'),
  [
    (('a:1', 2, None), {}, '--process is missing: .* --coordinator=HOST:PORT'),
    ((None, 2, 0), {}, '--coordinator is missing'),
    (('a', 2, 0), {}, "--coordinator='a' is not HOST:PORT"),
    (('a:1', 2, 2), {}, '--process=2 is not one of --processes=2; .* 0 to 1'),
    (('a:1', 2, None), {'JAX_PROCESS_ID': 'x'}, "JAX_PROCESS_ID='x' is not a"),
  ],
)
def test_a_place_that_cannot_be(told, environ, message):
  with pytest.raises(ValueError, match=message):
    distributed.process_info(*told, environ)
