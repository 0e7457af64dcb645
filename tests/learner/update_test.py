"""In which order the signals of an iteration begin, learn and score."""

import jax
import jax.numpy as jnp

from agentrl import optimizer, registry
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.signal.base import ORDERS, Context, Signal
from agentrl.types import TrainState
from tests import batches


def test_signals_learn_and_score_in_their_order():
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

  learner = Algorithm.from_spec(
    registry.MethodSpec(minibatch='none'),
    Context({}, {POLICY: optimizer.OptimizerConfig()}, 1),
  )
  state = TrainState(
    step=jnp.int32(3),
    params={POLICY: {}},
    opt={POLICY: ()},
    signal={},
    memory=(),
    carry=(),
    key=jax.random.key(0),
  )
  learner = learner._replace(signals={x: made(x) for x in ORDERS})
  state, *_ = update_lib.update(
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
