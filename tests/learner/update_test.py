"""In which order the signals of an iteration begin, learn and score."""

import jax
import jax.numpy as jnp

from agentrl import optimizer, registry
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.memory.base import Memory
from agentrl.signal.base import ORDERS, Context, Signal
from tests import batches, states


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
  state = states.state(params={POLICY: {}}, opt={POLICY: ()})
  learner = learner._replace(
    bound_signals={x: lambda context, x=x: made(x) for x in ORDERS}
  )
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
  assert int(state.step) == 1


def test_every_memory_of_a_step_draws_for_itself():
  """In their order: each sees the batch that those before it have grown."""
  drawn, grown = {}, []

  def made(name: str) -> Memory:
    def read(state, batch, step, key):
      drawn.setdefault(name, []).append(float(jax.random.uniform(key)))
      grown.append((name, batch.outcome.shape[0]))
      more = jnp.concatenate([batch.outcome, batch.outcome[:1]])
      return batch.replace(outcome=more), {f'{name}.x': step}

    return Memory(init=None, write=None, read=read)

  alg = Algorithm.from_spec(registry.MethodSpec(), Context({}, {}, 1))
  alg = alg._replace(memory={name: made(name) for name in ('first', 'second')})
  state = states.state(memory={'first': (), 'second': ()})
  batch = batches.lay(batches.story()).batch
  size = batch.outcome.shape[0]
  for step in (3, 4, 3):
    out, signals = update_lib.read_memory(
      alg, state.replace(step=jnp.int32(step)), batch
    )
    assert out.outcome.shape[0] == size + 2
    assert signals == {'first.x': step, 'second.x': step}
  assert grown[:2] == [('first', size), ('second', size + 1)]
  first, second = drawn['first'], drawn['second']
  assert first[0] == first[2]
  assert second[0] == second[2]
  assert len({*first, *second}) == 4
