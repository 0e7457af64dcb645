"""Bifurcations of a language model: what studies take from one place."""

import pytest

from agentrl.lab.papers.language import worlds as language_worlds
from agentrl.lab.study import run as study_run


@pytest.mark.parametrize(
  'name', ['dose_language', 'language', 'retests_language']
)
def test_studies_have_its_worlds_and_budget(name):
  s = study_run.load(f'configs/studies/{name}.py')
  for field, value in language_worlds.PROTOCOL.items():
    assert vars(s)[field] == value
  assert language_worlds.changes().items() <= s.changes.items()
  for env in s.envs.values():
    turns = env.changes['env.length']
    assert env.changes['rollout.max_turns'] == turns
    assert f'of {turns} turns' in env.label
  assert all(a.config.endswith(':env=bifurcation') for a in s.arms)


def test_more_changes_stand_amid_the_others():
  """As in protocols that were written with them: their order counts."""
  names = [*language_worlds.changes(**{'rollout.batch': 64})]
  assert names.index('rollout.batch') == names.index('steps') + 1
  assert names[: names.index('steps') + 1] == [*language_worlds.changes()][:4]
