"""Rewards of papers that are streams: preferences of a group, and a trend."""

import numpy as np
import pytest

import agentrl.advantage
import agentrl.loss
import agentrl.reward  # noqa: F401  these register their pieces
from agentrl import optimizer, registry
from agentrl.learner import update
from agentrl.run.play import collect
from agentrl.schedule import Schedule
from agentrl.signal.base import Context
from tests.advantage import one_token_turns
from tests.advantage.one_token_turns import algorithm_credit

pytestmark = pytest.mark.usefixtures('float64')


def drawn(seed, b=24, k=3):
  """A batch of ragged trajectories in groups, and its terms and outcomes."""
  r = np.random.default_rng(seed)
  valid = np.arange(k)[None] < r.integers(1, k + 1, (b, 1))
  names = ('cost', 'seconds', 'judged')
  terms = {n: np.where(valid, r.random((b, k)), 0) for n in names}
  terms['invalid'] = np.where(valid, r.random((b, k)) < 0.15, 0.0)
  group = np.arange(b) % 4
  group[:2] = 4  # all alike
  for name in ('cost', 'seconds'):
    terms[name][:2] = terms[name][:1]
  valid[:2] = valid[:1]
  outcome = (r.random(b) < 0.6).astype(float)
  outcome[:2] = 1
  batch = one_token_turns.make_batch(
    np.zeros((b, k)), group=list(group), valid=valid
  )
  turns = batch.turns.replace(terms=terms)
  return batch.replace(turns=turns, outcome=outcome)


def learner(streams, hp, post=(), **more):
  wiring = registry.MethodSpec(
    reward=('outcome',),
    advantage=tuple(streams),
    stream=streams,
    post=post,
    loss=('ppo',),
    hp=hp,
  )
  context = Context({}, {'policy': optimizer.OptimizerConfig()}, 1)
  return update.Algorithm.from_spec(wiring, context, **more)


PREFERENCE = {'correct': 1.0, 'cost': 0.4, 'seconds': 0.2}


def orchestra(batch):
  """R and A of ToolOrchestra, with the sign of costs the same throughout."""
  valid = np.asarray(batch.turns.valid)
  sums = {n: np.where(valid, x, 0).sum(1) for n, x in batch.turns.terms.items()}
  x = {'correct': batch.outcome, 'cost': -sums['cost']}
  x['seconds'] = -sums['seconds']
  reward, advantage = np.zeros(len(valid)), np.zeros(len(valid))
  group = np.asarray(batch.ids['group'])
  for g in set(group):
    (mine,) = np.nonzero(group == g)
    for i in mine[np.asarray(batch.outcome)[mine] == 1]:
      for name, p in PREFERENCE.items():
        low, high = x[name][mine].min(), x[name][mine].max()
        if high > low:
          reward[i] += p * (x[name][i] - low) / (high - low)
    centred = reward[mine] - reward[mine].mean()
    advantage[mine] = centred / (reward[mine].std(ddof=1) + 1e-6)
  return reward, np.clip(advantage, -1.5, 1.5)


def test_streams_are_the_preferences_of_tool_orchestra():
  batch = drawn(0)
  streams = {
    'correct': ('episode_outcome', 'min_max', 'gate'),
    'cost': ('add_term', 'episode_sum', 'min_max', 'gate'),
    'seconds': ('add_term', 'episode_sum', 'min_max', 'gate'),
  }
  hp = {
    name: {'add_term': {'name': name, 'coef': -1.0}}
    for name in ('cost', 'seconds')
  }
  hp['post'] = {'clip': {'most': 1.5}}
  reward, advantage = orchestra(batch)
  valid = np.asarray(batch.turns.valid)
  got = algorithm_credit(learner(streams, hp, coef=PREFERENCE), batch)
  np.testing.assert_allclose(
    got, np.where(valid, reward[:, None], 0), atol=1e-9
  )
  alg = learner(streams, hp, ('center', 'scale', 'clip'), coef=PREFERENCE)
  got = algorithm_credit(alg, batch)
  want = np.where(valid, advantage[:, None], 0)
  np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
  assert (np.abs(advantage) == 1.5).any()
  assert not advantage[:2].any()


FORMAT = {
  'terms': ('invalid',),
  'scales': (-1.0,),
  'thresholds': (0.0,),
  'otherwise': -1.0,
}


def test_a_scheduled_pair_of_streams_is_the_trend_of_atom_searcher():
  """R = α R_atom + (1 − α) R_out where the format holds, else −1, over steps.

  α(k) = 0.5 (1 − k / K).
  """
  batch, steps = drawn(7), 8
  streams = {
    'atom': ('add_term', 'episode_sum', 'gate'),
    'out': ('episode_return', 'gate'),
  }
  hp = {
    'atom': {'add_term': {'name': 'judged'}, 'gate': FORMAT},
    'out': {'gate': FORMAT},
  }
  alg = learner(
    streams,
    hp,
    schedules={
      'coef.atom': Schedule('linear', 0.5, 0.0, steps),
      'coef.out': Schedule('linear', 0.5, 1.0, steps),
    },
  )
  batch = collect.score(alg.spec, batch)
  valid = np.asarray(batch.turns.valid)
  terms = {n: np.where(valid, x, 0) for n, x in batch.turns.terms.items()}
  broken = terms['invalid'].any(1)
  assert 0 < broken.sum() < len(broken)
  for k in (0, 1, 4, 8, 20):
    alpha = 0.5 * (1 - min(k, steps) / steps)
    mixed = alpha * terms['judged'].sum(1) + (1 - alpha) * batch.outcome
    want = np.where(valid, np.where(broken, -1, mixed)[:, None], 0)
    np.testing.assert_allclose(algorithm_credit(alg, batch, k), want, atol=1e-6)


def test_two_stages_of_scale_are_schedules():
  """ToolRL's: a third of correctness and all of format, then all and half."""
  first, second = Schedule('jump', 1 / 3, 1.0, 30), Schedule('jump', 1, 0.5, 30)
  for step in (0, 1, 15, 29):
    assert float(first.at(step)) == pytest.approx(1 / 3)
    assert float(second.at(step)) == 1
  for step in (30, 31, 1000):
    assert float(first.at(step)) == pytest.approx(1)
    assert float(second.at(step)) == 0.5
