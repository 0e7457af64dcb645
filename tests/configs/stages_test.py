"""Stages of a config: the config of each, and lists that cannot be."""

import dataclasses

import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl import registry
from agentrl.configs import (
  base,
  envs,
  grpo,
  memory_r1,
  stages,
  tablegpt_r1,
)
from agentrl.configs.sections import ServiceConfig
from agentrl.memory.task_statistics import TaskStatistics
from agentrl.run import build, config_file
from agentrl.run.check import validate
from agentrl.types import AttemptPlan
from tests import errors


def config(**of_stages):
  """A config with these stages: {name: its keyword arguments}."""
  c = grpo.get_config('tiny')
  for name, fields in of_stages.items():
    base.stage(c, name, **fields)
  c.stages = ('sft', *of_stages)
  return c


def test_every_config_has_two_stages():
  c = grpo.get_config('tiny')
  c.sft.steps, c.steps = 3, 5
  assert [x[:3] for x in stages.plans(c)] == [
    ('sft', 'sft', 3),
    ('rl', 'rl', 5),
  ]
  assert all(x.config is c for x in stages.plans(c))
  assert [x.name for x in stages.plans(c, ('sft',))] == ['sft']
  c.init = 'runs/warm'
  assert [x.name for x in stages.plans(c)] == ['rl']


def test_a_stage_is_the_config_with_its_changes():
  changes = {'rollout.temperature': 0.7, 'role.policy.lr': 1e-3}
  c = config(second={'steps': 4, 'changes': changes})
  before = c.to_json()
  new = stages.config_of(c, 'second')
  assert c.to_json() == before
  assert (new.steps, new.sft.steps) == (4, 0)
  assert new.stages == stages.OWN
  assert not new.stage
  assert (new.rollout.temperature, new.role.policy.lr) == (0.7, 1e-3)
  again = c.copy_and_resolve_references()
  again.update_from_flattened_dict(changes | {'steps': 4, 'sft.steps': 0})
  again.stages, again.stage = stages.OWN, ConfigDict()
  assert new.to_dict() == again.to_dict()
  fit = config(fit={'steps': 4, 'kind': 'sft'})
  assert stages.config_of(fit, 'fit').sft.steps == 4


def test_components_bring_their_hyper_parameters_and_take_them_along():
  changes = {
    'loss': ('nll',),
    'post': (),
    'stream.episode': ('episode_return',),
  }
  c = config(second={'steps': 4, 'changes': changes})
  falls = {'clip_low': ('linear', 0.2, 0.1, 0)}
  c.schedule.hp = ConfigDict({'ppo': {'ppo': falls}})
  c.hp.ppo.ppo.clip_low = 0.3
  new = stages.config_of(c, 'second')
  registry.check(base.wiring(new))
  assert 'ppo' not in new.hp
  assert new.coef.nll == 1.0
  assert 'ppo' not in new.coef
  assert not new.schedule.hp.ppo.ppo
  validate.config(c)
  # What a stage sets itself is checked and not left out.
  wrong = config(second={'steps': 4, 'changes': changes | {'coef.ppo': 2.0}})
  with errors.raises(ValueError, 'c.coef.ppo'):
    stages.config_of(wrong, 'second')


def test_another_environment_comes_with_its_settings():
  changes = {'env.name': 'countdown', 'env.train': 8, 'rollout.max_turns': 2}
  c = config(second={'steps': 4, 'changes': changes})
  new = stages.config_of(c, 'second')
  alone = grpo.get_config('tiny,env=countdown')
  assert new.env.to_dict() == alone.env.to_dict() | {'train': 8, 'test': 200}
  assert new.rollout.kind == 'host'
  assert new.host.to_dict() == alone.host.to_dict()
  assert new.rollout.max_turns == 2
  assert new.rollout.history == 'full'
  validate.config(c)


def test_a_stage_adds_and_leaves_out_services():
  c = memory_r1.get_config('tiny')
  played = {x: stages.config_of(c, x) for x in ('manager', 'answerer')}
  (asked,) = played['manager'].service.items()
  whole = dataclasses.asdict(ServiceConfig(role='other'))
  assert (asked[0], asked[1].to_dict()) == ('answerer', whole)
  assert list(played['answerer'].service) == ['manager']
  c.stage.answerer.env.manager = 'append'
  assert list(stages.config_of(c, 'answerer').service) == ['manager']
  c.stage.answerer.service.manager.role = ''
  assert not stages.config_of(c, 'answerer').service
  # What the environment asks stays, and lacks its source.
  c.stage.manager.service.answerer.role = ''
  assert list(stages.config_of(c, 'manager').service) == ['answerer']
  with errors.raises(ValueError, 'service.answerer.role'):
    build.experiment(stages.config_of(c, 'manager'))


