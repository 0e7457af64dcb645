"""Environments inside jit for a run: what fits, and a sentence for what not."""

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from agentrl.configs import envs, grpo, hiper
from agentrl.env.jit import bifurcation
from agentrl.run import build
from agentrl.run.check import fields
from agentrl.run.play import jit_env
from agentrl.text import chat_template, tokenizer
from tests import checkpoints, errors


@dataclasses.dataclass(frozen=True)
class Forks(bifurcation.Bifurcations):
  """A family of a user."""

  columns: ClassVar[tuple[str, ...]] = bifurcation.Bifurcation.columns
  system: ClassVar[str] = 'Choose a direction.'
  worker: ClassVar[str] = 'jit'

  def env(self):
    return bifurcation.env_for(self)


@dataclasses.dataclass(frozen=True)
class Clash(Forks):
  """Its column has the name of a term of every record."""

  columns: ClassVar[tuple[str, ...]] = ('tokens',)


FORKS, CLASH = (f'{__name__}:{x}' for x in ('Forks', 'Clash'))


@pytest.mark.parametrize(
  ('name', 'inside'),
  [
    ('sokoban', True),
    ('countdown', False),
    (FORKS, True),
    ('agentrl.env.worlds.countdown:Countdown', False),
  ],
)
def test_a_family_says_whether_it_is_compiled(name, inside):
  assert envs.in_jit(name) == inside


def test_a_family_of_a_user_has_its_settings_and_terms():
  c = grpo.get_config(f'tiny,env={FORKS}')
  assert (c.rollout.kind, c.env.length, c.env.train) == ('jit', 5, 500)
  c.env.length = 3
  source, env = jit_env.environment(c)
  assert source.length == env.length == 3
  assert envs.terms(c) == bifurcation.Bifurcation.columns
  c.env.name = CLASH
  with errors.raises(ValueError, 'tokens'):
    jit_env.sized(fields.read(c), tokenizer.Embedded(), None)


def test_its_system_text_is_read_before_the_first_observation(tmp_path):
  checkpoints.chat(tmp_path, 'chatml')
  chat = chat_template.load(tmp_path)
  c = grpo.get_config(f'tiny,env={FORKS}')
  c.rollout.system, c.rollout.max_message_tokens = 'Think.', 16
  c = fields.read(c)
  spec = jit_env.sized(c, chat.words, chat)
  assert spec.system == 'Think.\nChoose a direction.'
  assert spec.system in chat.words.decode(spec.world.frame.first)
  assert jit_env.sized(c, tokenizer.Embedded(), None).system == 'Think.'


def test_what_demonstrations_say():
  words, c = tokenizer.Embedded(), hiper.get_config('tiny')
  said = jit_env.spoken(c, words, ('left', 'up'))
  text = [words.decode(x) for x in said]
  assert text == [
    f'{word}{a}>{a}<eot>' for word in ('no', 'yes') for a in ('left', 'up')
  ]
  assert {len(x) for x in said} == {c.rollout.max_message_tokens}


def test_a_word_of_several_tokens_is_refused():
  words, c = tokenizer.Embedded(), hiper.get_config('tiny')
  c.hp.rollout.options.switch = 'switch'
  with errors.raises(ValueError, 'options.switch switch 6'):
    jit_env.spoken(c, words, ('left',))


def test_a_run_that_would_never_end_is_refused():
  c = grpo.get_config('tiny,env=bifurcation')
  c.env.length = 7
  with errors.raises(ValueError, 'env.length 7 rollout.max_turns 6'):
    build.experiment(c)


def test_task_sets_of_one_task_are_as_large_as_those_of_the_config():
  c = grpo.get_config('tiny,env=frozen_lake')
  c.env.train, c.env.test = 5, 3
  spec = jit_env.sized(c, tokenizer.Embedded(), None)
  sets = jit_env.repeated_task_sets(c, spec.source)
  assert [len(x) for x in sets] == [5, 3]
  one = next(iter(spec.source.tasks('train', 1, c.env.seed)))
  for x, n in zip(sets, (5, 3), strict=True):
    assert set(x.keys) == {one.key}
    for got, want in ((x.actions, one.actions), *pairs(x.tasks, one.task)):
      np.testing.assert_array_equal(got, [want] * n)


def pairs(x, y):
  return [(x[name], y[name]) for name in y]
