"""A service writes about groups of a run, and later attempts read it."""

import json

import numpy as np
import pytest

from agentrl import Run
from agentrl.configs import base, grpo
from agentrl.run.play import writing
from agentrl.text.tokenizer import Embedded
from tests import errors
from tests.run import small_configs


def tell(messages, *, seed):
  """Notes how many attempts it saw, and what number the first had."""
  del seed
  text = messages[-1].content
  count = text.count('Attempt ')
  return json.dumps([{'op': 'ADD', 'text': f'saw {count}'}, {'op': 'DANCE'}])


def config(tmp_path, **memory):
  c = small_configs.two_layers(grpo.get_config('tiny,env=countdown'), tmp_path)
  c.memory, c.recall = ('texts',), 'nearest'
  base.hp(c, 'memory', 'texts', capacity=4, tokens=12, **memory)
  base.hp(c, 'recall', 'nearest', k=2, tokens=24, least=-1.0)
  c.curate, c.steps, c.sft.steps = (), 3, 0
  return base.fill(c)


def test_texts_that_a_bank_begins_with_are_whole_and_not_alike():
  tokenizer = Embedded()
  given = dict(first=('abcd', 'dcba'), tokens=4, merge=1.0)
  writing.check(given, tokenizer)
  writing.check({}, tokenizer)
  with errors.raises(ValueError, 'hp.memory.texts.tokens 3 4 abcd'):
    writing.check(given | dict(tokens=3), tokenizer)
  near = dict(first=('aaab', 'aaaa'), merge=0.5)
  with errors.raises(ValueError, 'hp.memory.texts.merge 0.5 aaab aaaa'):
    writing.check(given | near, tokenizer)


def test_a_text_that_an_entry_has_no_room_for_ends_a_run_at_once(tmp_path):
  hp = dict(write='service', service='writer', first=('x' * 13,))
  c = config(tmp_path, **hp)
  base.service(c, 'writer', function='tests.run.play.writing_test:tell')
  with (
    errors.raises(ValueError, 'hp.memory.texts.tokens 12 13'),
    Run(base.fill(c), workdir=str(tmp_path / 'run')) as run,
  ):
    next(iter(run))


@pytest.mark.nightly
def test_what_a_service_writes_is_read(tmp_path):
  c = config(tmp_path, write='service', service='writer', contrast=False)
  base.service(c, 'writer', function='tests.run.play.writing_test:tell')
  seen = []
  with Run(c, workdir=str(tmp_path / 'run')) as run:
    for _, state, metrics in run:
      seen.append((metrics, state.memory['texts']))
    words = run.experiment.tokenizer
  first, last = seen[0], seen[-1]
  assert first[0]['rollout/noted'] == 0
  assert last[0]['rollout/noted'] == 1
  assert last[0]['rollout/refused'] == c.rollout.batch // c.rollout.group_size
  bank = last[1]
  text = words.decode(np.asarray(bank.tokens)[0, : int(bank.length[0])])
  assert text == f'saw {c.rollout.group_size}'
  assert int(np.sum(np.asarray(bank.length) > 0)) == 1  # the same text


@pytest.mark.slow
@pytest.mark.nightly
def test_a_service_writes_what_is_not_read(tmp_path):
  c = config(tmp_path, write='service', service='writer', contrast=False)
  base.service(c, 'writer', function='tests.run.play.writing_test:tell')
  c.recall = 'none'
  del c.hp['recall']
  with Run(base.fill(c), workdir=str(tmp_path / 'run')) as run:
    steps = list(run)
  for _, _, metrics in steps:
    assert 'rollout/noted' not in metrics
    assert metrics['rollout/refused'] > 0
  assert steps[-1][2]['texts/entries'] == 1