WORLD = {'env.name': 'frozen_lake'}


def test_stages_that_play_alike_are_known():
  c = config(
    a={'steps': 1},
    b={'steps': 1, 'changes': {'loss': ('nll',), 'rollout.temperature': 0.5}},
    c={'steps': 1, 'changes': {'rollout.top_k': 3}},
    d={'steps': 1, 'changes': WORLD},
  )
  a, b, k, d = (stages.config_of(c, name) for name in 'abcd')
  assert stages.sampled(a) == stages.sampled(b)
  assert len({stages.sampled(x) for x in (a, k, d)}) == 3
  assert stages.world(a) == stages.world(k) != stages.world(d)


def third(kind='rl', **changes):
  """c -> c with a third stage of these changes, whose dots are __."""
  changes = {k.replace('__', '.'): v for k, v in changes.items()}
  return lambda c: base.stage(c, 'third', steps=1, kind=kind, changes=changes)


@pytest.mark.parametrize(
  ('make', 'match'),
  [
    (lambda c: c.update(stages=('sft', 'thrid')), 'thrid'),
    (lambda c: c.update(stages=('sft',)), 'stage.third'),
    (lambda c: base.stage(c, 'rl', steps=1), 'stage.rl'),
    (lambda c: base.stage(c, 'eval', steps=1), 'stage.eval'),
    (third(model__width=8), 'stage.third.model.width model model.width'),
    (third(seed=8), 'stage.third.seed'),
    (third(rollout__turns=8), 'third rollout.turns 8 max_turns'),
    (third(rollout__top_p=8.0), 'third rollout.top_p 8.0'),
    (third(kind='pairs'), 'stage.third.kind pairs'),
    (third(loss=('nl',)), 'third loss nl nll'),
    (third(coef__nll=2.0), 'third c.coef.nll'),
  ],
)
def test_lists_that_cannot_be_are_one_sentence(make, match):
  c = config(third={'steps': 1})
  make(c)
  with errors.raises(ValueError, match) as caught:
    validate.config(c)
  assert '\n' not in str(caught.value)


def test_a_stage_is_changed_by_path():
  c = config(third={'steps': 1})
  config_file.change(
    c,
    {'stage.third.rollout.temperature': 0.5, 'stage.third.steps': 2},
  )
  assert stages.config_of(c, 'third').rollout.temperature == 0.5
  assert stages.plans(c)[-1].steps == 2
  config_file.change(
    c, {'stage.third.coef.nll': 0.5, 'stage.third.loss': ('ppo', 'nll')}
  )
  assert stages.config_of(c, 'third').coef.nll == 0.5
  with errors.raises(ValueError, 'rollout.turns'):
    config_file.change(c, {'stage.third.rollout.turns': 3})


def test_tablegpt_r1_asks_more_and_harder_questions_from_stage_to_stage():
  c = tablegpt_r1.get_config('tiny')
  played = [x.config for x in stages.plans(c) if x.kind == 'rl']
  asked, sizes = [], []
  for x in played:
    tasks = [task for task, *_ in envs.family(x).tasks('train', 60, 0)]
    asked.append({task['kind'] for task in tasks})
    ruled = [len(task['gold']) for task in tasks if task['rule']]
    sizes.append(sum(ruled) / len(ruled))
  assert len(played) == 3
  assert asked[0] < asked[1] < asked[2]
  assert 'open' in asked[0]  # both ways of grading, from the first
  assert sizes == sorted(sizes)


def test_tablegpt_r1_leaves_alone_what_is_always_or_never_solved():
  c = tablegpt_r1.get_config('tiny')
  n, zero = 6, np.zeros(6)
  won = np.array([0, 24, 12, 15, 0, 24])  # of 24
  x = TaskStatistics(
    **dict.fromkeys(TaskStatistics.__dataclass_fields__, zero)
    | {'tried': zero + 24, 'won': won, 'attempts': zero + 24}
  )
  draw = registry.bind('task', c.task, c.hp.task[c.task])
  plan = AttemptPlan(n, group=8, batch=16, limit=2, seed=0, temperature=1.0)
  count = np.zeros(n)
  for step in range(40):
    count[draw(plan, {'task_statistics': x}, step).task[::8]] += 1
  assert count[[2, 3]].sum() > 0.8 * count.sum()
