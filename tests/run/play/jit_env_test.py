"""Environments inside jit for a run: what fits, and a sentence for what not."""

import numpy as np

from agentrl.configs import grpo, hiper
from agentrl.run import build
from agentrl.run.play import jit_env
from agentrl.text import tokenizer
from tests import errors


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
