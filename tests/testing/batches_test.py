"""agentrl.testing: the same numbers, whatever rows they are laid out in."""

import jax
import numpy as np
import pytest

from agentrl.testing import batches


@pytest.mark.parametrize('layout', batches.LAYOUTS)
def test_a_story_is_read_back_from_every_layout(layout):
  s = batches.story(seed=4)
  laid = batches.lay(s, layout, padding=2, order=lambda n: range(n - 1, -1, -1))
  got = batches.flat(batches.read(laid.tokens['prm'], s, laid))
  np.testing.assert_array_equal(got, batches.flat(s.token['prm']))
  assert laid.batch.rows.sampled.sum() == got.size


def test_a_loss_by_its_name_with_its_declared_weight():
  laid = batches.lay(batches.story())
  with jax.enable_x64(True):
    zero = laid.tokens['value']
    credit = batches.chain.zero(laid.batch).replace(token=zero)
    out = batches.types.Outputs(logp=laid.tokens['logp'])
    inputs = out, laid.batch, credit, laid.signals
    value, weight, _ = batches.loss('reinforce', inputs)
  np.testing.assert_allclose(value, -zero * laid.tokens['logp'])
  np.testing.assert_array_equal(weight, laid.batch.rows.sampled)
