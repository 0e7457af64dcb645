"""Readings that cannot be, and teachers that have nothing to tell."""

import importlib

import pytest

from agentrl.configs import base, grpo
from agentrl.run.check import validate
from tests import errors


def lake(**fields):
  c = grpo.get_config('tiny,env=frozen_lake')
  base.reading(c, 'hinted', **fields)
  return c


@pytest.mark.parametrize(
  ('fields', 'sentence'),
  [
    (dict(source='moon'), 'reading.hinted.source moon'),
    (dict(source='task'), 'field of env.name frozen_lake'),
    (dict(field='x'), 'field x task'),
    (dict(failed='x'), 'failed x outcome'),
    (dict(shift=2), 'shift 2'),
    (dict(max_tokens=-1), 'max_tokens -1'),
  ],
)
def test_mistakes(fields, sentence):
  with errors.raises(ValueError, sentence):
    validate.config(lake(**fields))


def test_names_that_are_taken_and_groups_of_one():
  c = lake()
  base.reading(c, 'own', text='x')
  with errors.raises(ValueError, 'reading.own'):
    validate.config(c)
  c = lake(source='solution')
  c.rollout.group_size = 1
  with pytest.raises(ValueError):
    validate.config(c)
  c.rollout.group_size = 2
  validate.config(c)


def test_what_is_recalled_can_be_read():
  c = lake(source='memory')
  with errors.raises(ValueError, 'reading.hinted.source memory recall none'):
    validate.config(c)
  c.memory, c.recall = ('texts',), 'ucb'
  validate.config(base.fill(c))
  c.reading.hinted.text = 'Seen:'
  with errors.raises(ValueError, 'reading.hinted.text heading Seen:'):
    validate.config(c)


@pytest.mark.parametrize(
  ('method', 'at', 'changes', 'sentence'),
  [
    ('opd', 'signal.reference', dict(role='policy'), 'policy'),
    ('gkd', 'distillation.distillation', dict(role='policy'), ''),
    ('gkd', 'distillation.distillation', dict(reading='nulled'), 'nulled'),
    (
      'opd',
      'signal.reference',
      dict(reading='hinted'),
      'reading:hinted c.reading',
    ),
  ],
)
def test_a_teacher_is_another_one(method, at, changes, sentence):
  c = importlib.import_module(f'agentrl.configs.{method}').get_config('tiny')
  c.rollout.null_observation = 'nothing'
  scope, piece = at.split('.')
  c.hp[scope][piece].update(changes)
  with errors.raises(ValueError, sentence):
    validate.config(c)


@pytest.mark.parametrize(
  ('arg', 'fields', 'sentence'),
  [
    ('env=countdown', dict(source='solution'), 'source solution'),
    ('env=countdown', dict(source='outcome'), 'source outcome'),
    ('env=countdown', None, 'reading:guidance'),
    ('env=frozen_lake', dict(text='x'), 'env:hints'),
  ],
)
def test_hints_that_no_attempt_can_be_sampled_behind(arg, fields, sentence):
  c = grpo.get_config(f'tiny,{arg}')
  c.collect = 'hinted_retry'
  if fields is not None:
    base.reading(c, 'guidance', **fields)
  with errors.raises(ValueError, sentence):
    validate.config(base.fill(c))
