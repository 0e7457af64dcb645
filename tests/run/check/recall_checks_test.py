"""What cannot read a memory of texts, and what cannot write one, is refused."""

import pytest

from agentrl.configs import base, grpo
from agentrl.recall import base as recall_base
from agentrl.run.check import recall_checks, validate
from tests import errors


def config(arg='tiny,env=countdown', **memory):
  c = grpo.get_config(arg)
  c.memory, c.recall = ('texts',), 'nearest'
  base.hp(c, 'memory', 'texts', **memory)
  return base.fill(c)


def test_it_fits():
  validate.config(config())
  validate.config(config('tiny'))


@pytest.mark.parametrize(
  ('change', 'says'),
  [
    (dict(memory=()), 'recall nearest memory:texts'),
    (
      dict(collect='partial', task='partial', memory=('texts', 'unfinished')),
      'recall none collect partial',
    ),
  ],
)
def test_it_is_refused(change, says):
  c = config()
  for name, value in change.items():
    c[name] = value
  c.staleness.anchor = 'behaviour'
  with errors.raises(ValueError, says):
    validate.config(base.fill(c))


def test_texts_that_a_bank_begins_with_have_a_service_and_places():
  hp = dict(write='service', service='writer', operations=2, capacity=3)
  c = config(**hp, first=('a', 'b'))
  base.service(c, 'writer', function='tests.run.play.writing_test:tell')
  validate.config(c)
  for change, says in (
    (dict(operations=1), 'hp.memory.texts.first operations 2'),
    (dict(capacity=2), 'hp.memory.texts.capacity first 2'),  # none is added
    (dict(first=('a', ' a\n')), 'hp.memory.texts.first a'),
  ):
    c.hp.memory.texts.update(hp | dict(first=('a', 'b')) | change)
    with errors.raises(ValueError, says):
      validate.config(c)
  c.hp.memory.texts.first = ('a', 'b')
  with errors.raises(ValueError, 'hp.memory.texts.first solution'):
    validate.config(config(first=('a',)))
  with errors.raises(ValueError, 'hp.memory.texts.first'):
    validate.config(config(first=('',)))
  c.hp.memory.texts.update(hp | dict(every=2))
  c.recall = 'observed'
  c.rollout.history = 'turn'
  with errors.raises(ValueError, 'hp.memory.texts.every 1 observed 2'):
    validate.config(base.fill(c))


def test_turns_read_on_hosts_alone():
  c = config()
  c.recall = 'observed'
  base.fill(c)
  for history, fits in (('turn', True), ('full', True), ('edit', False)):
    c.rollout.history = history
    if fits:
      validate.config(c)
      continue
    with errors.raises(ValueError, 'rollout.history recall observed edit'):
      validate.config(c)
  c.rollout.history = 'turn'
  base.reading(c, 'hinted', source='memory')
  with errors.raises(ValueError, 'reading.hinted.source recall observed'):
    validate.config(c)
  inside = config('tiny')
  inside.recall = 'observed'
  with errors.raises(ValueError, 'recall env.name sokoban observed'):
    validate.config(base.fill(inside))


def test_who_asks_a_memory_has_messages_that_ask():
  def asks(world):
    c = config(f'tiny,env={world}')
    c.recall = 'observed'
    base.fill(c).hp.recall.observed.every = 'asked'
    return c

  with errors.raises(ValueError, 'hp.recall.observed.every countdown asked'):
    validate.config(asks('countdown'))
  c = asks('fact_corpus')
  with errors.raises(ValueError, 'hp.recall.observed.every fact_corpus asked'):
    validate.config(c)  # whose tool is off
  c.env.experience = True
  validate.config(c)
  c.reward = ('weighted',)
  base.hp(c, 'reward', 'weighted', terms=('note_match',), weights=(1.0,))
  validate.config(base.fill(c))
  c.recall = 'nearest'
  with errors.raises(ValueError, 'weighted note_match observed'):
    validate.config(base.fill(c))


def test_environments_that_describe_nothing_have_no_nearest():
  c = config('tiny,env=itinerary')
  with errors.raises(ValueError, 'env:described'):
    validate.config(c)
  c.recall = 'drawn'
  validate.config(base.fill(c))


@pytest.mark.parametrize(
  'memory',
  [dict(write='service'), dict(service='x'),
   dict(write='service', service='x')],
)  # fmt: skip
def test_who_writes_is_named(memory):
  with errors.raises(ValueError, 'hp.memory.texts.service'):
    validate.config(config(**memory))


def by_service(arg):
  c = config(arg, write='service', service='writer')
  base.service(c, 'writer', function='agentrl.env.worlds.door_codes:lesson')
  return c


def test_a_service_writes_where_it_sees_attempts():
  validate.config(by_service('tiny,env=countdown'))
  unread = by_service('tiny,env=countdown')
  unread.recall = 'none'  # a control: written, and not read
  validate.config(base.fill(unread))
  assert recall_base.told(base.wiring(unread)) == 'texts'
  assert not recall_base.told(base.wiring(config()))
  with errors.raises(ValueError, 'hp.memory.texts.service sokoban'):
    validate.config(by_service('tiny'))


def test_several_seeds_read_apart():
  plain = validate.config(grpo.get_config('tiny'))
  recall_checks.together([plain, plain])
  with errors.raises(ValueError, 'recall'):
    recall_checks.together([validate.config(config('tiny'))])
