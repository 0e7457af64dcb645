"""PPO and REINFORCE: where they stop, where they are the same."""

import numpy as np
import pytest

from tests.loss import token_inputs

pytestmark = pytest.mark.usefixtures('float64')


def test_ppo_stops_where_it_is_clipped():
  """ρ = 1.5 or 0.5: gone too far in the direction of A there is no pull."""
  logp = np.log([1.5, 1.5, 0.5, 0.5])
  a = [1.0, -1.0, 1.0, -1.0]
  inputs = token_inputs.make_tokens(logp, a)
  got = token_inputs.slope_of('ppo', inputs).logp[0]
  np.testing.assert_allclose(got, [0, 1.5, -0.5, 0], atol=1e-12)
  _, _, metrics = token_inputs.loss_of('ppo', inputs)
  means = {k: float(x / w) for k, (x, w) in metrics.items()}
  assert means['ratio'] == pytest.approx(1.0)
  assert means['clip_frac_high'] == means['clip_frac_low'] == 0.25
  kl = np.mean([x - 1 - np.log(x) for x in (1.5, 1.5, 0.5, 0.5)])
  assert means['approx_kl'] == pytest.approx(kl)


def test_dual_clip_stops_what_became_likely_and_bad():
  inputs = token_inputs.make_tokens(np.log([5.0, 2.0]), [-1.0, -1.0])
  value, _, metrics = token_inputs.loss_of('ppo_dual', inputs)
  np.testing.assert_allclose(value, [[3.0, 2.0]])
  np.testing.assert_allclose(
    token_inputs.slope_of('ppo_dual', inputs).logp, [[0, 2.0]]
  )
  assert tuple(map(float, metrics['clip_dual'])) == (1.0, 2.0)
