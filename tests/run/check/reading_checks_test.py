"""Readings that cannot be, and teachers that have nothing to tell."""

import importlib

import pytest

from agentrl.configs import base, grpo
from agentrl.run.check import validate


def lake(**fields):
  c = grpo.get_config('tiny,env=frozen_lake')
  base.reading(c, 'hinted', **fields)
  return c


@pytest.mark.parametrize(
  ('fields', 'sentence'),
  [
    (dict(source='moon'), r"reading\.hinted\.source='moon' is unknown"),
    (dict(source='task'), r"\.field='' of env\.name='frozen_lake' names none"),
    (dict(field='x'), r"field='x' is for source 'task'"),
    (dict(failed='x'), r"failed='x' is for source 'outcome'"),
    (
      dict(shift=2),
      r"shift=2 takes the hint of another task, and source 'text",
    ),
    (dict(max_tokens=-1), r'max_tokens=-1 is too low'),
  ],
)
def test_mistakes(fields, sentence):
  with pytest.raises(ValueError, match=sentence):
    validate.config(lake(**fields))


def test_names_that_are_taken_and_groups_of_one():
  c = lake()
  base.reading(c, 'own', text='x')
  with pytest.raises(ValueError, match=r'reading\.own is called like'):
    validate.config(c)
  c = lake(source='solution')
  c.rollout.group_size = 1
  with pytest.raises(ValueError, match='another attempt at the task'):
    validate.config(c)
  c.rollout.group_size = 2
  validate.config(c)


@pytest.mark.parametrize(
  ('method', 'at', 'changes', 'sentence'),
  [
    (
      'opd',
      'signal.reference',
      dict(role='policy'),
      r'signal\.reference\.role must not be the policy',
    ),
    (
      'gkd',
      'distillation.distillation',
      dict(role='policy'),
      'must not be the policy',
    ),
    (
      'gkd',
      'distillation.distillation',
      dict(reading='nulled'),
      "must have the first message .* got 'nulled'",
    ),
    (
      'opd',
      'signal.reference',
      dict(reading='hinted'),
      r'needs reading:hinted, .*add it to c\.reading',
    ),
  ],
)
def test_a_teacher_is_another_one(method, at, changes, sentence):
  c = importlib.import_module(f'agentrl.configs.{method}').get_config('tiny')
  c.rollout.null_observation = 'nothing'
  scope, piece = at.split('.')
  c.hp[scope][piece].update(changes)
  with pytest.raises(ValueError, match=sentence):
    validate.config(c)


@pytest.mark.parametrize(
  ('arg', 'fields', 'sentence'),
  [
    (
      'env=countdown',
      dict(source='solution'),
      "of source 'solution', which",
    ),
    ('env=countdown', dict(source='outcome'), "of source 'outcome', which"),
    ('env=countdown', None, 'needs reading:guidance'),
    ('env=frozen_lake', dict(text='x'), 'needs env:hints'),
  ],
)
def test_hints_that_no_attempt_can_be_sampled_behind(arg, fields, sentence):
  c = grpo.get_config(f'tiny,{arg}')
  c.collect = 'hinted_retry'
  if fields is not None:
    base.reading(c, 'guidance', **fields)
  with pytest.raises(ValueError, match=sentence):
    validate.config(base.fill(c))
