"""Run folders: which config may go on in them, whatever wrote them."""

import functools
import json
import sys

import pytest

from agentrl import registry
from agentrl.lab.papers import dose
from agentrl.lab.papers.dose import degraded_truth
from agentrl.run import config_file, weights, workdir
from agentrl.run.check import fields, validate
from tests import errors
from tests.run.small_configs import checkpoint as config


def test_a_run_of_another_checkpoint_cannot_be_the_beginning(tmp_path):
  workdir.keep_config(config(tmp_path, 'elsewhere'), str(tmp_path))
  c = config(tmp_path, '')
  c.init = str(tmp_path)
  with errors.raises(ValueError, 'model.path'):
    workdir.same_model(c)


@pytest.mark.parametrize(
  ('field', 'value', 'said'),
  [
    ('rollout.turns', 3, 'rollout.turns 3'),
    ('plan', ['x'], 'plan x'),
    ('role', {}, 'role policy'),
    ('stages', 'x', 'stages'),
  ],
)
@pytest.mark.parametrize(
  'read',
  [
    lambda c, run: workdir.read_config(run),
    workdir.same_config,
    lambda c, run: workdir.keep_config(c, run),
    lambda c, run: weights.export(run, f'{run}/out'),
  ],
)
def test_a_run_of_another_version_is_refused(
  tmp_path, field, value, said, read
):
  """In one sentence that names the field, whoever reads its folder."""
  c = config(tmp_path, '')
  workdir.keep_config(c, str(tmp_path))
  file = tmp_path / workdir.CONFIG
  kept = json.loads(file.read_text())
  *parts, last = field.split('.')
  place = functools.reduce(dict.get, parts, kept)
  if value is None:
    del place[last]
  else:
    place[last] = value
  file.write_text(json.dumps(kept))
  with errors.raises(ValueError, said) as caught:
    read(c, str(tmp_path))
  assert 'another --workdir' in str(caught.value)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize(
  ('lacking', 'other'),
  [
    ('model.attention', 'blocks'),
    ('lora', None),
    ('lora.rank', 4),
    ('env.oracle', 'rank'),
    ('hp.ppo.ppo.clip_low', 0.1),
  ],
)
def test_a_field_added_since_is_taken_to_be_its_default(
  tmp_path, lacking, other
):
  """A run of an older version goes on, unless the new field is used."""
  c = validate.config(config_file.load('grpo:tiny'))
  workdir.keep_config(c, str(tmp_path))
  file = tmp_path / workdir.CONFIG
  kept = json.loads(file.read_text())
  *parts, last = lacking.split('.')
  del functools.reduce(dict.get, parts, kept)[last]
  file.write_text(json.dumps(kept))
  workdir.same_config(c, str(tmp_path))
  there = fields.flat(workdir.read_config(str(tmp_path)))
  if not lacking.startswith(('env.', 'hp.')):  # whose packages may be away
    assert there[lacking if other else f'{lacking}.rank'] is not None
  if other:
    with errors.raises(ValueError, lacking):
      changed = fields.changed(c, {lacking: other})
      workdir.same_config(changed, str(tmp_path))


@pytest.mark.parametrize(
  'elsewhere',
  [
    {'reward': ['module_gone:fn']},
    {'loss': ['object:mine-1a2b3c4d']},
    {'env': {'name': 'module_gone:Family', 'size': 3}},
    {'hp': {'episode': 5}},
  ],
)
def test_a_run_is_read_where_its_parts_are_not(tmp_path, elsewhere):
  """Dashboards and exports read runs of other programs."""
  c = validate.config(config_file.load('grpo:tiny'))
  workdir.keep_config(c, str(tmp_path))
  file = tmp_path / workdir.CONFIG
  kept = json.loads(file.read_text())
  del kept['lora']['rank']  # and of an older version
  file.write_text(json.dumps(kept | elsewhere))
  read = workdir.read_config(str(tmp_path))
  assert read.lora.rank == c.lora.rank
  name, held = next(iter(elsewhere.items()))
  assert json.loads(workdir.text_of(read))[name] == held
  with errors.raises(ValueError, name):
    workdir.same_config(c, str(tmp_path))


@pytest.mark.parametrize(
  ('there', 'here', 'changes', 'named'),
  [
    # A world brings settings of its own, which differ because of it.
    ('grpo:tiny', 'grpo:tiny,env=countdown', {}, 'env.name'),
    ('grpo:tiny,env=countdown', 'grpo:tiny,env=frozen_lake', {}, 'env.name'),
    ('grpo:tiny', 'oprl:tiny', {}, 'method'),
    ('grpo:tiny', 'oprl:tiny,env=countdown', {}, 'env.name'),
    ('grpo:tiny', 'grpo:tiny', {'model.width': 8, 'data': 'x'}, 'model.width'),
    ('grpo:tiny', 'grpo:tiny', {'steps': 8, 'data': 'x'}, 'data'),
  ],
)
def test_what_others_follow_from_is_named_first(
  tmp_path, there, here, changes, named
):
  workdir.keep_config(config_file.load(there), str(tmp_path))
  c = config_file.load(here)
  c.update_from_flattened_dict(changes)
  with errors.raises(ValueError, f'config.{named}'):
    workdir.same_config(c, str(tmp_path))


@pytest.mark.parametrize('method', ['', 'mine', 'my.own', 'grpo', 'a:b'])
def test_a_method_may_bring_nothing(method):
  workdir.bring_components(method)


def test_a_run_that_is_read_again_has_the_components_of_its_method(monkeypatch):
  for name in ('configs.oprl_degraded', 'lab.papers.dose.degraded_truth'):
    monkeypatch.delitem(sys.modules, f'agentrl.{name}', raising=False)
  assert dose.degraded_truth is degraded_truth  # it comes back after the test
  monkeypatch.delattr(dose, 'degraded_truth')
  monkeypatch.setattr(registry, '_PIECES', dict(registry._PIECES))
  del registry._PIECES['signal', 'degraded_truth']
  workdir.bring_components('oprl_degraded')
  assert 'degraded_truth' in registry.names('signal')
