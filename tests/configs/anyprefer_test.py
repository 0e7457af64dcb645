"""Anyprefer: rounds of DPO on pairs that a judge with a tool made."""

import pytest

from agentrl.configs import anyprefer
from agentrl.run import config_file
from agentrl.run.check import validate
from tests import errors
from tests.configs import pair_rounds


def config(arg='tiny', **changes):
  c = anyprefer.get_config(arg)
  config_file.change(c, changes)
  return c


def test_three_rounds_of_samples_that_are_judged_and_fits_to_their_pairs():
  c = config()
  assert c.hp.judge.tool_ranking.tool == 'calculator'
  for sample, _ in pair_rounds.check(c, ('dpo',)):
    assert sample.config.judge == ('tool_ranking',)


@pytest.mark.parametrize('env', ['sokoban', 'hidden_slots', 'fact_corpus'])
def test_in_other_worlds_the_policy_judges_itself_without_a_tool(env):
  c = config(f'tiny,env={env}')
  validate.config(c)
  assert c.service.judge.role == 'policy'
  assert c.hp.judge.tool_ranking.tool == 'none'


def test_the_policy_can_take_the_place_of_the_script():
  c = config(**{'service.judge.function': '', 'service.judge.role': 'policy'})
  validate.config(c)
  assert c.hp.judge.tool_ranking.tool == 'calculator'


@pytest.mark.parametrize(
  ('arg', 'changes', 'names'),
  [
    (
      'tiny,env=hidden_slots',
      {'hp.judge.tool_ranking.tool': 'calculator'},
      'hp.judge.tool_ranking.tool none calculator countdown',
    ),
    (
      'tiny',
      {'hp.judge.tool_ranking.tool': 'abacus'},
      'tool calculator abacus',
    ),
    ('tiny', {'hp.judge.tool_ranking.threshold': 1.5}, 'threshold 1 1.5'),
    ('tiny', {'hp.judge.tool_ranking.threshold': 0.0}, 'threshold 0'),
    ('tiny', {'hp.judge.tool_ranking.revisions': -1}, 'revisions 0 -1'),
    ('tiny', {'judge': ()}, 'judged_pairs term:preferred'),
    ('tiny', {'stage.fit_2.sft.pairs': False}, 'sft.pairs True False'),
  ],
)
def test_what_does_not_fit_is_refused(arg, changes, names):
  with errors.raises(ValueError, names):
    validate.config(config(arg, **changes))
