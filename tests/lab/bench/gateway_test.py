"""Benchmarks of the gateway: every request is answered, and a new one."""

import pytest

from agentrl.lab.bench import gateway
from agentrl.text.tokenizer import Embedded


class Noting(gateway.Instant):
  def __init__(self):
    super().__init__(Embedded())
    self.asked = []

  def submit(self, context, how):
    self.asked.append(tuple(context))
    return super().submit(context, how)


class Broken:
  def submit(self, context, how):
    future = gateway.Future()
    future.set_exception(ValueError('no room'))
    return future


def test_both_ways_ask_for_the_same_and_never_twice():
  generator = Noting()
  with gateway.served(generator, 300) as play:
    play(4, 3, 300)
    play(1, 2, 300)
  through, generator.asked = generator.asked, []
  gateway.direct(generator, 4, 3, 300)
  assert len(through) == 4 * 3 + 2
  assert len(generator.asked) == 4 * 3
  assert len({*through, *generator.asked}) == 2 * 4 * 3 + 2
  assert len({len(x) for x in (*through, *generator.asked)}) == 1


def test_a_generator_that_fails_is_told():
  with pytest.raises(RuntimeError, match='6 requests'):
    gateway.direct(Broken(), 2, 3, 100)
  with (
    gateway.served(Broken(), 300) as play,
    pytest.raises(RuntimeError, match='6 requests'),
  ):
    play(2, 3, 300)
