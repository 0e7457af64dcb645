"""Host environments in a config: what fits, and one sentence for what not."""

import json

import jax
import pytest

from agentrl.configs import grpo
from agentrl.env import base
from agentrl.lab.capacity import hardware, report
from agentrl.run import build, pretrained
from agentrl.run.play import host_env
from agentrl.text import tokenizer
from agentrl.text.chat_template import Message
from tests import checkpoints, errors
from tests.run.small_configs import countdown as config


def test_a_setup(tmp_path):
  s = build.experiment(config(data=str(tmp_path)))
  assert (len(s.train), len(s.test)) == (8, 4)
  assert s.world.tasks == [*s.train.tasks, *s.test.tasks]
  assert s.capacity.row == s.plan.context == 3 * (24 + 32)
  assert s.capacity.context == s.plan.width == 24
  again = build.experiment(config(data=str(tmp_path)))
  assert again.train.keys == s.train.keys
  messages = host_env.messages(s.config, s.tokenizer, s.train.demonstration)
  for said, texts in zip(messages, s.train.demonstration, strict=True):
    assert [s.tokenizer.decode(m[:-1]) for m in said] == texts
    assert all(m[-1] == s.tokenizer.eot for m in said)


@pytest.mark.parametrize('name', sorted(base.FAMILIES))
def test_every_family_has_a_config(name):
  c = grpo.get_config(f'env={name}')
  assert c.rollout.kind == 'host'
  assert base.of(c.env.to_dict()).name()


@pytest.mark.parametrize(
  ('changes', 'sentence'),
  [
    (dict(host__max_observation_tokens=3), 'host.max_observation_tokens 3'),
    (dict(rollout__null_observation='x' * 24), 'null_observation 25 24'),
    (dict(rollout__kind='options'), 'options countdown'),
    (dict(rollout__kind='jit'), 'jit countdown'),
    (dict(rollout__context=30), 'rollout.context 30'),
    (dict(model__positions=64), 'model.positions 64'),
    (dict(env__train=10**6), ''),
    (dict(micro_batch=7), 'micro_batch 7'),
  ],
)
def test_mistakes(tmp_path, changes, sentence):
  with errors.raises(ValueError, sentence):
    build.experiment(config(data=str(tmp_path), **changes))


def test_processes_share_the_slots(monkeypatch):
  """Each has an engine of its own, with its share of the caches."""
  c = config()
  c.rollout.slots = 12
  for processes in (1, 2, 4):
    monkeypatch.setattr(jax, 'process_count', lambda n=processes: n)
    assert host_env.sizes(c, 100).slots == 12 // processes


def test_unknown_names():
  with errors.raises(ValueError, 'env moon'):
    grpo.get_config('env=moon')
  with errors.raises(ValueError, 'moon:Base'):
    grpo.get_config('env=moon:Base')
  with errors.raises(ValueError, 'env.name moon'):
    base.find('moon')


def test_demonstrations_that_do_not_fit():
  c, words = config(), tokenizer.Embedded()
  with errors.raises(ValueError, '41'):
    host_env.messages(c, words, [['x' * 40]])
  with errors.raises(ValueError, '4'):
    host_env.messages(c, words, [['x'] * 4])


def test_a_plan_is_of_the_same_sizes(tmp_path):
  c = config(data=str(tmp_path))
  s, known = build.experiment(c), report.language(c)
  work = report.work(c, known)
  assert (work.read, work.tokens, work.capacity) == s.capacity
  assert work.rows == c.rollout.batch
  assert report.estimate(c, hardware.parse('v5e-4'), known).memory.peak > 0


def test_a_file_of_prompts_has_what_it_has(tmp_path):
  path = tmp_path / 'prompts.jsonl'
  rows = [{'prompt': f'{i} + 1?', 'answer': i + 1} for i in range(20)]
  path.write_text('\n'.join(map(json.dumps, rows)))
  c = grpo.get_config('env=jsonl')
  c.data = str(tmp_path / 'data')
  c.env.update(dict(path=str(path), verifier='numeric', test=2))
  s = build.experiment(c)
  texts = {task['text'] for task in s.world.tasks}
  assert len(s.train) > 10
  assert len(s.test) == 2
  assert texts <= {row['prompt'] for row in rows}
  assert len(texts) == len(s.train) + 2


def test_system_messages_of_the_config_and_of_the_environment(tmp_path):
  checkpoints.model(checkpoints.chat(tmp_path, 'chatml'))
  c = config(data=str(tmp_path / 'data'), env__teach=True)
  c.model.path, c.rollout.system = str(tmp_path), 'Reason first.'
  c.host.max_observation_tokens = 64
  words, _, chat = pretrained.language(c)
  both = host_env.sized(c, words, chat)
  assert both.system.startswith('Reason first.\nGiven "target: numbers"')
  c.rollout.system = ''
  one = host_env.sized(c, words, chat)
  longer = both.plan.opening - one.plan.opening
  assert longer >= len(words.encode('Reason first.'))


@pytest.mark.parametrize('name', ['commons', 'negotiation', 'norms'])
def test_seats_have_system_texts_and_room_for_demonstrations(tmp_path, name):
  c = grpo.get_config(f'tiny,env={name}')
  c.data = str(tmp_path)
  c.env.update(dict(train=6, test=4, teach=True))
  s = build.experiment(c)
  family = s.world.family
  assert s.seats == len(family.seat_names) == len({*s.world.systems})
  for seat, text in zip(family.seat_names, s.world.systems, strict=True):
    assert text.startswith(family.system)
    assert text.endswith(family.seat_system(seat))
    shown = s.talk.start([Message('system', text)])
    assert len(shown.ids) <= s.plan.opening
  demos = s.train.demonstration
  assert host_env.messages(s.config, s.tokenizer, demos, seats=s.seats)
  # What is read first is shown in full.
  for task in s.world.tasks:
    told = json.loads(family.env().reset(task, 0))['text']
    heard = len(s.tokenizer.encode(told)) + 1
    assert heard <= s.plan.observation
    assert told.startswith(family.describe(task))
