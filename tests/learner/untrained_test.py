"""A step in which no token is trained moves nothing, whatever the optimizer."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import optimizer, registry
from agentrl.curate import select
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs, TrainState
from tests import batches, states

OPTIMIZERS = ('adam', 'adafactor', 'optax:sgd(momentum=0.9)', 'optax:lion()')
PARAMS = {POLICY: {'x': jnp.linspace(-1.0, 0.5, 7)}}


def apply(params, rows, needs):
  """A log-prob and an entropy of each token, by its index modulo 7."""
  x = params['x'][rows.tokens % 7]
  return Outputs(logp=-jnp.square(x), entropy=jnp.square(x))


def learner(name='adam', loss=('reinforce',), n=1) -> Algorithm:
  spec = registry.MethodSpec(
    loss=loss,
    advantage=('a',),
    stream={'a': ('episode_return', 'center')},
    hp={'minibatches': {'minibatches': {'n': n}}},
  )
  rule = optimizer.OptimizerConfig(name, lr=0.1, warmup=4, weight_decay=0.1)
  context = Context({POLICY: Module({}, apply)}, {POLICY: rule}, 2)
  return Algorithm.from_spec(spec, context)


def begun(alg: Algorithm) -> TrainState:
  rule = alg.context.rules[POLICY]
  opt = {POLICY: optimizer.init(rule, PARAMS[POLICY])}
  return states.state(params=PARAMS, opt=opt)


def batch_of():
  batch = jax.tree.map(jnp.asarray, batches.lay(batches.story(3)).batch)
  return jax.tree.map(
    lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, batch
  )


def failed(batch, which=slice(None)):
  """The batch, some of whose environments broke."""
  scored = jnp.asarray(batch.turns.scored).at[which].set(False)
  return batch.replace(turns=batch.turns.replace(scored=scored))


def without(batch):
  rows = batch.rows
  return batch.replace(rows=rows.replace(weight=jnp.zeros_like(rows.weight)))


def dropped(batch):
  return select.keep(batch, jnp.zeros(batch.outcome.shape, bool))


@functools.cache
def program(*settings):
  """Returns a state to begin with, and an update: (state, metrics)."""
  alg = learner(*settings)
  return begun(alg), jax.jit(lambda *x: update_lib.update(alg, *x)[:2])


def same(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize('name', OPTIMIZERS)
@pytest.mark.parametrize('lose', [failed, without, dropped])
def test_nothing_trained_is_no_step(name, lose):
  (begin, learned), batch = program(name), batch_of()
  state, _ = learned(begin, batch)  # there is momentum now
  assert np.any(state.params[POLICY]['x'] != PARAMS[POLICY]['x'])
  after, metrics = learned(state, lose(batch))
  same((after.params, after.opt), (state.params, state.opt))
  assert int(after.step) == 2
  for x in ('policy/grad_norm', 'advantage/a/abs_mean'):
    total, weight = metrics[x]
    assert (float(total), float(weight)) == (0, 1)
  # And the next one is as if it had never been.
  turns = batch.turns.replace(reward=batch.turns.reward[::-1])
  other = batch.replace(turns=turns)
  one, _ = learned(after, other)
  two, _ = learned(state, other)
  same((one.params, one.opt), (two.params, two.opt))


def test_a_minibatch_without_a_token_is_no_step():
  """One trajectory is left, and three of four sub-updates have nothing."""
  batch = batch_of()
  weight = batch.rows.weight * (batch.rows.traj == 0)
  alone = batch.replace(rows=batch.rows.replace(weight=weight))
  after = []
  for settings in (), ('adam', ('reinforce',), 4):
    begin, learned = program(*settings)
    after.append(learned(begin, alone)[0])
  one, four = after
  same((one.params, one.opt), (four.params, four.opt))


def test_advantages_of_zero_ask_for_nothing_and_an_entropy_asks():
  batch = batch_of()
  reward = jnp.zeros_like(batch.turns.reward)
  equal = batch.replace(turns=batch.turns.replace(reward=reward))
  begin, learned = program()
  state, _ = learned(begin, batch)
  after, _ = learned(state, equal)
  same((after.params, after.opt), (state.params, state.opt))
  _, learned = program('adam', ('reinforce', 'entropy'))
  after, _ = learned(state, equal)
  assert np.any(after.params[POLICY]['x'] != state.params[POLICY]['x'])
  assert int(after.opt[POLICY][0].count) == 2


def test_seeds_trained_together_step_each_for_itself():
  (begin, learned), batch = program(), batch_of()
  state, _ = learned(begin, batch)
  pair = lambda a, b: jax.tree.map(lambda *x: jnp.stack(x), a, b)  # noqa: E731
  states, both = pair(state, state), pair(batch, failed(batch))
  alg = learner()
  f = jax.jit(jax.vmap(lambda *x: update_lib.update(alg, *x)[0]))
  after = f(states, both)
  alone, _ = learned(state, batch)
  got = after.params[POLICY]['x']
  np.testing.assert_allclose(got[0], alone.params[POLICY]['x'], rtol=1e-6)
  np.testing.assert_array_equal(got[1], state.params[POLICY]['x'])
