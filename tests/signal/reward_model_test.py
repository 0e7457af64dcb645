"""A reward model that is a table: its scores, its loss, what it learns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.configs import base, dpo
from agentrl.run.check import validate
from agentrl.signal import reward_model
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs, Pairs
from tests import errors, states
from tests.signal import tables

STORY, ROWS = tables.STORY, tables.ROWS
RULE = optimizer.OptimizerConfig(lr=0.05)
# The last pair is of two turns.
PAIRS = (
  ((0, -1), (1, -1), 1.0),
  ((4, -1), (3, -1), 2.0),
  ((5, 0), (1, 1), 1.0),
)


def apply(params, rows, needs):
  """A value that depends on token and place."""
  place = 1 + jnp.arange(rows.tokens.shape[1])[None, :, None] / 5
  return Outputs(value=params['table'][rows.tokens][..., :1] * place)


CONTEXT = Context(
  {'reward': Module({}, apply)}, {'reward': RULE}, tables.SHAPE[0] // 2
)


def make_batch():
  win, lose, weight = (jnp.asarray(x) for x in zip(*PAIRS, strict=True))
  pairs = Pairs(win=win, lose=lose, weight=weight)
  batch = jax.tree.map(jnp.asarray, tables.LAID.batch)
  return batch.replace(pairs=pairs)


def make_state():
  params = {'reward': tables.table(1)}
  opt = {'reward': optimizer.init(RULE, params['reward'])}
  return states.state(params=params, opt=opt)


def by_hand(table, how):
  """r_k [trajectory][turn] by loops, and R of each trajectory."""
  steps = []
  for i, sizes in enumerate(STORY.size):
    own = []
    for k in range(len(sizes)):
      n, t = np.argwhere(ROWS.sampled & (ROWS.traj == i) & (ROWS.turn == k))[-1]
      own.append(table[ROWS.tokens[n, t], 0] * (1 + t / 5))
    steps.append(own)
  total = {
    'sum': sum,
    'mean': lambda x: sum(x) / len(x),
    'last': lambda x: x[-1],
  }[how]
  return steps, [total(x) for x in steps]


def scores(place, steps, whole):
  i, k = place
  return whole[i] if k < 0 else steps[i][k]


@pytest.mark.parametrize(
  'how',
  [
    'last',
    *(pytest.param(x, marks=pytest.mark.nightly) for x in ('sum', 'mean')),
  ],
)
def test_scores_and_loss_are_those_of_loops(how):
  batch, state = make_batch(), make_state()
  signal = reward_model.reward_model(CONTEXT, trajectory=how)
  fields, _ = jax.jit(signal.score)(state, batch, {})
  table = np.asarray(state.params['reward']['table'], np.float64)
  steps, whole = by_hand(table, how)
  for i, own in enumerate(steps):
    got = np.asarray(fields['reward_model.step'])[i]
    np.testing.assert_allclose(got.sum(), whole[i], rtol=1e-5)
    every = np.asarray(fields['reward_model.return'])[i, : len(own)]
    np.testing.assert_allclose(every, whole[i], rtol=1e-5)
  _, told = jax.jit(signal.update)(state, batch, {}, None)
  want, right = 0.0, 0.0
  for win, lose, weight in PAIRS:
    d = scores(win, steps, whole) - scores(lose, steps, whole)
    want += weight * np.log1p(np.exp(-d)) / 4
    right += weight * (d > 0)
  np.testing.assert_allclose(told['reward_model/loss'][0], want, rtol=1e-5)
  assert tuple(map(float, told['reward_model/pair_accuracy'])) == (right, 4)


def test_its_pairs_come_into_order():
  """And a model that is frozen stays as it is."""
  batch, state = make_batch(), make_state()
  learn = reward_model.reward_model(CONTEXT, steps=40)
  after, _ = jax.jit(learn.update)(state, batch, {}, None)
  _, told = jax.jit(reward_model.reward_model(CONTEXT).update)(
    after, batch, {}, None
  )
  assert told['reward_model/pair_accuracy'][0] == 4
  assert told['reward_model/loss'][0] < 0.3
  frozen = reward_model.reward_model(CONTEXT, steps=0)
  same, told = frozen.update(state, batch.replace(pairs=None), {}, None)
  assert same is state
  assert not told


def test_outcomes_may_be_regressed():
  batch, state = make_batch(), make_state()
  signal = reward_model.reward_model(CONTEXT, loss='outcome', steps=1)
  _, told = jax.jit(signal.update)(state, batch.replace(pairs=None), {}, None)
  table = np.asarray(state.params['reward']['table'], np.float64)
  _, whole = by_hand(table, 'mean')
  want = np.mean((np.array(whole) - STORY.outcome) ** 2) / 2
  np.testing.assert_allclose(told['reward_model/loss'][0], want, rtol=1e-5)


def test_pairs_must_be_made_for_a_model_that_learns():
  c = dpo.get_config('tiny')
  base.role(c, 'reward', heads=1)
  c.signal, c.curate = ('reward_model',), ()
  c.loss, c.coef = ('reinforce',), {}
  c.hp, c.loss_aggregation = {}, {}
  base.fill(c)
  with errors.raises(ValueError, 'c.curate opposite_ranks reward_model.steps'):
    validate.config(c)
  c.hp.signal.reward_model.steps = 0
  validate.config(c)
  assert registry.get('signal', 'reward_model').step == 'reward_model.step'


def test_the_best_of_a_group_is_seen_with_its_outcome():
  batch = make_batch()
  score = np.round(np.random.default_rng(2).normal(size=batch.outcome.shape), 0)
  total, weight = jax.jit(reward_model.best_outcome)(jnp.asarray(score), batch)
  want = []
  for g in set(STORY.group):
    mine = [i for i, x in enumerate(STORY.group) if x == g]
    top = max(score[i] for i in mine)
    want.append(np.mean([STORY.outcome[i] for i in mine if score[i] == top]))
  np.testing.assert_allclose(total, sum(want), rtol=1e-5)
  np.testing.assert_allclose(weight, len(want), rtol=1e-6)
