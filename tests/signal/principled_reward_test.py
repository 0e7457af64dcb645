"""A reward model that reads principles: its judge, and what it learns."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer, registry
from agentrl.configs import base, salmon, stages
from agentrl.run.check import validate
from agentrl.signal import principled_reward as lib
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs
from tests import batches, errors, states
from tests.advantage import unscored
from tests.signal import tables

STORY = tables.STORY
RULE = optimizer.OptimizerConfig(lr=0.1)
HINTS = {'sweet': 1, 'sour': 2, 'both': 3}
JUDGED = ('sugar', 'acid', 'acid -sugar')
OUT = 2  # a trajectory whose judge failed


def totals(seed=0):
  """Terms of trajectories, of no turn in particular: {name: [B]}."""
  r = np.random.default_rng(seed)
  n = len(STORY.group)
  return {
    'sugar': r.integers(0, 4, n).astype(float),
    'acid': r.integers(0, 4, n).astype(float),
  }


def apply(params, rows, needs):
  """A value of the trajectory, by the hint that stands first in its row."""
  one = jax.nn.one_hot(rows.tokens[:, :1], 4)  # [N, 1, 4]
  each = params['table'][jnp.maximum(rows.traj, 0)]  # [N, T, 4]
  return Outputs(value=jnp.sum(each * one, axis=-1, keepdims=True))


CONTEXT = Context(
  {'reward': Module({}, apply)}, {'reward': RULE}, tables.SHAPE[0] // 2
)


def make_batch(told=True):
  """The story, and readings of it that begin with a hint.

  Args:
    told: whether the hint is there
  """
  batch = unscored.turns(tables.LAID.batch, OUT)
  b, k = batch.turns.valid.shape
  terms = {}
  for name, x in totals().items():
    terms[name] = np.full((b, k), 99.0)  # padding holds anything
    for i, turns in enumerate(STORY.reward):
      terms[name][i, : len(turns)] = 0
      terms[name][i, 0] = x[i]
  readings = {}
  for name, hint in HINTS.items():
    pad = lambda x, first: np.concatenate(  # noqa: E731
      [np.full((len(x), 1), first, x.dtype), x], axis=1
    )
    first = {'tokens': hint if told else 0, 'traj': -1, 'turn': -1, 'seg': 0}
    fields = {
      f.name: pad(getattr(batch.rows, f.name), first.get(f.name, 0))
      for f in dataclasses.fields(batch.rows)
    }
    readings[name] = batch.rows.replace(**fields)
  turns = batch.turns.replace(terms=terms)
  batch = batch.replace(turns=turns, readings=readings)
  return jax.tree.map(jnp.asarray, batch)


def make_state():
  params = {'reward': {'table': jnp.zeros((len(STORY.group) + 9, 4))}}
  opt = {'reward': optimizer.init(RULE, params['reward'])}
  return states.state(params=params, opt=opt)


def judged_by_hand(rule):
  """{(i, j)} of a group where what differs most speaks for i."""
  live = [i for i in range(len(STORY.group)) if i != OUT]
  z = []
  for word in rule.split():
    x = totals()[word.strip('-')] * (-1 if word[0] == '-' else 1)
    z.append(x / x[live].std())
  return {
    (i, j)
    for i in live
    for j in live
    if STORY.group[i] == STORY.group[j]
    and max(x[i] - x[j] for x in z) > max(x[j] - x[i] for x in z) + 1e-9
  }


def signal(use='sweet', **hp):
  hp = {'readings': tuple(HINTS), 'judged': JUDGED, 'use': use, **hp}
  return lib.principled_reward(CONTEXT, **hp)


@pytest.mark.parametrize('rule', [*JUDGED, 'sugar acid'])
def test_what_differs_most_decides(rule):
  got = np.argwhere(np.asarray(lib.preferred(make_batch(), rule)))
  want = judged_by_hand(rule)
  assert {(int(i), int(j)) for i, j in got} == want
  assert len(want) > 1
  assert not any((j, i) in want for i, j in want)


def test_members_are_of_one_agent():
  batch = make_batch()
  agent = (jnp.arange(batch.turns.valid.shape[0]) == 3)[:, None].astype(int)
  both = jnp.broadcast_to(agent, batch.turns.valid.shape)
  two = batch.replace(turns=batch.turns.replace(agent=both))
  want = np.asarray(lib.preferred(batch, 'acid')) & (agent == agent.T)
  np.testing.assert_array_equal(lib.preferred(two, 'acid'), want)
  assert 0 < want.sum() < np.asarray(lib.preferred(batch, 'acid')).sum()


def test_equal_reasons_for_both_are_no_reason():
  """One principle speaks for i exactly as much as the other for j."""
  laid = batches.lay(batches.story(groups=1, members=2, turns=1))
  b, k = laid.batch.turns.valid.shape
  a = np.zeros((b, k))
  a[0, 0] = 1
  terms = {'a': a, 'b': a}
  batch = laid.batch.replace(turns=laid.batch.turns.replace(terms=terms))
  batch = jax.tree.map(jnp.asarray, batch)
  assert not np.any(lib.preferred(batch, 'a -b'))
  assert np.any(lib.preferred(batch, 'a b'))
  flat = jax.tree.map(jnp.zeros_like, batch.turns.terms)
  batch = batch.replace(turns=batch.turns.replace(terms=flat))
  assert not np.any(lib.preferred(batch, 'a'))


def learned(told=True):
  """What the model says of each trajectory under each reading, learned."""
  batch, state = make_batch(told), make_state()
  state, first = jax.jit(signal(steps=60).update)(state, batch, {}, None)
  out = {}
  for name in HINTS:
    fields, _ = signal(name, steps=0).score(state, batch, {})
    whole = np.asarray(fields[f'{lib.NAME}.return'])
    assert not np.any(whole[~np.asarray(batch.turns.valid)])
    out[name] = whole[:, 0]
  return out, first


def agreement(scores):
  """Share of the judge's pairs in the right order, by reading."""
  out = {}
  for (name, r), rule in zip(scores.items(), JUDGED, strict=True):
    pairs = judged_by_hand(rule)
    out[name] = np.mean([r[i] > r[j] for i, j in pairs])
  return out


