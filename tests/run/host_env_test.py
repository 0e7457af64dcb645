"""Host environments in a config: what fits, and one sentence for what not."""

import pytest

from agentrl.capacity import hardware, report
from agentrl.configs import grpo
from agentrl.env import base
from agentrl.run import build, host_env, run_seeds
from agentrl.text import tokenizer


def config(arg='tiny,env=countdown', **changes):
  c = grpo.get_config(arg)
  c.env.update(dict(train=8, test=4))
  c.rollout.slots = 4
  for path, value in changes.items():
    node, names = c, path.split('__')
    for name in names[:-1]:
      node = node[name]
    node[names[-1]] = value
  return c


def test_a_setup(tmp_path):
  s = build.setup(config(data=str(tmp_path)))
  assert (len(s.train), len(s.test)) == (8, 4)
  assert s.world.tasks == [*s.train.tasks, *s.test.tasks]
  assert s.capacity.row == s.plan.context == 3 * (20 + 32)
  assert s.capacity.context == s.plan.width == 20
  again = build.setup(config(data=str(tmp_path)))
  assert again.train.keys == s.train.keys
  messages = host_env.messages(s.config, s.tokenizer, s.train.said)
  for said, texts in zip(messages, s.train.said, strict=True):
    assert [s.tokenizer.decode(m[:-1]) for m in said] == texts
    assert all(m[-1] == s.tokenizer.eot for m in said)


def test_by_turns(tmp_path):
  changes = dict(rollout__history='turn', rollout__window=2, micro=16)
  s = build.setup(config(data=str(tmp_path), **changes))
  assert s.capacity.context == 2 * 20 + 32
  assert s.capacity.row == 2 * (20 + 32)


@pytest.mark.parametrize('name', sorted(base.FAMILIES))
def test_every_family_has_a_config(name):
  c = grpo.get_config(f'env={name}')
  assert c.rollout_kind == 'host'
  assert base.of(c.env.to_dict()).name()


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    (dict(host__heard=3), r'host\.heard=3 tokens cannot even say'),
    (dict(host__burst=0), r'host\.burst=0 is too low; set it to 1 or more'),
    (dict(host__seconds=0.0), r'host\.seconds=0\.0 is too low; set it to more'),
    (dict(host__sessions=-1), r'host\.sessions=-1 is too low; set it to 0 or'),
    (dict(host__place='moon'), r"host\.place='moon' is unknown"),
    (dict(rollout__nulled='x'), r"nulled='x'.*'countdown' do not make yet"),
    (dict(rollout_kind='options'), r"'options'.*'countdown'.*do not mark"),
    (dict(rollout_kind='jit'), r"'jit'.*'countdown'.*do not mark"),
    (dict(rollout__context=30), r'rollout\.context=30 tokens hold no first'),
    (dict(model__positions=64), r'model\.positions=64 and a row has'),
    (dict(env__numbers=9), r'env\.numbers=9 is too high.*from 2 to 5'),
    (dict(env__train=10**6), 'distinct train tasks turned up'),
    (dict(micro=7), r'micro=7 does not divide'),
  ],
)
def test_mistakes(tmp_path, changes, sentence):
  with pytest.raises(ValueError, match=sentence):
    build.setup(config(data=str(tmp_path), **changes))


def test_unknown_names():
  with pytest.raises(ValueError, match=r"argument 'env=moon' is unknown"):
    grpo.get_config('env=moon')
  with pytest.raises(ValueError, match="'moon:Base' names no family"):
    grpo.get_config('env=moon:Base')
  with pytest.raises(ValueError, match=r"env\.name='moon' is unknown"):
    base.find('moon')


def test_demonstrations_that_do_not_fit():
  c, words = config(), tokenizer.Embedded()
  with pytest.raises(ValueError, match='a message of 41 tokens'):
    host_env.messages(c, words, [['x' * 40]])
  with pytest.raises(ValueError, match='has 4 turns'):
    host_env.messages(c, words, [['x'] * 4])


def test_a_plan_is_of_the_same_sizes(tmp_path):
  c = config(data=str(tmp_path))
  s, known = build.setup(c), report.language(c)
  work = report.work(c, known)
  assert (work.read, work.tokens, work.capacity) == s.capacity
  assert work.rows == c.rollout.batch
  assert report.estimate(c, hardware.parse('v5e-4'), known).memory.peak > 0


def test_runs_do_not_go_together():
  with pytest.raises(ValueError, match='only those inside jit go together'):
    run_seeds.alike([config(), config()])
