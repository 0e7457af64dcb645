"""Planted-pairs study: its pairs by the world, its scorers, claims and page."""

import functools

import jax
import numpy as np
import pytest

from agentrl.lab.papers.planted_pairs import study
from agentrl.lab.papers.planted_pairs.twins import DETOUR, EQUAL, KINDS
from agentrl.lab.study import bounds
from agentrl.learner import update
from agentrl.run import build
from agentrl.run.check import fields
from tests import errors

TASKS = 8


@pytest.fixture(scope='module')
def bucket(tmp_path_factory):
  folder = tmp_path_factory.mktemp('data')
  c = study.config(100, str(folder))
  small = {'layers': 1, 'width': 16, 'heads': 1, 'kv_heads': 1, 'mlp': 16}
  changes = {f'model.{k}': v for k, v in small.items()}
  s = build.experiment(fields.changed(c, changes | {'role.prm.lr': 1e-2}))
  (one,) = study.buckets(s, 'test', TASKS, [(4, 5)])
  return one


@pytest.fixture(scope='module')
def batch(bucket):
  return jax.device_get(study.replayed(bucket))


def by_task(x):
  return np.reshape(x, (TASKS, 1 + len(KINDS), *np.shape(x)[1:]))


def test_every_twin_is_worse_in_the_world(bucket, batch):
  turns = by_task(batch.turns.valid.sum(axis=1))
  outcome, earned = by_task(batch.outcome), by_task(study.earned(batch))
  assert np.all(outcome[:, 0] == 1)
  assert np.all(earned[:, :1] > earned[:, 1:])
  for i, kind in enumerate(KINDS, 1):
    assert np.all(outcome[:, i] == (kind not in EQUAL)), kind
    more = 0 if kind in EQUAL else DETOUR
    np.testing.assert_array_equal(turns[:, i], turns[:, 0] + more)
  assert [len(x) for x in bucket.solved] == turns[:, 0].tolist()


def test_faults_are_where_the_world_sees_them(bucket, batch):
  """A loop and a detour come back to their state, a blank is no action."""
  state, invalid = by_task(batch.turns.state), batch.turns.terms['invalid']
  invalid = by_task(invalid)
  assert invalid.sum() == TASKS
  for task, found in enumerate(bucket.twins):
    for i, (kind, turn, _) in enumerate(found, 1):
      own, seen = state[task, 0], state[task, i]
      np.testing.assert_array_equal(seen[: turn + 1], own[: turn + 1])
      if kind == 'invalid':
        assert invalid[task, i, turn] == 1
        last = turn + 1 == len(bucket.solved[task])
        assert last or seen[turn + 1] == seen[turn]
      if kind in ('loop', 'detour'):
        assert seen[turn + 1] != seen[turn] == seen[turn + DETOUR]


def test_a_twin_that_is_no_worse_is_refused(bucket):
  same = [
    [x._replace(actions=own) for x in of]
    for own, of in zip(bucket.solved, bucket.twins, strict=True)
  ]
  with errors.raises(RuntimeError, 'twin'):
    study.replayed(bucket._replace(twins=same))


def test_accuracy_counts_pairs_and_half_of_the_ties():
  r = np.random.default_rng(0)
  score = r.integers(0, 4, (30, 1 + len(KINDS))).astype(float)
  for kind, got in enumerate(study.accuracy(score), 1):
    want = 0.0
    for row in score.tolist():
      want += 1.0 if row[0] > row[kind] else 0.5 if row[0] == row[kind] else 0
    assert got == pytest.approx(want / len(score))


def test_the_truth_is_always_right_and_a_constant_half(batch):
  truth = by_task(study.earned(batch))
  np.testing.assert_array_equal(study.accuracy(truth), 1)
  np.testing.assert_array_equal(study.accuracy(0 * truth), 0.5)


def test_the_judge_errs_as_often_as_planted(batch, monkeypatch):
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
    patch.setattr(study, 'PAIRS', TASKS)
    patch.setattr(study, 'STEPS', 12)
    learned = study.taught([bucket], state, 'implicit_prm')
  both = {study.PRM_ALL: learned, study.PRM_SHORT: state}
  got = study.scores([bucket], state, both)
  return state, learned, {name: x[0] for name, x in got.items() if x}


def test_scores_are_those_of_loops_over_tokens(bucket, batch, taught):
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
  before = study.accuracy(got[study.LIKELIHOOD])
  after = study.accuracy(got[study.PRM_ALL])
  assert after.mean() > before.mean()
  assert after.mean() > 0.7
  for name in ('policy', 'reward'):
    for x, y in zip(
      *(jax.tree.leaves(z.params[name]) for z in (state, learned)), strict=True
    ):
      np.testing.assert_array_equal(x, y)


def test_levels_of_training_are_not_those_held_out(bucket):
  s = bucket.setup
  of = [(4, 6), (7, 9)]
  seen = []
  for split in ('train', 'test'):
    for (least, most), b in zip(
      of, study.buckets(s, split, TASKS, of), strict=True
    ):
      assert all(least <= len(x) <= most for x in b.solved)
      tasks = jax.device_get(b.setup.world.tasks)
      seen += [
        b''.join(tasks[x][i].tobytes() for x in ('walls', 'targets', 'boxes'))
        + tasks['player'][i].tobytes()
        for i in range(TASKS)
      ]
  assert len({*seen}) == 4 * TASKS


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
