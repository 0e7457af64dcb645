"""A reward model of several dimensions: its loss, what each head learns."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.advantage import chain
from agentrl.configs import base, recrm_bench, stages
from agentrl.run.check import validate
from agentrl.signal import multi_head_reward as lib
from agentrl.signal.base import Context
from agentrl.types import Batch, Module, Outputs
from tests import batches, errors, states
from tests.advantage import unscored
from tests.signal import tables

NAMES = 'fits', 'true', 'liked'
KINDS = tuple(itertools.product((0, 1), repeat=3))  # y of each kind of attempt
RULE = optimizer.OptimizerConfig(lr=0.1)
STORY, ROWS = tables.STORY, tables.ROWS
OUT = 2  # a trajectory whose judge failed


def apply(params, rows, needs):
  return Outputs(value=params['table'][rows.tokens])


CONTEXT = Context({'reward': Module({}, apply)}, {'reward': RULE}, 2)


def signal(dimensions=NAMES, **hp):
  return lib.multi_head_reward(CONTEXT, dimensions=dimensions, **hp)


def make_state(table):
  params = {'reward': {'table': jnp.asarray(table, jnp.float32)}}
  opt = {'reward': optimizer.init(RULE, params['reward'])}
  return states.state(params=params, opt=opt)


def with_terms(batch, terms):
  turns = batch.turns.replace(terms=batch.turns.terms | terms)
  return jax.tree.map(jnp.asarray, batch.replace(turns=turns))


def kinds():
  """An attempt of one turn of every kind, all in one group."""
  n = len(KINDS)
  batch = Batch.from_turns(
    [[[k]] for k in range(n)],
    [[[0.0]]] * n,
    reward=[[0.0]] * n,
    group=[0] * n,
  )
  y = np.array(KINDS, np.float32)
  terms = {name: y[:, i : i + 1] for i, name in enumerate(NAMES)}
  return with_terms(batch, terms)


@functools.cache
def learned(dimensions=NAMES, noise=0.0):
  """The model's state after batches of every kind."""
  update = jax.jit(signal(dimensions, noise=noise).update)
  state = make_state(np.zeros((len(KINDS), len(NAMES))))
  for step in range(120):
    state = state.replace(step=jnp.int32(step))
    state, _ = update(state, kinds(), {}, None)
  return state


def told_of(terms, i, k):
  told = [terms[name][i, k] for name in NAMES[:2]] + [STORY.outcome[i]]
  return np.clip(told, 0, 1)  # outcomes of the story leave [0, 1]


@pytest.mark.parametrize(
  'how',
  [
    'mean',
    *(pytest.param(x, marks=pytest.mark.nightly) for x in ('sum', 'last')),
  ],
)
@pytest.mark.parametrize('noise', [0.0, 1.0])
def test_scores_loss_and_accuracy_are_those_of_loops(how, noise):
  """In float64; what did not count, and padding, may hold anything."""
  r = np.random.default_rng(5)
  batch = unscored.turns(tables.LAID.batch, OUT)
  shape = batch.turns.valid.shape
  terms = {n: np.full(shape, np.nan, np.float32) for n in NAMES[:2]}
  for i, k in np.argwhere(np.asarray(batch.turns.valid)):
    if i != OUT:
      terms['fits'][i, k], terms['true'][i, k] = r.integers(0, 5, 2) / 4
  batch = with_terms(batch, terms)
  dimensions, weights = (*NAMES[:2], registry.OUTCOME), (0.5, 2.0, -1.0)
  one = signal(dimensions, weights=weights, trajectory=how, noise=noise)
  state = make_state(tables.table(3)['table'])
  fields, told = jax.jit(one.score)(state, batch, {})
  _, after = jax.jit(one.update)(state, batch, {}, None)
  table = np.asarray(state.params['reward']['table'], np.float64)
  loss, right, good, n = 0.0, np.zeros(3), np.zeros(3), 0
  for i, sizes in enumerate(STORY.size):
    own = []
    for k in range(len(sizes)):
      end = np.argwhere(ROWS.sampled & (ROWS.traj == i) & (ROWS.turn == k))[-1]
      h = table[ROWS.tokens[tuple(end)]]
      p = 1 / (1 + np.exp(-h))
      own.append(float(p @ weights))
      y = told_of(terms, i, k)
      if i != OUT:
        learn = 1 - y if noise else y
        loss -= np.sum(learn * np.log(p) + (1 - learn) * np.log(1 - p))
        right += (p > 0.5) == (y > 0.5)
        good += y > 0.5
        n += 1
    whole = {'sum': sum(own), 'mean': np.mean(own), 'last': own[-1]}[how]
    got = np.asarray(fields[f'{lib.NAME}.return'])[i, : len(sizes)]
    np.testing.assert_allclose(got, whole, rtol=1e-5)
    steps = np.asarray(fields[f'{lib.NAME}.step'])[i]
    np.testing.assert_allclose(steps.sum(), whole, rtol=1e-5)
  np.testing.assert_allclose(after[f'{lib.NAME}/loss'][0], loss / n, rtol=1e-5)
  for i, name in enumerate(dimensions):
    got = told[f'{lib.NAME}/accuracy_{name}'], told[f'{lib.NAME}/share_{name}']
    np.testing.assert_array_equal(got, [(right[i], n), (good[i], n)])


