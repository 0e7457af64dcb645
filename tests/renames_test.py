"""Old names of fields and metrics lead to present ones, and only there."""

import copy
import json
import pathlib

import pytest

from agentrl import registry, renames
from agentrl.configs import base, envs
from agentrl.run import config_file, workdir
from agentrl.run.check import fields
from docs.generate import renamed
from tests import errors

OLD_RUN = pathlib.Path(__file__).parent / 'run' / 'run_of_old' / 'config.json'


def _declared(path: str) -> bool:
  """Whether a path is a field, a section, or a scope of hyper-parameters."""
  names = {*base.FIELDS, *base.OPEN, *base.SECTIONS}
  names |= {f'host.{x}' for x in envs.HOST}
  names |= {f'hp.{slot}' for slot in registry.SLOTS} | {'hp.post', 'coef.post'}
  return path in names or f'{path}.*' in names


def test_new_names_are_fields_and_old_ones_are_not():
  for old, new in renames.FIELDS.items():
    assert _declared(new), new
    assert not _declared(old), old
    assert new not in renames.FIELDS


@pytest.mark.parametrize(
  ('old', 'new'),
  [
    ('rollout.turns', 'rollout.max_turns'),
    ('role.critic.clip', 'role.critic.max_grad_norm'),
    ('hp.plan.minibatches.n', 'hp.minibatch.minibatches.n'),
    ('schedule.role.policy.final', 'schedule.role.policy.final_lr_fraction'),
    ('schedule.hp.finish.whiten.eps', 'schedule.hp.post.whiten.eps'),
    ('rollout_kind', 'rollout.kind'),
    ('rollout.max_turns', None),
    ('plans', None),
  ],
)
def test_new_field(old, new):
  assert renames.new_field(old) == new


def test_an_old_config_is_migrated_and_a_new_one_stays():
  old = json.loads(OLD_RUN.read_text())
  turns, clip = old['rollout']['turns'], old['role']['policy']['clip']
  now = renames.migrate_config(copy.deepcopy(old))
  assert now['rollout']['max_turns'] == turns
  assert now['role']['policy']['max_grad_norm'] == clip
  assert now['rollout']['kind'] == old['rollout_kind']
  assert now['hp']['minibatch'] == old['hp']['plan']
  assert not {'micro', 'plan', 'rollout_kind', 'finish', 'reduce'} & now.keys()
  assert renames.migrate_config(copy.deepcopy(now)) == now
  old['schedule'] = {'role': {'policy': {'clip': ['linear', 1, 2, 3]}}}
  old['role']['policy']['kind'] = 'average'
  now = renames.migrate_config(old)
  assert now['schedule']['role']['policy'] == {
    'max_grad_norm': ['linear', 1, 2, 3]
  }
  assert now['role']['policy']['kind'] == 'ema'


def test_sections_without_the_fields_that_were_renamed_stay():
  for field in (*renames.FIELDS, *renames.VALUES):
    config: dict = {'another': 1}
    for part in reversed(field.split('.')[:-1]):
      config = {part: config}
    assert renames.migrate_config(copy.deepcopy(config)) == config


def test_a_migrated_config_is_a_whole_one():
  fields.check(workdir.read_config(str(OLD_RUN.parent)))


def test_an_old_flag_is_refused_with_the_new_name():
  c = config_file.load('grpo:tiny')
  c.rollout.turns = 3
  with errors.raises(ValueError, 'rollout.max_turns'):
    fields.check(c)


@pytest.mark.parametrize(
  ('old', 'new'),
  [
    ('policy/skipped', 'policy/nonfinite_skips'),
    ('ppo/kl_old', 'ppo/approx_kl'),
    ('advantage/finish/abs', 'advantage/post/abs_mean'),
    ('advantage/step/center/flat', 'advantage/step/center/zero_variance_frac'),
    ('rollout/fault/died', 'rollout/fault/crash'),
    ('eval/low', 'eval/ci_low'),
    ('eval/lowest', 'eval/lowest'),
    ('/skipped', '/skipped'),
  ],
)
def test_new_metric(old, new):
  assert renames.new_metric(old) == new
  assert renames.new_metric(new) == new


def test_the_page_is_up_to_date():
  with open(renamed.PAGE, encoding='utf-8') as f:
    assert f.read() == renamed.page()
