"""Every test runs on eight simulated CPU devices, without implicit ranks."""

import atexit
import gc
import importlib.metadata
import os
import pathlib
import resource
import shutil
import tempfile

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# Tests compile much and run it a few times: what XLA would make faster is not
# worth its time, and 32 modules of LLVM a program are a third of compiling it.
# Programs that a test starts are compiled as users have them.
os.environ['XLA_FLAGS'] = (
  os.environ.get('XLA_FLAGS', '')
  + ' --xla_force_host_platform_device_count=8'
  + ' --xla_cpu_parallel_codegen_split_count=1'
)
if importlib.metadata.version('jax').startswith('0.10.'):  # gone since
  os.environ['XLA_FLAGS'] += ' --xla_cpu_use_fusion_emitters=false'
os.environ.setdefault('HF_HUB_OFFLINE', '1')
# Threads of XLA's pool: where simulated devices wait in collectives on all of
# them, the last device has none left to join with (JAX 0.10).
os.environ.setdefault('NPROC', '32')
# What one test or program of this session compiled, the others find: the first
# process makes the folder, its workers and whatever tests start inherit it.
if 'JAX_COMPILATION_CACHE_DIR' not in os.environ:
  CACHE = tempfile.mkdtemp(prefix='agentrl-tests-')
  atexit.register(shutil.rmtree, CACHE, ignore_errors=True)
  os.environ['JAX_COMPILATION_CACHE_DIR'] = CACHE
os.environ.setdefault('JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS', '0')

import hypothesis
import jax
import pytest

from tests.seconds import expression, pytest_terminal_summary  # noqa: F401

# How fast a machine draws says nothing about the code.
hypothesis.settings.register_profile(
  'agentrl',
  deadline=None,
  suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile('agentrl')
jax.config.update('jax_numpy_rank_promotion', 'raise')
jax.config.update('jax_disable_most_optimizations', True)
# The source lines of instructions are a tenth of the time to compile them.
jax.config.update('jax_traceback_in_locations_limit', 0)


TESTS = pathlib.Path(__file__).parent
MOST = 2e9  # bytes of memory of a worker, above which it forgets programs


def pytest_configure(config):
  """`-m core` leaves slow tests out, as no `-m` does."""
  config.option.markexpr = expression(config.option.markexpr)


def pytest_itemcollected(item):
  """Marks the core and the laboratory; a nightly test is slow as well."""
  folder = item.path.relative_to(TESTS).parts[0]
  item.add_marker('lab' if folder == 'lab' else 'core')
  if item.get_closest_marker('nightly'):
    item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session):
  """Modules and items live to the end: no collection looks at them again."""
  del session
  gc.collect()
  gc.freeze()
  gc.set_threshold(20_000, 20, 20)


def resident() -> float:
  """Bytes of memory of this process; what it had at most off Linux."""
  try:
    pages = pathlib.Path('/proc/self/statm').read_text().split()[1]
  except OSError:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
  return int(pages) * float(os.sysconf('SC_PAGE_SIZE'))


@pytest.fixture(scope='module', autouse=True)
def forgotten():
  """Programs of earlier modules serve later ones until memory is short.

  A module that begins with none compiles every addition and index anew: that
  was two fifths of the fast suite.
  """
  yield
  if resident() > MOST:
    jax.clear_caches()


@pytest.fixture
def float64():
  """Maths in float64, where a module or a test asks for it."""
  with jax.enable_x64(True):
    yield


@pytest.fixture
def registry_of_test(monkeypatch):
  """Forgets what a test registers when it ends."""
  from agentrl import registry  # imports JAX after the flags above

  monkeypatch.setattr(registry, '_PIECES', dict(registry._PIECES))
