"""Anyprefer: rounds of DPO on pairs that a judge with a tool made."""

import pytest

from agentrl.configs import anyprefer, base, stages
from agentrl.run import config_file
from agentrl.run.check import validate
from tests import errors

ROUNDS = (1, 2, 3)


def config(arg='tiny', **changes):
  c = anyprefer.get_config(arg)
  config_file.change(c, changes)
  return c


def test_three_rounds_of_samples_that_are_judged_and_fits_to_their_pairs():
  c = config()
  validate.config(c)
  plans = {x.name: x for x in stages.plans(c)}
  names = [x for r in ROUNDS for x in (f'sample_{r}', f'fit_{r}')]
  assert [*plans] == ['sft', *names]
  assert c.role.reference.kind == 'frozen'  # the policy as a stage begins
  assert c.hp.judge.tool_ranking.tool == 'calculator'
  assert (c.mix.paired.kind, c.mix.paired.last) == ('found', 1)
  for r in ROUNDS:
    sample, fit = plans[f'sample_{r}'], plans[f'fit_{r}']
    assert (sample.kind, fit.kind) == ('rl', 'sft')
    assert sample.config.minibatch == 'none'
    assert sample.config.judge == ('tool_ranking',)
    spec = base.wiring(fit.config)
    assert (spec.loss, spec.curate) == (('dpo',), ('as_listed',))
    assert spec.values('dpo', 'dpo')['reference'] == 'ref_logp'


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
