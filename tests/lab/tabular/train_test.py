"""Methods at tables: exact worlds, the library's links, one seed as many."""

import functools

import chex
import jax
import numpy as np
import pytest

from agentrl.configs import grpo, oprl
from agentrl.lab.tabular import policy, train
from tests.lab.tabular import table_runs


def test_credit_of_returns_to_go_and_of_states_is_that_of_a_loop():
  batch, credit = table_runs.played('gigpo')[-2:]
  r = np.asarray(batch.turns.reward, np.float64)
  state, group = np.asarray(batch.turns.state), np.asarray(batch.ids['group'])
  go = r.copy()
  for k in (1, 0):
    go[:, k] += 0.95 * go[:, k + 1]

  def z(x, xs):
    std = np.std(xs, ddof=1) if len(xs) > 1 else 0
    return (x - np.mean(xs)) / (std + 1e-6) if std > 0 else 0

  for i, k in np.ndindex(r.shape):
    mates = [j for j in range(len(r)) if group[j] == group[i]]
    same = [
      go[j, m] for j in mates for m in range(3) if state[j, m] == state[i, k]
    ]
    want = z(r[i].sum(), [r[j].sum() for j in mates]) + z(go[i, k], same)
    np.testing.assert_allclose(credit.turn[i, k], want, rtol=1e-4, atol=1e-5)


def test_what_is_told_of_a_batch():
  case, world, logits, batch, _ = table_runs.played('grpo')
  p = np.asarray(policy.probabilities(case.table, logits), np.float64)
  s, a = batch.turns.state, batch.rows.tokens[:, 0].reshape(8, 3) % 4
  for i, k in np.ndindex(8, 3):
    now, after = int(s[i, k]), int(world.next[s[i, k], a[i, k]])
    ahead, behind = (after, 2 - k), (now, 3 - k)
    want = table_runs.chance(world, p, *ahead)
    want -= table_runs.chance(world, p, *behind)
    np.testing.assert_allclose(
      batch.turns.terms['truth'][i, k], want, atol=1e-6
    )
  assert batch.rows.logp.shape == (24, table_runs.TOKENS)
  apply = jax.jit(
    case.learner.context.modules['policy'].apply, static_argnums=2
  )
  out = apply({'table': logits}, batch.rows, ('logp',))
  np.testing.assert_allclose(out.logp, batch.rows.logp, rtol=1e-6)


def few(c, seeds=tuple(range(8)), **more):
  return train.curves(
    c,
    'bifurcation',
    (0.3,),
    seeds,
    12,
    size=table_runs.SMALL,
    settings={'length': 3},
    **more,
  )


@functools.cache
def grpo_curves():
  return few(grpo.get_config())


@pytest.mark.nightly
def test_grpo_learns():
  got = grpo_curves()
  s = got['success'][0]
  assert s.shape == (8, 13)
  assert got['env_steps'].shape == (1, 8, 13)
  assert s[:, -1].mean() > s[:, 0].mean() + 0.15
  np.testing.assert_array_equal(got['env_steps'][0, :, 1], 24)


@pytest.mark.nightly
def test_many_seeds_together_are_each_by_itself():
  got, want = few(grpo.get_config(), seeds=(5,)), grpo_curves()
  for name in ('env_steps', 'success'):
    np.testing.assert_allclose(got[name][:, 0], want[name][:, 5], rtol=1e-4)
  for name, x in got['told'].items():
    y = want['told'][name][:, 5]
    np.testing.assert_allclose(x[:, 0], y, rtol=1e-3, atol=1e-5)


@pytest.mark.nightly
def test_oprl_without_its_steps_is_grpo():
  c = oprl.get_config()
  c.coef.step = 0.0
  got, want = few(c), grpo_curves()
  np.testing.assert_array_equal(got['success'], want['success'])
  np.testing.assert_array_equal(got['env_steps'], want['env_steps'])
  assert {'prm correlation', 'early prm distance'} <= set(got['told'])


@pytest.mark.nightly
def test_another_salt_is_other_luck_for_the_same_start():
  got, want = few(grpo.get_config(), salt=1), grpo_curves()
  got, want = got['success'], want['success']
  np.testing.assert_array_equal(got[..., 0], want[..., 0])
  assert (got[..., -1] != want[..., -1]).any()


@pytest.mark.nightly
@pytest.mark.parametrize('method', ['ppo_bilevel', 'prime', 'td_prm'])
def test_every_kind_of_signal_learns_from_two_tokens(method):
  got = train.curves(
    table_runs.config(method),
    'key_door',
    (0.1,),
    (0,),
    2,
    optimizer='sgd',
    size=table_runs.SMALL._replace(tokens=2),
    settings={'size': 3, 'turns': 6},
  )
  chex.assert_tree_all_finite(got)
  name = 'value error' if method == 'ppo_bilevel' else 'prm distance'
  assert got['told'][name].shape == (1, 1)


@pytest.mark.parametrize(
  'bad',
  [
    {'world': 'maze'},
    {'rates': ()},
    {'rates': (0.0,)},
    {'iterations': 0},
    {'optimizer': 'newton'},
    {'settings': {'slip': 2.0}},
  ],
)
def test_bad_input(bad):
  good = {'world': 'key_door', 'rates': (0.1,), 'seeds': (0,), 'iterations': 1}
  with pytest.raises(ValueError):
    train.curves(grpo.get_config(), **(good | bad))
