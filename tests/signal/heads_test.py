"""Value heads: what they see, and what their gradient reaches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, registry
from agentrl.configs import base, vl_dac
from agentrl.model import policy, value
from tests import batches, errors
from tests.signal.implicit_prm_test import SHAPE, make_batch

HEADED = policy.module(SHAPE, 1.0, 2)
CRITICS = {t: value.module(SHAPE, 2, t) for t in value.TRUNKS}
BATCH = make_batch()


@pytest.fixture(scope='module')
def params():
  """The head is not zero, or nothing could reach the trunk."""
  made = mesh.init(HEADED.specs, jax.random.key(0))
  head = jax.random.normal(jax.random.key(1), made['value'].shape)
  return {**made, 'value': head}


def _values(module):
  return jax.jit(lambda p, rows: module.apply(p, rows, ('value',)).value)


def test_a_policy_with_heads_says_what_a_critic_says(params):
  """At sampled tokens, which is where anybody looks."""
  here = np.asarray(BATCH.rows.sampled)
  own, *others = (
    _values(m)(params, BATCH.rows)[here] for m in (HEADED, *CRITICS.values())
  )
  assert own.shape == (here.sum(), 2)
  for other in others:
    np.testing.assert_allclose(own, other, atol=1e-5)
  assert np.std(own) > 0.1


def test_its_words_are_those_of_a_policy_without(params):
  needs = ('logp', 'entropy')
  plain = policy.module(SHAPE)
  one = jax.jit(lambda p: plain.apply(p, BATCH.rows, needs))(params)
  two = jax.jit(lambda p: HEADED.apply(p, BATCH.rows, (*needs, 'value')))(
    params
  )
  np.testing.assert_array_equal(one.logp, two.logp)
  np.testing.assert_array_equal(one.entropy, two.entropy)
  assert set(HEADED.specs) - set(plain.specs) == {'value'}


@pytest.mark.parametrize('which', ['policy', 'stopped', 'learned'])
def test_where_the_gradient_of_the_value_ends(which, params):
  module = HEADED if which == 'policy' else CRITICS[which]

  def f(params):
    v = module.apply(params, BATCH.rows, ('value',)).value
    return jnp.sum(jnp.where(BATCH.rows.sampled[..., None], v * v, 0))

  grads = jax.jit(jax.grad(f))(params)
  moved = {
    name
    for name, g in grads.items()
    if any(np.any(x) for x in jax.tree.leaves(g))
  }
  assert 'value' in moved
  assert (moved == {'value'}) == (which != 'learned')


def test_the_trunk_still_learns_from_words(params):
  def f(params):
    out = HEADED.apply(params, BATCH.rows, ('logp', 'value'))
    return jnp.sum(out.logp)

  grads = jax.jit(jax.grad(f))(params)
  assert np.any(grads['embed'])
  assert not np.any(grads['value'])


def test_a_value_has_not_seen_its_token(params):
  """Another token at t changes values after t, in its row, and none before."""
  at = np.argwhere(np.asarray(BATCH.rows.sampled))[0]
  n, t = map(int, at)
  tokens = BATCH.rows.tokens.at[n, t].add(1)
  f = _values(CRITICS['learned'])
  before = f(params, BATCH.rows)
  after = f(params, BATCH.rows.replace(tokens=tokens))
  changed = np.any(np.asarray(before != after), axis=-1)
  assert not changed[:, : t + 1].any()
  assert changed[n, t + 1]
  assert not np.delete(changed, n, 0).any()


@pytest.mark.parametrize('which', ['policy', 'learned'])
def test_on_an_explicit_mesh(which, params):
  module = HEADED if which == 'policy' else CRITICS[which]
  plain = _values(module)(params, BATCH.rows)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    stored = jax.device_put(params, mesh.shardings(module.specs))
    rows = batches.place(BATCH.rows, BATCH.rows.tokens.shape)
    placed = _values(module)(stored, rows)
  here = np.asarray(BATCH.rows.sampled)
  plain, placed = np.asarray(plain), np.asarray(placed)
  np.testing.assert_allclose(plain[here], placed[here], atol=1e-5)


def test_an_unknown_trunk_is_refused():
  with errors.raises(ValueError, 'trunk thawed'):
    value.module(SHAPE, 1, 'thawed')


def test_a_policy_without_the_head_is_refused():
  c = vl_dac.get_config('tiny')
  c.role.policy.heads = 0
  with errors.raises(ValueError, 'c.role.policy.heads 1'):
    registry.check(base.wiring(c))
