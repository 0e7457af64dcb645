"""What is said of fields that are none, and of values that do not fit."""

import pytest

from agentrl.run import config_file
from agentrl.run.check import field_hints, fields


def config():
  return config_file.fill(config_file.load('grpo:tiny'))


@pytest.mark.parametrize(
  ('path', 'named'),
  [
    ('lr', ["'role.policy.lr'", "'sft.lr'"]),
    ('role.lr', ["'role.policy.lr'"]),
    ('learning_rate', ["'role.policy.lr'"]),
    ('coef.kl', ["'kl_k1'", "'kl_k2'", "'kl_k3'", 'config.loss']),
    ('kl', ["'kl_k1'", 'config.loss']),
    ('coef.entropy', ["'entropy'"]),
    ('coef.kl_k3', ["'kl_k3'"]),
    ('rollout.temp', ["mean 'rollout.temperature'"]),
    ('temperature', ["'rollout.temperature'", "'eval.temperature'"]),
    ('group', ["'rollout.group_size'"]),
    ('batch_size', ["'rollout.batch'"]),
    ('max_tokens', ["'rollout.max_message_tokens'"]),
    ('max_turn', ["'rollout.max_turns'"]),
    ('gamma', ["'hp.episode.episode_return.gamma'"]),
    ('hp.clip_low', ["'hp.ppo.ppo.clip_low'"]),
    ('warm', ["'role.policy.warmup'"]),
    ('Boxes', ["'env.boxes'"]),
  ],
)
def test_a_field_is_found_wherever_it_stands(path, named):
  text = field_hints.near(config(), path)
  for words in named:
    assert words in text
  assert text in config_file.no_field(config(), path)


@pytest.mark.parametrize('path', ['nope', 'coef.zzz', 'x.y', '', '.', '_', 'é'])
def test_nothing_is_guessed_where_nothing_is_close(path):
  assert field_hints.near(config(), path) == ''


def test_every_field_is_found_by_its_last_name():
  c = config()
  for path in fields.flat(c):
    last = path.rpartition('.')[2]
    same = [x for x in fields.flat(c) if x.rpartition('.')[2] == last]
    if len(same) <= 3:
      assert repr(path) in field_hints.near(c, last)


@pytest.mark.parametrize(
  ('path', 'value', 'told'),
  [
    ('steps', 'ten', "must be an integer >= 0, got 'ten'"),
    ('rollout.max_turns', '1.5', ">= 1, got '1.5'"),
    ('role.policy.lr', 'fast', "a number >= 0, got 'fast'"),
    ('hp.ppo.ppo.clip_low', '', "> 0, or inf, got ''"),
    ('env.train', 'many', "an integer >= 1, got 'many'"),
    ('nope', '1', ''),
    ('hp.nope', '1', ''),
    ('hp.a.b.c', '1', ''),
  ],
)
def test_a_value_that_does_not_fit(path, value, told):
  text = field_hints.wrong_value(config(), path, value)
  assert text.endswith(told)
  assert bool(text) == bool(told)
