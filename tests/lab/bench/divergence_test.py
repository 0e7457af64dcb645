"""The benchmark of divergences measures what is there, at a small size."""

import jax
import numpy as np
import pytest

from agentrl.lab.bench import divergence


@pytest.mark.nightly
def test_every_case_has_memory_and_time():
  x = divergence.shapes(words=9000, rows=2, tokens=256, width=8)
  used = divergence.memory(x)
  assert set(used) == set(divergence.VALUES)
  logits = 4 * 2 * 256 * 9000
  assert all(n > 0 for n in used.values())
  assert used['reverse'] < 3 * logits
  some = divergence.drawn(divergence.shapes(300, 2, 8, 8))
  spreads = divergence.seconds(some, 1)
  assert all(s.median > 0 for s in spreads.values())
  for value in divergence.VALUES.values():
    out = jax.jit(value)(some)
    assert out.shape == (2, 8)
    assert np.all(np.isfinite(out))
