"""Rounds of samples and fits to pairs (base.pair_rounds), of a config."""

from agentrl.configs import base, stages
from agentrl.run.check import validate

ROUNDS = (1, 2, 3)


def check(c, loss):
  """Checks the stages of three rounds; returns (sample, fit) of each."""
  validate.config(c)
  plans = {x.name: x for x in stages.plans(c)}
  names = [x for r in ROUNDS for x in (f'sample_{r}', f'fit_{r}')]
  assert [*plans] == ['sft', *names]
  assert c.role.reference.kind == 'frozen'  # the policy as a stage begins
  assert (c.mix.paired.kind, c.mix.paired.last) == ('found', 1)
  rounds = [(plans[f'sample_{r}'], plans[f'fit_{r}']) for r in ROUNDS]
  for sample, fit in rounds:
    assert (sample.kind, fit.kind) == ('rl', 'sft')
    assert sample.config.minibatch == 'none'
    assert sample.config.log['groups'] == -1
    spec = base.wiring(fit.config)
    assert (spec.loss, spec.curate) == (loss, ('as_listed',))
    assert spec.values('dpo', 'dpo')['reference'] == 'ref_logp'
    assert fit.config.sft.mix == ('paired',)
  return rounds
