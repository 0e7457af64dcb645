"""The load on the gateway: every request is answered."""

from agentrl.bench import gateway


def test_every_request_is_answered():
  load = gateway.measure(4, 3, 300)
  assert load.errors == 0
  assert len(load.latencies) == 12
  assert '12 requests' in gateway.report('x', load)
