"""Every method's update, for real: who changes, what is finite, one compile."""

import importlib

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop, mesh
from agentrl.configs import base
from agentrl.learner import update as update_lib
from agentrl.run import build, config_file, placement
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from agentrl.types import Span
from tests import batches
from tests.integration import mesh_methods_test
from tests.integration.imitated_methods_test import IMITATED
from tests.integration.judged_methods_test import COMPOSED
from tests.integration.played_methods_test import PLAYED
from tests.integration.preferred_methods_test import PREFERRED
from tests.integration.staged_methods_test import STAGED

# Methods whose rows are folded, beside those that read rows of their own.
FOLDED = ('archer', 'dapo', 'grpo', 'oprl', 'ppo', 'td_prm')
# What some methods have beside the policy: role -> does it learn.
PRM = {'prm': True}
REFERENCE = {'reference': False}
CRITIC = {'value': True}
BESIDE = {
  'archer': {'critic': True, 'target': True},
  'archer_replay': {'critic': True, 'target': True},
  'digiq': {'critic': True, 'target': True},
  'dpo': REFERENCE,
  'flow_grpo': REFERENCE,
  'gkd': {'teacher': False},
  'hiper': CRITIC,
  'hiper_released': CRITIC,
  'odysseus': CRITIC,
  'opd': {'teacher': False},
  'opsd': {'teacher': False},
  'oprl': PRM,
  'oprl_merged': PRM,
  'oprl_parity': PRM,
  'oprl_placebo': PRM,
  'oprl_process_only': PRM,
  'oprl_restart': PRM,
  'oprl_rloo': PRM,
  'oprl_sparse': PRM,
  'oprl_token': PRM,
  'ppo': CRITIC,
  'ppo_bilevel': CRITIC,
  'ppo_turn': CRITIC,
  'ppr': CRITIC,
  'prime': PRM | REFERENCE,
  'prime_bon': PRM | REFERENCE,
  'prime_detached': PRM | REFERENCE,
  'reinforce_pp_kl': REFERENCE,
  'scalinginter': REFERENCE,
  'spa': CRITIC | {'progress': True},
  'starpo_s': CRITIC,
  'steppo': CRITIC,
  'tcod': {'teacher': False},
  'td_critic': CRITIC,
  'td_prm': PRM | CRITIC | {'previous': True},
  'td_prm_outcome': PRM | CRITIC | {'previous': True},
  'td_prm_replay': PRM | CRITIC | {'previous': True},
  'tt_opd': {'teacher': True},
  'vl_dac': REFERENCE,
}
# Those of a world or a stage of their own have files of their own.
ELSEWHERE = {*COMPOSED, *IMITATED, *PLAYED, *PREFERRED, *STAGED}
ROLES = {
  name: BESIDE.get(name, {})
  for name in config_file.methods()
  if name not in ELSEWHERE
}

# Slots whose components change how an update runs. Links, masks and losses are
# arrays in and arrays out, each with a test of its own.
SLOTS = 'signal', 'memory', 'minibatch'


def config(method: str, folder: str, sizes=(1, 1)):
  """The tiniest run that still has groups, turns and minibatches."""
  c = importlib.import_module(f'agentrl.configs.{method}').get_config('tiny')
  c.data = folder
  c.env.update(dict(train=8, test=2))
  c.model.update(
    dict(width=16, layers=1, heads=4, kv_heads=4, head_dim=4, mlp=16)
  )
  c.rollout.update(dict(batch=8, group_size=4, slots=8, max_turns=3))
  c.sft.batch, c.micro_batch = 8, 24
  if method == 'cm2':  # more than half of a group
    c.hp.turn.require_members.least = 3
  if method in ('appo', 'lumina'):  # rows as those of the batch
    c.rollout.history = 'turn'
  if method == 'tt_opd':  # so that its teacher moves
    c.hp.signal.moving_average.every = 1
  c.mesh.fsdp, c.mesh.tensor = sizes
  if not c.reading and method not in FOLDED:
    c.model.attention = 'xla'  # it folds no rows: a quarter less to compile
  return c


def components(method: str) -> set[tuple[str, str]]:
  """Returns everything in SLOTS that a method has."""
  spec = base.wiring(config(method, ''))
  out = set()
  for slot in SLOTS:
    names = getattr(spec, slot)
    names = (names,) if isinstance(names, str) else names
    out |= {(slot, name) for name in names}
  return out


