"""Planted-pairs study: its scorers, its claims and its page."""

import functools
import pathlib

import jax
import numpy as np
import pytest

from agentrl.lab.papers.planted_pairs import pairs, study
from agentrl.lab.papers.planted_pairs.twins import KINDS
from agentrl.lab.study import bounds
from agentrl.learner import update


def test_the_judge_errs_as_often_as_planted(batch, by_task, monkeypatch):
  """And of an equal beginning it says the same."""
  monkeypatch.setattr(study, 'FLIP', 0.0)
  sound = by_task(study.judged(batch, 0))
  assert np.all(sound[:, 0] == 1)  # every turn of a solver is progress
  assert np.all(sound[:, 1:] < 1)
  monkeypatch.setattr(study, 'FLIP', 1.0)
  np.testing.assert_allclose(by_task(study.judged(batch, 0)), 1 - sound)
  monkeypatch.setattr(study, 'FLIP', 0.2)
  one, other = (study.judged(batch, seed) for seed in (0, 1))
  np.testing.assert_array_equal(one, study.judged(batch, 0))
  assert np.any(one != other)
  valid = batch.turns.valid.sum(axis=1)
  chosen = np.arange(len(one)) % (1 + len(KINDS)) == 0
  wrong = np.sum(((1 - one) * valid)[chosen]) / np.sum(valid[chosen])
  assert 0 < wrong < 0.5


@pytest.fixture(scope='module')
def taught(bucket):
  """Scores by a policy that learned nothing, and a PRM before and after."""
  s = bucket.setup
  state = update.init(s.algorithm, jax.random.key(0))
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(study, 'PAIRS', len(bucket.solved))
    patch.setattr(study, 'STEPS', 12)
    learned = study.taught([bucket], state, 'implicit_prm')
  both = {study.PRM_ALL: learned, study.PRM_SHORT: state}
  got = study.scores([bucket], state, both)
  return state, learned, {name: x[0] for name, x in got.items() if x}


def test_scores_are_those_of_loops_over_tokens(bucket, batch, by_task, taught):
  state, learned, got = taught
  np.testing.assert_array_equal(
    got[study.LENGTH], -by_task(batch.turns.valid.sum(axis=1))
  )
  s, rows = bucket.setup, batch.rows
  read = jax.jit(functools.partial(study.policy_logp, s))
  logp, phi = (
    np.asarray(read(state.replace(params={'policy': x}), batch), np.float64)
    for x in (state.params['policy'], learned.params['prm'])
  )
  beta = s.config.hp['signal']['implicit_prm']['beta']
  want, reward = np.zeros((2, len(rows.tokens)))
  for i, j in zip(*np.nonzero(rows.sampled), strict=True):
    want[rows.traj[i, j]] += logp[i, j]
    reward[rows.traj[i, j]] += beta * (phi[i, j] - logp[i, j])
  np.testing.assert_allclose(got[study.LIKELIHOOD], by_task(want), rtol=1e-4)
  np.testing.assert_allclose(got[study.PRM_ALL], by_task(reward), atol=1e-3)
  # What is still the policy ranks nothing.
  np.testing.assert_array_equal(got[study.PRM_SHORT], 0)


def test_what_is_taught_ranks_its_own_pairs(taught):
  state, learned, got = taught
  before = pairs.accuracy(got[study.LIKELIHOOD])
  after = pairs.accuracy(got[study.PRM_ALL])
  assert after.mean() > before.mean()
  assert after.mean() > 0.7
  for name in ('policy', 'reward'):
    for x, y in zip(
      *(jax.tree.leaves(z.params[name]) for z in (state, learned)), strict=True
    ):
      np.testing.assert_array_equal(x, y)


def made(falling):
  """A report in which some scorers lose a tenth of accuracy per bucket."""
  n = len(study.BUCKETS)
  cells = {}
  for name in study.SCORERS:
    one = []
    for seed in range(3):
      each = 0.9 - 0.1 * np.arange(n) * (name in falling) + 0.01 * seed
      score = [np.stack([np.full(100, 1.0)] * 5, 1) for _ in range(n)]
      for x, right in zip(score, each, strict=True):
        x[: round(100 * right), 1:] = 0
        x[round(100 * right) :, 1:] = 2
      one.append(study.measure({name: score})[name])
    cells[name] = bounds.rounded(one)
  cells[study.SHARP] = {'drop': [study.SHARPLY] * 3}
  return {'seeds': 3, 'cells': cells}


def test_a_fall_is_found_where_accuracy_falls():
  x = made({study.MODEL_SHORT, study.LIKELIHOOD})
  np.testing.assert_allclose(
    x['cells'][study.MODEL_SHORT]['slope'], -0.1 / 3 * study.TURNS, atol=1e-3
  )
  text = study.table(x)
  for name, found in (
    (study.MODEL_SHORT, 'yes'),
    (study.LIKELIHOOD, 'yes'),
    (study.PRM_SHORT, 'no'),
  ):
    assert f'| The accuracy of {name} falls with length | {found} |' in text
  sharp = f'falls by more than {study.SHARPLY}'
  assert f'| That of {study.MODEL_SHORT} {sharp} | yes |' in text
  assert f'| That of {study.PRM_ALL} {sharp} | no |' in text


def test_the_page_has_the_table_of_the_report():
  docs = pathlib.Path(__file__).parents[4] / 'docs'
  report = bounds.read(str(docs / 'planted_pairs.json'))
  page = (docs / 'results' / 'planted_pairs.md').read_text()
  assert study.table(report) in page
  assert report['seeds'] == len(study.SEEDS)
  half = [[0.5] * len(study.BUCKETS)] * len(study.SEEDS)
  assert report['cells'][study.LENGTH]['each'] == half