@pytest.mark.slow
def test_the_same_trajectories_are_ordered_by_what_it_reads():
  scores, _ = learned()
  assert min(agreement(scores).values()) == 1.0
  # What is taken as best changes with the text alone.
  best = {
    name: {
      g: max(
        (i for i, x in enumerate(STORY.group) if x == g and i != OUT),
        key=lambda i, r=r: r[i],
      )
      for g in set(STORY.group)
    }
    for name, r in scores.items()
  }
  assert best['sweet'] != best['sour']
  assert best['sweet'] != best['both']


def test_without_principles_in_its_prompt_it_has_one_opinion():
  """The idea taken out: judges disagree, and the model cannot tell them."""
  scores, _ = learned(told=False)
  for r in scores.values():
    np.testing.assert_array_equal(r, scores['sweet'])
  assert min(agreement(scores).values()) < 0.8


def test_the_loss_is_that_of_loops():
  batch, state = make_batch(), make_state()
  table = np.random.default_rng(1).normal(size=(len(STORY.group) + 9, 4))
  state = state.replace(params={'reward': {'table': jnp.asarray(table)}})
  one = signal(readings=('sour',), judged=('acid',), use='sour')
  _, told = jax.jit(one.update)(state, batch, {}, None)
  r = table[:, HINTS['sour']]  # the mean over turns of one value
  pairs = judged_by_hand('acid')
  want = np.mean([np.log1p(np.exp(r[j] - r[i])) for i, j in pairs])
  got = told[f'{lib.NAME}/sour/loss'][0]
  np.testing.assert_allclose(got, want, rtol=1e-5)
  right, n = told[f'{lib.NAME}/sour/pair_accuracy']
  assert (float(right), float(n)) == (
    sum(r[i] > r[j] for i, j in pairs),
    len(pairs),
  )


def test_a_frozen_model_learns_nothing():
  state = make_state()
  same, told = signal(steps=0).update(state, make_batch(), {}, None)
  assert same is state
  assert not told


@pytest.mark.parametrize(
  ('field', 'value', 'names'),
  [
    ('use', 'sweets', 'principled_reward.use readings sweets'),
    ('judged', ('apple',) * 5, 'judged apples apple'),
    ('judged', ('apples',), 'judged readings'),
    ('readings', ('none',) * 5, 'readings twice'),
  ],
)
def test_what_does_not_fit_is_refused(field, value, names):
  c = salmon.get_config('tiny')
  c.hp.signal.principled_reward[field] = value
  with errors.raises(ValueError, names):
    validate.config(c)


@pytest.mark.parametrize('arg', ['tiny', 'tiny,env=frozen_lake'])
def test_salmon_learns_the_model_first_and_then_the_policy(arg):
  c = validate.config(salmon.get_config(arg))
  plans = {x.name: x.config for x in stages.plans(c)}
  assert [*plans] == ['sft', 'judge', 'rl']
  steps = {name: x.hp['signal'][lib.NAME]['steps'] for name, x in plans.items()}
  assert (steps['judge'], steps['rl']) == (1, 0)
  assert plans['judge'].minibatch == 'none'
  assert registry.get('signal', lib.NAME).step == f'{lib.NAME}.step'
  registry.check(base.wiring(plans['judge']), plans['judge'])
