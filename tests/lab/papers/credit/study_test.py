"""Credit against truth: a real measurement of a few methods, small."""

import numpy as np
import pytest

from agentrl.configs import base
from agentrl.lab.papers.credit import study as study_credit
from tests import errors
from tests.lab.papers.credit.small_credit import NAMES, SIZE


def test_what_cannot_be_measured_is_skipped_with_its_reason(measured):
  report, credits, _ = measured
  assert report['skipped'] == {'oprl': 'there is no prm here'}
  assert set(report['methods']) == set(credits) == set(NAMES[:2])


def test_group_credit_is_the_return_minus_the_mean(measured):
  """Dr. GRPO, from the batches alone."""
  _, credits, played = measured
  reward = np.asarray(played.batches.turns.reward[:, -1], np.float64)
  total = reward.sum(axis=2).reshape(6, 2, 8)
  want = (total - total.mean(axis=2, keepdims=True)).reshape(6, 16, 1)
  want = np.where(played.valid, want, 0)
  np.testing.assert_allclose(credits['dr_grpo'], want, atol=1e-6)


def test_only_states_find_the_decisive_turn(measured):
  report = measured[0]['methods']
  assert report['dr_grpo']['found'] == pytest.approx(1 / 3)
  assert report['gigpo_no_std']['found'] > 0.6
  assert report['gigpo_no_std']['rank'] > report['dr_grpo']['rank'] > 0
  # Both are right on average; the return of a whole trajectory is noise on
  # every turn that did not matter.
  assert all(x['bias'] < 0.4 for x in report.values())
  assert report['gigpo_no_std']['noise'] < report['dr_grpo']['noise']


def test_seeds_differ_and_tasks_do_not(measured):
  played = measured[2]
  assert np.any(played.solved[0] != played.solved[1])
  task = np.asarray(played.batches.ids['task'])
  assert np.all(task[:, -1] == task[0, -1])


def test_the_truth_of_the_lake_is_not_known():
  with errors.raises(ValueError, 'frozen_lake'):
    study_credit.measure(['grpo'], 'frozen_lake', SIZE)


def test_a_config_that_fits_is_changed_in_size_only():
  c = study_credit.config('gigpo', 'sokoban', SIZE)
  assert c.advantage == ('episode', 'step')
  assert (c.rollout.batch, c.rollout.group_size) == (16, 8)
  assert base.wiring(c).stream['step'][0] == 'step_return'
