"""Every test runs on eight simulated CPU devices, without implicit ranks."""

import os

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# Tests compile much and run it a few times: what XLA would make faster is not
# worth its time. Programs that a test starts are compiled as users have them.
os.environ['XLA_FLAGS'] = (
  os.environ.get('XLA_FLAGS', '')
  + ' --xla_force_host_platform_device_count=8'
  + ' --xla_cpu_use_fusion_emitters=false'
)
os.environ.setdefault('HF_HUB_OFFLINE', '1')

import jax
import pytest

jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_disable_most_optimizations', True)


def pytest_itemcollected(item):
  """A nightly test is slow as well: `-m slow` runs both."""
  if item.get_closest_marker('nightly'):
    item.add_marker(pytest.mark.slow)


@pytest.fixture(scope='module', autouse=True)
def forgotten():
  """What a module compiled; that of all of them is gigabytes."""
  yield
  jax.clear_caches()


@pytest.fixture
def compiled_once(tmp_path):
  """The runs of a test find what the first of them compiled."""
  jax.config.update('jax_compilation_cache_dir', str(tmp_path / 'cache'))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0.0)
  yield
  jax.config.update('jax_compilation_cache_dir', None)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 1.0)