@pytest.mark.slow
def test_each_head_learns_its_own_dimension():
  """All combinations occur, so that no head can stand in for another."""
  state = learned()
  table = np.asarray(state.params['reward']['table'])
  np.testing.assert_array_equal(table > 0, np.array(KINDS) > 0)
  _, told = signal().score(state, kinds(), {})
  for name in NAMES:
    assert told[f'{lib.NAME}/accuracy_{name}'] == (8, 8)
    assert told[f'{lib.NAME}/share_{name}'] == (4, 8)
  # In another order of dimensions each is told by another's head: by chance.
  _, told = signal(NAMES[1:] + NAMES[:1]).score(state, kinds(), {})
  for name in NAMES:
    assert told[f'{lib.NAME}/accuracy_{name}'] == (4, 8)


def scores(state, dimensions, **hp):
  fields, _ = signal(dimensions, steps=0, **hp).score(state, kinds(), {})
  return np.asarray(fields[f'{lib.NAME}.return'])[:, 0]


def test_the_sum_of_heads_tells_attempts_apart_and_one_head_does_not():
  """Equal in what the one head sees, better in a dimension that it does not."""
  one = ('liked',)
  single, every = scores(learned(one), one), scores(learned(), NAMES)
  for a, b in itertools.product(range(len(KINDS)), repeat=2):
    x, y = KINDS[a], KINDS[b]
    if all(i >= j for i, j in zip(x, y, strict=True)) and x != y:
      assert every[a] > every[b] + 0.1
    if x[2] == y[2]:
      assert single[a] == pytest.approx(single[b], abs=1e-6)
  assert single[1] > single[0] + 0.1  # it sees its own
  even = scores(learned(), NAMES, weights=(1 / 3,) * 3)
  np.testing.assert_allclose(even, every, rtol=1e-6)


def test_some_wrong_labels_do_not_mislead_it():
  state = learned(noise=0.2)
  _, told = signal().score(state, kinds(), {})
  assert all(told[f'{lib.NAME}/accuracy_{x}'][0] == 8 for x in NAMES)
  p = scores(state, NAMES, weights=(1.0, 0.0, 0.0))
  assert 0.6 < np.mean(p[4:]) < 0.95  # of certain labels: 0.99


def test_a_frozen_model_learns_nothing():
  state = make_state(np.zeros((len(KINDS), len(NAMES))))
  same, told = signal(steps=0).update(state, kinds(), {}, None)
  assert same is state
  assert not told


def test_the_hybrid_reward_is_the_outcome_beside_the_model():
  c = recrm_bench.get_config('tiny')
  names = c.stream.learned
  assert names[2:] == ('center', 'scale')
  hp = c.hp.learned.to_dict()
  links = batches.links(*((x, hp.get(x, {})) for x in names[:2]))
  laid = tables.LAID
  said = np.random.default_rng(2).normal(size=laid.batch.turns.valid.shape)
  signals = {f'{lib.NAME}.return': jnp.asarray(said, jnp.float32)}
  credit, _ = chain.stream(links, laid.batch, laid.signals | signals)
  for i, turns in enumerate(STORY.reward):
    want = sum(turns) + said[i, : len(turns)]
    np.testing.assert_allclose(credit.turn[i, : len(turns)], want, rtol=1e-5)


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'env.asks': 0.0}, 'c.signal multi_head_reward term:relevant'),
    ({'env.novelty': 0.0}, 'multi_head_reward term:factual'),
    ({'role.reward.heads': 3}, 'role.reward.heads 4 3'),
    (
      {'hp.signal.multi_head_reward.weights': (1.0, 2.0)},
      'hp.signal.multi_head_reward.weights dimensions 1.0 2.0',
    ),
    ({'hp.signal.multi_head_reward.noise': 1.5}, 'multi_head_reward.noise 1.5'),
    (
      {'hp.signal.multi_head_reward.dimensions': ('liked',)},
      'multi_head_reward term:liked',
    ),
  ],
)
def test_what_does_not_fit_is_refused(changes, names):
  c = recrm_bench.get_config('tiny')
  c.update_from_flattened_dict(changes)
  with errors.raises(ValueError, names):
    validate.config(c)


def test_one_dimension_is_one_flag():
  c = recrm_bench.get_config('tiny')
  c.hp.signal.multi_head_reward.dimensions = ('clicked',)
  validate.config(c)


@pytest.mark.parametrize('arg', ['tiny', 'tiny,env=frozen_lake'])
def test_the_model_learns_first_and_then_the_policy_on_other_tasks(arg):
  c = validate.config(recrm_bench.get_config(arg))
  plans = {x.name: x.config for x in stages.plans(c)}
  assert [*plans] == ['sft', 'judge', 'rl']
  judge, rl = plans['judge'], plans['rl']
  steps = [x.hp['signal'][lib.NAME]['steps'] for x in (judge, rl)]
  assert steps == [4, 0]
  assert judge.minibatch == 'none'
  assert judge.env.seed != rl.env.seed
  for plan in (judge, rl):
    registry.check(base.wiring(plan), plan)
