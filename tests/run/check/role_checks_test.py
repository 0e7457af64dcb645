"""Roles that are not of the kind that who reads them needs."""

import pytest

from agentrl.configs import gkd, grpo
from agentrl.run.check import role_checks
from tests import errors


@pytest.mark.parametrize(
  ('changes', 'fix'),
  [
    ({'role.ref.kind': 'ema'}, "set role.ref.kind to 'frozen' and heads to 0"),
    ({'role.ref.heads': 1}, "set role.ref.kind to 'frozen' and heads to 0"),
    ({'lora.rank': 4}, 'set lora.rank to 0'),
  ],
)
def test_the_policy_of_another_run_stays_as_it_is(changes, fix):
  c = gkd.get_config('tiny')
  name = next(x for x in c.role if x != 'policy')
  changes = {k.replace('.ref.', f'.{name}.'): v for k, v in changes.items()}
  c.role[name].run = 'runs/teacher'
  role_checks.loaded(c, name, c.role[name])
  c.update_from_flattened_dict(changes)
  fix = fix.replace('.ref.', f'.{name}.')
  with errors.raises(ValueError, f'run runs/teacher {fix}'):
    role_checks.loaded(c, name, c.role[name])


def test_a_role_without_a_run_is_nobodys_policy():
  c = grpo.get_config('tiny')
  c.lora.rank = 4
  role_checks.loaded(c, 'policy', c.role.policy)
