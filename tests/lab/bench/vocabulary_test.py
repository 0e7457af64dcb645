"""Benchmarks of divergences hold them against log-probs."""

import numpy as np
import pytest

from agentrl.lab.bench import vocabulary
from agentrl.lab.bench.sampling import TINY


@pytest.mark.slow
def test_every_case_has_a_value_and_a_gradient():
  cases = vocabulary.divergences(TINY, '')
  works = {name: case.parts[0].operations for name, case in cases.items()}
  assert works['vocab_jensen'] == 2 * works['vocab_logprob']
  for case in cases.values():
    value, (of_h, of_head) = case.call()
    assert np.isfinite(value)
    assert of_h.shape == (TINY.rows, TINY.tokens, TINY.shape.width)
    assert of_head.shape == (TINY.shape.vocab, TINY.shape.width)
    assert np.any(of_head)
  assert cases['vocab_reverse_kl'].call()[0] > 0
