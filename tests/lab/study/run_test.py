"""Comparisons: fair by construction, and right where the truth is known."""

import pytest

from agentrl.lab.study import execute, tabular_runner
from agentrl.lab.study import run as study_run

TRAINED = (
  'demystify',
  'dose_language',
  'language',
  'oprl',
  'practitioner',
  'retests_language',
)


@pytest.mark.slow
def test_the_studies_that_come_along_fit_together(tmp_path):
  for name in TRAINED:
    s = study_run.load(f'configs/studies/{name}.py')
    execute.check_all(s, str(tmp_path))
  for name in ('board', 'credit', 'dose', 'retests', 'step_rewards'):
    s = study_run.load(f'configs/studies/{name}.py')
    tabular_runner.check_all(s)
