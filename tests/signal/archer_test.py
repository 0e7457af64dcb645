"""ArCHer's targets and advantages by loops; one update for real."""

import jax
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.learner import update
from agentrl.model import policy, value
from agentrl.signal import archer
from agentrl.signal.base import Context
from agentrl.types import Status
from tests import batches
from tests.advantage import little_story, unscored
from tests.signal.implicit_prm_test import SHAPE, make_batch

STORY = batches.story(seed=31, groups=2, members=3)
# Trajectories by turns: ended, cut by the turns, ended, cut by the tokens...
STATUS = [Status.SOLVED, Status.TURN_LIMIT, Status.FAILED, Status.TOKEN_LIMIT]
GAMMA = 0.9
TARGETS = {
  pair: jax.jit(
    lambda heads, batch, pair=pair: archer.td_targets(heads, batch, GAMMA, pair)
  )
  for pair in (archer.lower, archer.by_head)
}


def _laid(layout='history', padding=0):
  """The story, its heads [N, T, 4] and, by turn, what they say."""
  laid = batches.lay(STORY, layout, padding=padding)
  status = np.full(laid.batch.outcome.shape, int(Status.FAILED), np.int32)
  n = len(STORY.group)
  status[:n] = [int(STATUS[i % 4]) for i in range(n)]
  names = ('value', 'prm', 'entropy', 'logp')  # any four
  heads = np.stack([laid.tokens[name] for name in names], -1)
  ends = (-1, -1, 0, 0)  # Q at the last token, V at the first
  said = [
    [
      [STORY.token[name][i][k][end] for k in range(len(STORY.size[i]))]
      for i in range(n)
    ]
    for name, end in zip(names, ends, strict=True)
  ]
  return laid, laid.batch.replace(status=status), heads, said


@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('pair', TARGETS)
@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_targets(layout, pair):
  laid, batch, heads, (q1, q2, v1, v2) = _laid(layout, padding=2)
  goal, weight = TARGETS[pair](heads, batch)
  if pair is archer.lower:  # the lower of two speaks for both
    q1 = q2 = [list(map(min, *x)) for x in zip(q1, q2, strict=True)]
    v1 = v2 = [list(map(min, *x)) for x in zip(v1, v2, strict=True)]
  got = [
    [batches.read(x[..., h], STORY, laid) for h in range(4)]
    for x in (goal, weight)
  ]
  live = 0
  for i, sizes in enumerate(STORY.size):
    for k, n in enumerate(sizes):
      last = k + 1 == len(sizes)
      ended = STATUS[i % 4] in (Status.SOLVED, Status.FAILED)
      live += not last or ended
      for h, v in enumerate((v1, v2)):
        want = STORY.reward[i][k] + (0 if last else GAMMA * v[i][k + 1])
        np.testing.assert_allclose(got[0][h][i][k], want, atol=1e-12)
        on = (np.arange(n) == n - 1) & (not last or ended)
        np.testing.assert_array_equal(got[1][h][i][k] > 0, on)
      for h, q in enumerate((q1, q2)):
        np.testing.assert_allclose(got[0][2 + h][i][k], q[i][k])
        on = got[1][2 + h][i][k] > 0
        np.testing.assert_array_equal(on, np.arange(n) == 0)
  turns = sum(map(len, STORY.size))
  assert live < turns
  for h, n in enumerate((live, live, turns, turns)):
    x = np.asarray(weight[..., h])
    np.testing.assert_allclose(np.unique(x), [0, 1 / n])
    assert x.sum() == pytest.approx(1)


@pytest.mark.usefixtures('float64')
def test_golden_targets_of_two_turns():
  """Q' = (2, 1), (5, 7), V' = (3, 4), (6, 5); rewards 1, 10; gamma 0.5."""
  said = {'value': (2, 5), 'prm': (1, 7), 'entropy': (3, 6), 'logp': (4, 5)}
  token = {
    name: [[np.array([float(x)]) for x in pair]] for name, pair in said.items()
  }
  s = little_story.make([[1.0, 10.0]], **token)
  laid = batches.lay(s)
  status = np.full(laid.batch.outcome.shape, int(Status.SOLVED), np.int32)
  batch = laid.batch.replace(status=status)
  heads = np.stack([laid.tokens[name] for name in said], -1)
  want = {
    archer.lower: [[3.5, 10], [3.5, 10], [1, 5], [1, 5]],
    archer.by_head: [[4, 10], [3.5, 10], [2, 5], [1, 7]],
  }
  for pair, heads_want in want.items():
    goal, _ = archer.td_targets(heads, batch, 0.5, pair)
    for h, expected in enumerate(heads_want):
      got = batches.read(goal[..., h], s, laid)
      np.testing.assert_allclose(np.ravel(got), expected, rtol=1e-15)


@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_advantage(layout):
  _, batch, heads, (q1, q2, v1, v2) = _laid(layout, padding=2)
  a = np.asarray(jax.jit(archer.advantage)(heads, batch))
  for i, sizes in enumerate(STORY.size):
    for k in range(len(sizes)):
      want = min(q1[i][k], q2[i][k]) - min(v1[i][k], v2[i][k])
      np.testing.assert_allclose(a[i, k], want)
  assert not a[~np.asarray(batch.turns.valid)].any()


@pytest.mark.usefixtures('float64')
def test_the_smaller_of_equal_heads_is_one_of_them():
  _, batch, heads, _ = _laid()
  heads = heads[..., [0, 0, 2, 2]]
  (q, _), (v, _) = jax.jit(archer.read)(heads, batch)
  a = jax.jit(archer.advantage)(heads, batch)
  np.testing.assert_allclose(a, np.where(batch.turns.valid, q - v, 0))


@pytest.mark.usefixtures('float64')
def test_an_unscored_turn_is_not_regressed():
  _, batch, heads, _ = _laid()
  batch = unscored.turns(batch, slice(None))
  _, weight = TARGETS[archer.lower](heads, batch)
  assert not weight.any()


def test_update():
  """The error falls, the target follows; only the heads where it says so."""
  critic = value.module(SHAPE, 4, 'stopped')
  modules = {'policy': policy.module(SHAPE), 'critic': critic, 'target': critic}
  rules = {
    'policy': optimizer.OptimizerConfig(),
    'critic': optimizer.OptimizerConfig(lr=1e-2),
  }
  context = Context(modules, rules, micro=4)
  learner = update.Algorithm.from_spec(
    spec=registry.MethodSpec(), context=context
  )
  state = update.init(learner, jax.random.key(0))
  batch = make_batch()
  reward = jax.random.normal(jax.random.key(3), batch.turns.reward.shape)
  batch = batch.replace(turns=batch.turns.replace(reward=reward))
  signal = archer.archer(context, gamma=0.5, tau=0.5, steps=20)
  assert signal.order == 'update_then_score'
  f = jax.jit(lambda state: signal.update(state, batch, {}, None))
  one, first = f(state)
  two, then = f(one)
  assert float(then['critic/loss'][0]) < float(first['critic/loss'][0])
  assert float(first['critic/loss'][1]) == 20
  critic, target = two.params['critic'], two.params['target']
  assert np.any(critic['value'])
  np.testing.assert_allclose(critic['value'], target['value'], atol=0.05)
  before = state.params['critic']['embed']
  np.testing.assert_array_equal(critic['embed'], before)
  np.testing.assert_array_equal(target['embed'], before)
  a = jax.jit(lambda state: signal.score(state, batch, {}))(two)[0]['archer']
  assert np.std(np.asarray(a)[np.asarray(batch.turns.valid)]) > 1e-3
