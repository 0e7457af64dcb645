"""The load on the gateway: every request is answered."""

import pytest

from agentrl.lab.bench import gateway
from agentrl.text.tokenizer import Embedded


def test_every_request_is_answered():
  load = gateway.measure(4, 3, 300)
  assert load.errors == 0
  assert len(load.latencies) == 12
  assert '12 requests' in gateway.report('x', load)


@pytest.mark.slow
def test_the_generator_is_asked_without_the_gateway_for_the_same(monkeypatch):
  monkeypatch.setattr(gateway, 'ROUNDS', 1)
  monkeypatch.setattr(gateway, 'ALONE', 3)
  asked = []

  class Noting(gateway.Instant):
    def submit(self, context, how):
      asked.append(tuple(context))
      return super().submit(context, how)

  lines = list(gateway.compare(Noting(Embedded()), 4, 3, 300))
  assert [x.split(':')[0] for x in lines] == [
    '4 sessions, without the gateway',
    '4 sessions, with it',
    '1 session',
  ]
  assert all('12 requests' in x and ' 0 errors' in x for x in lines[:2])
  # Both ways: what compiles, the load, and a round of three calls.
  assert len(asked) == 2 * (4 * 2 + 4 * 3 + 3)
  assert len(set(asked)) == len(asked)
  assert len({len(x) for x in asked}) == 1


def test_a_generator_that_fails_is_counted():
  class Broken(gateway.Instant):
    def submit(self, context, how):
      future = gateway.Future()
      future.set_exception(ValueError('no room'))
      return future

  load = gateway.direct(Broken(Embedded()), 2, 3, 100)
  assert (load.errors, len(load.latencies)) == (6, 6)
