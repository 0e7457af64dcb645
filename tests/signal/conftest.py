"""Most of the time of these tests is XLA's; what it makes runs a few times."""

import jax
import pytest


@pytest.fixture(scope='module', autouse=True)
def quick_compilation():
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', False)
