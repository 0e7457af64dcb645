"""Losses on the entropy of tokens, by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.types import Outputs
from tests import batches

pytestmark = pytest.mark.usefixtures('float64')

STORIES = [batches.story(seed=s) for s in (0, 1, 2)]


def _banded():
  """Outputs, batch, credit and signals with a made-up history."""
  laid = jax.tree.map(jnp.asarray, batches.lay(STORIES[0], 'packed'))
  past = jnp.abs(laid.tokens['value'])
  signals = {
    'entropy_history': past,
    'entropy_history.known': (laid.tokens['prm'] > -0.5).astype(float),
  }
  h = jnp.abs(laid.tokens['entropy'])
  return Outputs(entropy=h), laid.batch, chain.zero(laid.batch), signals


@pytest.mark.parametrize('name', ['entropy_band', 'entropy_hinge'])
def test_band_by_hand(name):
  """Value and gradient of every token; the released form has no gradient."""
  outputs, batch, credit, signals = _banded()
  hp = {'low': 0.4, 'high': 1.3}
  hp |= {'penalty': 0.07} if name == 'entropy_band' else {}

  def f(h):
    inputs = Outputs(entropy=h), batch, credit, signals
    out = batches.loss(name, inputs, **hp)
    return jnp.sum(out[0] * out[1]), out

  (_, (value, weight, metrics)), grad = jax.jit(
    jax.value_and_grad(f, has_aux=True)
  )(outputs.entropy)
  sampled = np.asarray(batch.rows.sampled)
  cases = set()
  for at in zip(*np.nonzero(sampled), strict=True):
    h, past = float(outputs.entropy[at]), float(signals['entropy_history'][at])
    where = 'under' if h < 0.4 * past else 'over' if h > 1.3 * past else 'in'
    if not signals['entropy_history.known'][at]:
      where = 'unknown'
    cases.add(where)
    away = {'under': h - 0.4 * past, 'over': h - 1.3 * past}.get(where, 0.0)
    want = (0.07 * (away != 0), 0.0)
    if name == 'entropy_hinge':
      want = (away**2, 2 * away)
    np.testing.assert_allclose((value[at], grad[at]), want, rtol=1e-10)
  assert cases == {'under', 'over', 'in', 'unknown'}
  np.testing.assert_array_equal(weight, sampled)
  assert 0 < float(metrics['outside'][0]) < float(metrics['outside'][1])
