"""A process among several: which it is, and what it says to the others."""

import pytest

from agentrl.runtime import distributed
from tests import errors


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
    (('a:1', 2, None), {}, '--process --coordinator HOST:PORT'),
    ((None, 2, 0), {}, '--coordinator'),
    (('a', 2, 0), {}, '--coordinator a HOST:PORT'),
    (('a:1', 2, 2), {}, '--process 2 --processes 0 1'),
    (('a:1', 2, None), {'JAX_PROCESS_ID': 'x'}, 'JAX_PROCESS_ID x'),
  ],
)
def test_a_place_that_cannot_be(told, environ, message):
  with errors.raises(ValueError, message):
    distributed.process_info(*told, environ)
