"""Critics: what a value has seen, how it begins, what it says of a mistake."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.model import value
from agentrl.nn import transformer
from tests import errors

SHAPE = transformer.DecoderConfig(
  vocab=11, width=8, layers=1, heads=2, kv_heads=2, head_dim=4, mlp=8
)


def test_a_value_has_seen_the_tokens_before_it_and_not_its_own():
  hidden = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, 8)))
  params = {'value': jnp.ones((8, 3))}
  got = value.read(params, hidden)
  np.testing.assert_array_equal(got[:, 0], 0)
  want = np.repeat(np.sum(hidden[:, :-1], -1)[..., None], 3, -1)
  np.testing.assert_allclose(got[:, 1:], want, rtol=1e-5)
  other = value.read(params, hidden.at[:, 3].add(1.0))
  np.testing.assert_array_equal(got[:, :4], other[:, :4])
  assert np.all(got[:, 4] != other[:, 4])


def test_heads_begin_at_zero_beside_a_decoder():
  module = value.module(SHAPE, heads=2)
  params = mesh.init(module.specs, jax.random.key(0))
  assert params['value'].shape == (8, 2)
  assert not np.any(params['value'])
  assert set(module.specs) == {*transformer.specs(SHAPE), 'value'}


def test_a_trunk_of_another_kind_is_named():
  with errors.raises(ValueError, 'trunk half'):
    value.module(SHAPE, trunk='half')
