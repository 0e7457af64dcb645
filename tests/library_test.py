"""agentrl as a library: what a user writes without a config or a command."""

import ast
import os
import pkgutil
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import agentrl as rl
from tests import errors
from tests.runtime import install_test

TOKENS = [[[5, 6], [7]], [[8], [9, 4, 3]]]
LOGP = [[[-1.0, -2.0], [-0.5]], [[-1.0], [-2.0, -0.1, -0.2]]]
REWARD, GROUP = [[0, 1], [0, 0]], [0, 0]


def _batch(tokens=TOKENS, logp=LOGP, **changes):
  args = {'reward': REWARD, 'group': GROUP} | changes
  return rl.Batch.from_turns(tokens, logp, **args)


def test_a_batch_a_credit_and_a_loss():
  credit = rl.compute_advantage(('episode_return', 'center', 'scale'), _batch())
  z = 0.5 / (np.sqrt(0.5) + 1e-6)
  np.testing.assert_allclose(credit.turn, [[z, z], [-z, -z]], rtol=1e-6)
  rows = _batch().rows
  want = np.where(rows.sampled, np.where(rows.traj == 0, z, -z), 0)
  np.testing.assert_allclose(credit.token, want, rtol=1e-6)
  value = rl.ops.ppo_clip(
    jnp.log(jnp.full((2,), 1.5)), jnp.array([1.0, -1.0]), low=0.2, high=0.28
  )
  np.testing.assert_allclose(value, [-1.28, 1.5])


def test_turns_become_rows_with_what_was_read_before_them():
  context = [[[1, 2], [3]], [[1, 2], []]]
  batch = _batch(context=context, done=[True, False], outcome=[1, 0])
  rows, turns = batch.rows, batch.turns
  np.testing.assert_array_equal(rows.tokens[0], [1, 2, 5, 6, 3, 7])
  np.testing.assert_array_equal(rows.turn[0], [-1, -1, 0, 0, 0, 1])
  np.testing.assert_array_equal(rows.sampled[0], [0, 0, 1, 1, 0, 1])
  np.testing.assert_allclose(rows.logp[1], [0, 0, -1, -2, -0.1, -0.2])
  assert np.asarray(turns.valid).all()
  np.testing.assert_array_equal(batch.status, [0, 2])  # solved, cut short
  # Every turn is a state of its own, of one agent.
  np.testing.assert_array_equal(turns.node, [[0, 1], [2, 3]])
  np.testing.assert_array_equal(turns.state, turns.node)
  np.testing.assert_array_equal(turns.agent, np.zeros((2, 2)))


def test_turns_may_differ_in_number():
  batch = _batch([TOKENS[0], [[8]]], [LOGP[0], [[-1.0]]], reward=[[0, 1], [1]])
  np.testing.assert_array_equal(batch.turns.valid, [[1, 1], [1, 0]])
  np.testing.assert_array_equal(batch.rows.traj, [[0, 0, 0], [1, -1, -1]])
  np.testing.assert_array_equal(batch.rows.sampled, [[1, 1, 1], [1, 0, 0]])
  np.testing.assert_array_equal(batch.outcome, [1, 1])


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    ({'tokens': []}, ''),
    ({'reward': [[0, 1]]}, 'reward 1 2'),
    ({'group': [0]}, 'group 1'),
    ({'done': [True]}, '1'),
    ({'reward': [[0, 1], [0]]}, 'reward 1 tokens'),
    ({'reward': [[0, np.nan], [0, 0]]}, 'reward 0'),
    ({'tokens': [[5, 6], [7, 8]]}, 'tokens 0 =5'),
    ({'tokens': [[[], [7]], TOKENS[1]]}, ''),
    ({'tokens': [[[5, -1], [7]], TOKENS[1]]}, ''),
    ({'logp': [[[-1.0], [-0.5]], LOGP[1]]}, 'logp 0 1'),
    ({'logp': [[[0.3, -1], [-0.5]], LOGP[1]]}, '0'),
  ],
)
def test_mistakes_of_a_batch_are_one_sentence(changes, sentence):
  with errors.raises(ValueError, sentence) as error:
    _batch(**changes)
  assert '\n' not in str(error.value)


@pytest.mark.parametrize(
  ('links', 'sentence'),
  [
    (('center', 'centre'), 'centre'),
    ((('scale', {'epsilon': 1}),), 'epsilon'),
    (('gae_turns',), 'gae_turns value'),
    (('add_term',), 'add_term env'),
    (('to_tokens', 'center'), 'center'),
  ],
)
def test_mistakes_of_a_chain_are_one_sentence(links, sentence):
  with errors.raises(ValueError, sentence):
    rl.compute_advantage(links, _batch())


def test_importing_takes_no_device_and_no_time():
  """jax is not even imported; the names are there all the same.

  Nor does transformers ask for PyTorch after it.
  """
  code = """
import sys, time
start = time.perf_counter()
import agentrl as rl
assert time.perf_counter() - start < 1
assert not {'jax', 'flax', 'numpy', 'transformers'} & set(sys.modules)
assert {'Batch', 'Run', 'ops'} <= set(dir(rl))
rl.Batch, rl.Run
import jax._src.xla_bridge as bridge
assert not bridge.backends_are_initialized()
import transformers
"""
  unset = 'TRANSFORMERS_NO_ADVISORY_WARNINGS'
  done = subprocess.run(
    [sys.executable, '-c', code],
    env={name: x for name, x in os.environ.items() if name != unset},
    stderr=subprocess.PIPE,
    text=True,
  )
  assert done.returncode == 0, done.stderr
  assert 'PyTorch' not in done.stderr


def test_no_public_name_is_a_package_that_would_take_its_place():
  below = {x.name for x in pkgutil.iter_modules(rl.__path__)}
  assert set(rl.__all__) & below == {'ops', 'testing'}
  for name in rl.__all__:
    assert vars(rl).get(name) or rl.__getattr__(name)
  with errors.raises(AttributeError, 'batch'):
    rl.__getattr__('batch')


def test_the_version_is_that_of_setup():
  version = ast.literal_eval(install_test.setup()['version'])
  assert rl.__version__ == version
