"""Runs in which seats are played by policies of their own."""

import jax
import numpy as np
import pytest

from agentrl import Run
from agentrl.configs import base, dr_mas
from agentrl.learner import sizes
from agentrl.learner import update as update_lib
from agentrl.run import build, runner
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from tests.integration import same
from tests.integration.cut import after_row
from tests.integration.jobs_test import samplers

pytestmark = pytest.mark.slow
PLAYERS = 'policy', 'policy_2'


def small(folder, method=dr_mas, **rollout):
  c = method.get_config('env=solver_verifier')
  c.data = str(folder / 'data')
  if 'policy_2' not in c.role:
    base.role(c, 'policy_2', lr=1e-3)
  c.rollout.update(dict(batch=16, slots=16, seats=PLAYERS, **rollout))
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.micro_batch, c.env.train, c.env.test = 16, 16, 4
  c.env.illegal = 'random'
  c.steps, c.sft.steps, c.eval.episodes = 6, 0, 8
  c.checkpoint.every = 2
  return base.finish(c)


def changed(before, after):
  pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
  return any(np.any(a != b) for a, b in pairs)


def test_each_is_scored_and_trained_as_the_one_that_wrote(tmp_path):
  """Learner and sampler agree on policies that have come apart."""
  s = build.experiment(small(tmp_path, swap_seats=2))
  stage = stages.rl_stage(s, 0, 6, jit_sampler.JitSampler(s))
  state = update_lib.init(s.algorithm, jax.random.key(0))
  apart = jax.tree.map(lambda x: 1.5 * x, state.params['policy_2'])
  state = state.replace(params=state.params | {'policy_2': apart})
  update = sizes.jit_update(stage.algorithm)
  before = jax.device_get(state.params)
  for step in range(4):
    batch, _ = stage.collect(state, stage.task(state, step), step)
    swapped = step // 2
    role = np.asarray(batch.ids['role'])
    np.testing.assert_array_equal(role == batch.ids['seat'], not swapped)
    state, metrics, _ = update(state, batch)
    gap, some = metrics['logp/sampler_mismatch_max']
    assert some
    assert gap < 1e-5
  for name in PLAYERS:
    assert changed(before[name], jax.device_get(state.params[name]))


@pytest.mark.parametrize(
  'settings',
  [
    pytest.param(x, marks=pytest.mark.nightly)
    for x in (dict(swap_seats=2), dict(learn_in_turn=2))
  ],
)
def test_a_run_that_was_cut_goes_on_to_the_same_bits(tmp_path, settings):
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  c = small(tmp_path, **settings)
  c.staleness.bound, c.staleness.anchor = 1, 'behaviour'
  runner.run(c, whole)
  with after_row(3):
    runner.run(c, cut)
  runner.run(c, cut)
  same.assert_same_run(whole, cut, steps=6)
  rows = [x for x in same.rows(cut) if x['phase'] == 'rl']
  assert max(x['rollout/age_max'] for x in rows) == 1
  assert all('rollout/policy_2/return' in x for x in rows)


@pytest.mark.nightly
@pytest.mark.parametrize(
  'settings',
  [
    dict(),
    dict(learn_in_turn=2),
    dict(swap_seats=2),
  ],
)
def test_jobs_collect_for_both_by_streams_of_their_own(tmp_path, settings):
  """A sampler leaves, another joins, the learner is cut: the same bits."""

  def config(**staleness):
    c = small(tmp_path, **settings)
    c.staleness.update(bound=1, anchor='behaviour', **staleness)
    return c

  whole, apart = str(tmp_path / 'whole'), str(tmp_path / 'apart')
  runner.run(config(depth=0), whole)
  place, kept = tmp_path / 'apart' / 'samplers' / 'weights' / 'rl', []
  with samplers(apart, 1), after_row(3):
    runner.run(config(jobs=True), apart)
  with samplers(apart, 2), Run(config(jobs=True), workdir=apart) as run:
    for _ in run:
      kept.append({x.name: len(list(x.glob('v*'))) for x in place.iterdir()})
  assert all(set(x) == set(PLAYERS) for x in kept)
  same.assert_same_run(whole, apart, steps=6, but=(*same.CLOCK, 'samplers/'))