def daily() -> list[str]:
  """Returns few methods that have all components between them."""
  left = {method: components(method) for method in ROLES}
  chosen = []
  while any(left.values()):
    chosen.append(max(left, key=lambda x: len(left[x])))
    new = left[chosen[-1]]
    left = {method: found - new for method, found in left.items()}
  return chosen


# They take updates on the same mesh in batches of their own every night.
WHOLE = {name.partition(':')[0] for name in mesh_methods_test.CASES}
CASES = [pytest.param('oprl', (1, 1), marks=pytest.mark.nightly)] + [
  pytest.param(
    m, (2, 4), marks=pytest.mark.slow if m in by_day else pytest.mark.nightly
  )
  for by_day in [daily()]
  for m in ROLES
  if m in by_day or m not in WHOLE
]


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


@pytest.fixture(scope='module')
def batch(folder):
  """What an untrained policy did, judged by made-up but telling rewards."""
  c = config('grpo', folder)
  c.rollout.null_observation = 'nothing'
  base.reading(c, 'hinted', source='demonstration', text='Do:')
  s = build.experiment(c)
  state = update_lib.init(s.algorithm, jax.random.key(0))
  stage = stages.rl_stage(s, 0, 2, jit_sampler.JitSampler(s))
  made, _ = stage.collect(state, stage.task(state, 0), 0)
  shape = made.turns.reward.shape
  reward, judged = (jax.random.normal(jax.random.key(i), shape) for i in (1, 2))
  outcome = (jnp.arange(8) % 3 == 0).astype(jnp.float32)
  terms = {
    'progress': judged * made.turns.valid,
    'greedy_return': jnp.broadcast_to(reward[:, :1], shape),
    'switch': (made.turns.state % 2).astype(jnp.float32),  # as of 'options'
  }
  turns = made.turns.replace(
    reward=reward * made.turns.valid, terms=made.turns.terms | terms
  )
  # As collect 'branch' and prefixes give.
  ids = made.ids | {'branch': jnp.arange(8) % 2, 'prefix': jnp.arange(8) % 3}
  ids |= {'prefix_cut': jnp.zeros(8, jnp.int32)}
  ids |= {'branch_from': jnp.arange(8) // 4 * 4 * (jnp.arange(8) % 4 > 1)}
  ids |= {'branch_turn': jnp.ones(8, jnp.int32), 'branch_token': ids['branch']}
  span = jnp.arange(made.rows.span.size).reshape(made.rows.span.shape) % 3
  rows = made.rows.replace(span=(Span.CALL + span).astype(jnp.int8))
  made = made.replace(rows=rows, turns=turns, outcome=outcome, ids=ids)
  return jax.device_get(made)


def changed(before, after) -> bool:
  pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
  return any(np.any(a != b) for a, b in pairs)


@pytest.mark.parametrize(('method', 'sizes'), CASES)
def test_two_updates(method, sizes, folder, batch, monkeypatch):
  s = build.experiment(config(method, folder, sizes))
  traces, update = [], update_lib.update

  def counted(*args):
    traces.append(args)
    return update(*args)

  monkeypatch.setattr(update_lib, 'update', counted)
  if s.config.memory:
    batch = batch.replace(readings={})  # memories do not store them
  with placement.on_mesh(s.config):
    stage = stages.rl_stage(s, 0, 2, jit_sampler.JitSampler(s))
    state = stage.begin(update_lib.init(s.algorithm, jax.random.key(0)))
    state = update_lib.init_memory(
      s.algorithm, state, placed(batch), len(s.train)
    )
    update_state = loop.jit_update(stage.algorithm, update_lib.update)
    before = jax.device_get(state.params)
    assert set(before) == {'policy', *ROLES[method]}
    for _ in range(2):
      state, told, _ = update_state(state, placed(batch))
      chex.assert_tree_all_finite(told)
      assert told['policy/nonfinite_skips'][0] == 0
    after = jax.device_get(state.params)
  chex.assert_tree_all_finite(after)
  learns = {'policy': True} | ROLES[method]
  assert {r: changed(before[r], after[r]) for r in learns} == learns
  assert len(traces) == 1
  assert int(state.step) == 2


def placed(batch):
  """Rows along the data axis of the mesh, all else everywhere."""
  if not mesh.active():
    return jax.device_put(batch)
  return batches.place(batch, batch.rows.tokens.shape)
