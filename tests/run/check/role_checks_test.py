"""Roles that are not of the kind that who reads them needs."""

import pytest

from agentrl.configs import base, gkd, grpo, oprl, prime, td_prm
from agentrl.run.check import role_checks, validate
from tests import errors


@pytest.mark.parametrize(
  ('field', 'value', 'fix'),
  [
    ('value.heads', 0, 'train role.value.heads 1'),
    ('prm.heads', 1, 'train role.prm.heads 0'),
    ('previous.kind', 'frozen', 'ema role.previous.heads 0'),
  ],
)
def test_a_prm_by_temporal_differences_needs_roles_of_their_kind(
  field, value, fix
):
  c = td_prm.get_config('tiny')
  validate.config(c)
  c.role.update_from_flattened_dict({field: value})
  with errors.raises(ValueError, f'td_prm {fix}'):
    validate.config(c)


@pytest.mark.parametrize(
  ('make', 'place'), [(oprl, 'before'), (td_prm, 'after')]
)
def test_errors_of_a_prm_are_measured_where_it_scores(make, place):
  c = make.get_config('tiny')
  (prm,) = c.signal
  places = {
    'before': ('prm_persistence', prm),
    'after': (prm, 'prm_persistence'),
  }
  c.signal = places.pop(place)
  role_checks.measured(base.wiring(c))
  ((_, c.signal),) = places.items()
  fix = f'prm_persistence {place}'
  with errors.raises(ValueError, f'{prm} {place} {fix}'):
    role_checks.measured(base.wiring(c))


def test_errors_are_measured_of_ratios_to_the_policy():
  c = prime.get_config('tiny')
  c.signal = ('prm_persistence', *c.signal)
  fix = 'old_logp prm_persistence'
  with errors.raises(ValueError, f'reference ref_logp {fix}'):
    role_checks.measured(base.wiring(c))


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
