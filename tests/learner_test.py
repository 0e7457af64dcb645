"""In which order the signals of an iteration begin, learn and score."""

import batches
import jax
import jax.numpy as jnp

from agentrl import learner as learner_lib
from agentrl import (  # noqa: F401  plan registers its pieces
  method,
  optim,
  plan,
  registry,
)
from agentrl.method import POLICY, Learner
from agentrl.signal.base import ORDERS, Context, Signal
from agentrl.types import TrainState


def test_signals_learn_and_score_in_their_order(monkeypatch):
  said = []

  def made(order: str) -> Signal:
    def begin(state):
      said.append((order, 'begin'))
      return state

    def score(state, batch, signals):
      said.append((order, 'score'))
      return {}, {}

    def update(state, batch, signals, credit):
      said.append((order, 'learn', credit is not None))
      return state, {}

    return Signal(order, score, update, begin)

  monkeypatch.setattr(method, 'signals', lambda _: list(map(made, ORDERS)))
  learner = Learner(
    registry.Wiring(plan='none'), Context({}, {POLICY: optim.Rule()}, 1)
  )
  state = TrainState(
    step=jnp.int32(3), params={POLICY: {}}, opt={POLICY: ()}, signal={},
    memory=(), carry=(), key=jax.random.key(0),
  )  # fmt: skip
  state, _ = learner_lib.update(
    learner, state, batches.lay(batches.story()).batch
  )
  first, second, last = ORDERS
  assert said == [
    *((order, 'begin') for order in ORDERS),
    (first, 'score'),
    (first, 'learn', False),
    (second, 'learn', False),
    (second, 'score'),
    (last, 'score'),
    (last, 'learn', True),
  ]
  assert int(state.step) == 4
