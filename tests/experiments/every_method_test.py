"""Every method's update, for real: who changes, what is finite, one compile."""

import importlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import learner
from agentrl.types import Span
from experiments import build, runner

# What each method has beside the policy: role -> does it learn.
PRM = {'prm': True}
REFERENCE = {'reference': False}
CRITIC = {'value': True}
ROLES = {
  'archer': {'critic': True, 'target': True},
  'barfi': {},
  'digiq': {'critic': True, 'target': True},
  'dr_grpo': {},
  'gigpo': {},
  'gigpo_no_std': {},
  'grpo': {},
  'hiper': CRITIC,
  'odysseus': CRITIC,
  'oprl': PRM,
  'oprl_merged': PRM,
  'oprl_parity': PRM,
  'oprl_process_only': PRM,
  'oprl_restart': PRM,
  'oprl_rloo': PRM,
  'oprl_sparse': PRM,
  'oprl_token': PRM,
  'ppo': CRITIC,
  'ppo_bilevel': CRITIC,
  'ppo_turn': CRITIC,
  'prime': PRM | REFERENCE,
  'prime_bon': PRM | REFERENCE,
  'prime_detached': PRM | REFERENCE,
  'reinforce_pp': {},
  'reinforce_pp_baseline': {},
  'reinforce_pp_kl': REFERENCE,
  'rloo': {},
  'spa': CRITIC | {'progress': True},
  'vl_dac': REFERENCE,
}

FAST = ('gigpo', 'oprl', 'oprl_restart', 'ppo', 'prime')  # one of each kind
CASES = [
  pytest.param(m, marks=() if m in FAST else pytest.mark.slow) for m in ROLES
]


def config(method: str, folder: str):
  """The tiniest run that still has groups, turns and minibatches."""
  c = importlib.import_module(f'configs.{method}').get_config('tiny')
  c.data = folder
  c.env.update(dict(train=8, test=2))
  c.model.update(
    dict(width=16, layers=1, heads=1, kv_heads=1, head_dim=16, mlp=16)
  )
  c.rollout.update(dict(batch=8, group=4, slots=8, turns=3))
  c.sft.batch, c.micro = 8, 24
  return c


@pytest.fixture(scope='module', autouse=True)
def quick_compilation():
  """Most of the time is XLA's; what it makes runs twice."""
  jax.config.update('jax_disable_most_optimizations', True)
  yield
  jax.config.update('jax_disable_most_optimizations', False)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


@pytest.fixture(scope='module')
def batch(folder):
  """What an untrained policy did, judged by made-up but telling rewards."""
  s = build.setup(config('grpo', folder))
  state = learner.init(s.learner, jax.random.key(0))
  made = runner.rl_stage(s, 0, 2).collect(state, 0)
  reward = jax.random.normal(jax.random.key(1), made.turns.reward.shape)
  outcome = (jnp.arange(8) % 3 == 0).astype(jnp.float32)
  # What a rollout of messages in parts tells beside.
  span = jnp.arange(made.rows.span.size).reshape(made.rows.span.shape) % 3
  rows = made.rows.replace(span=(Span.CALL + span).astype(jnp.int8))
  switch = (made.turns.state % 2).astype(jnp.float32)
  turns = made.turns.replace(
    reward=reward * made.turns.valid,
    terms={**made.turns.terms, 'switch': switch},
  )
  made = made.replace(rows=rows, turns=turns, outcome=outcome)
  return jax.device_get(made)


def changed(before, after) -> bool:
  pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
  return any(np.any(a != b) for a, b in pairs)


@pytest.mark.parametrize('method', CASES)
def test_two_updates(method, folder, batch, monkeypatch):
  s = build.setup(config(method, folder))
  traces, update = [], learner.update

  def counted(*args):
    traces.append(args)
    return update(*args)

  monkeypatch.setattr(learner, 'update', counted)
  stage = runner.rl_stage(s, 0, 2)
  state = stage.begin(learner.init(s.learner, jax.random.key(0)))
  before = jax.device_get(state.params)
  assert set(before) == {'policy', *ROLES[method]}
  for _ in range(2):
    state, told = stage.update(state, jax.device_put(batch))
    chex.assert_tree_all_finite(told)
    assert told['policy/skipped'][0] == 0
  after = jax.device_get(state.params)
  chex.assert_tree_all_finite(after)
  learns = {'policy': True} | ROLES[method]
  assert {r: changed(before[r], after[r]) for r in learns} == learns
  assert len(traces) == 1
  assert int(state.step) == 2


def test_every_config_is_here():
  import configs_test

  assert set(ROLES) == set(configs_test.METHODS)
