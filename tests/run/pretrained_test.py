"""Runs of a checkpoint: its tokenizer, its shape, its weights, and back."""

import contextlib
import os
import pathlib

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.configs import grpo
from agentrl.learner import update
from agentrl.log import metrics
from agentrl.model import hf_config, hf_weights, peft
from agentrl.nn import lora, transformer
from agentrl.rollout.engine import engine
from agentrl.run import (
  algorithm,
  build,
  describe,
  pretrained,
  runner,
  weights,
  workdir,
)
from agentrl.text import tokenizer
from tests import checkpoints, errors
from tests.run.small_configs import checkpoint as config


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
  path = tmp_path_factory.mktemp('checkpoint')
  checkpoints.tokenizer(path)
  return str(checkpoints.model(path))


@pytest.fixture(scope='module')
def ran(directory, tmp_path_factory):
  """A run of three steps of imitation and two of reinforcement."""
  root = tmp_path_factory.mktemp('run')
  runner.run(config(root / 'data', directory), str(root / 'run'))
  return str(root / 'run')


@contextlib.contextmanager
def refused(tmp_path, names):
  """In one sentence, before anything is made."""
  with errors.raises(ValueError, names) as caught:
    yield
  assert '\n' not in str(caught.value)
  assert not (tmp_path / 'data').exists()


def test_the_checkpoint_says_what_the_model_is(directory, tmp_path):
  c = config(tmp_path, directory)
  c.model.update(dict(remat='layer', dtype='bfloat16', width=7))
  words, shape, _ = pretrained.language(c)
  theirs = hf_config.shape(hf_config.read(directory))
  assert (shape.width, shape.bias, shape.positions) == (32, True, 0)
  assert (shape.remat, shape.dtype) == ('layer', 'bfloat16')
  assert shape.vocab == words.vocab_size == theirs.vocab == 384
  assert words.decode([words.eot]) == '<|im_end|>'
  assert pretrained.outline(c, directory).shape == shape


def test_an_export_has_the_texts_of_its_checkpoint(
  directory, tmp_path, monkeypatch
):
  c = config(tmp_path, directory)
  shape = pretrained.language(c).shape
  params = hf_weights.read(directory, shape)
  monkeypatch.setattr(weights, 'policy', lambda *_: params)
  workdir.keep_config(c, str(tmp_path / 'run'))
  weights.export(str(tmp_path / 'run'), str(tmp_path / 'out'))
  for name in ('tokenizer.json', 'tokenizer_config.json'):
    theirs = pathlib.Path(directory, name).read_bytes()
    assert (tmp_path / 'out' / name).read_bytes() == theirs


@pytest.mark.nightly
def test_two_steps(ran, directory):
  rows = metrics.read(os.path.join(ran, 'metrics.jsonl'))
  steps = [r for r in rows if r['phase'] == 'rl']
  assert [r['step'] for r in steps] == [4, 5]
  for r in steps:
    assert 0 < r['rollout/turns'] <= 2
    assert r['logp/sampler_mismatch_max'] < 1e-5
  assert workdir.read_config(ran).model.path == directory


def test_the_policy_begins_with_the_weights(directory, tmp_path):
  c = config(tmp_path, directory)
  learner = algorithm.make_algorithm(c, pretrained.language(c).shape)
  drawn = update.init(learner, jax.random.key(0))
  policy = weights.start(c, pretrained.language(c).shape)
  begun = weights.load_policy_params(learner, policy, drawn)
  want = hf_weights.read(directory, pretrained.language(c).shape)
  jax.tree.map(np.testing.assert_array_equal, begun.params['policy'], want)


@pytest.mark.nightly
def test_exported_and_read_again(ran, directory, tmp_path):
  out = tmp_path / 'out'
  weights.export(ran, str(out))
  c = config(tmp_path, out)
  words, shape, _ = pretrained.language(c)
  assert shape == pretrained.language(config(tmp_path, directory)).shape
  assert words.encode('up left') == (
    tokenizer.HuggingFace(directory).encode('up left')
  )
  _, state = weights.load(workdir.read_config(ran), shape, ran)
  learned = hf_weights.read(out, shape)
  jax.tree.map(np.testing.assert_array_equal, learned, state.params['policy'])
  begun = hf_weights.read(directory, shape)
  assert any(
    np.any(np.asarray(a) != b)
    for a, b in zip(*map(jax.tree.leaves, (learned, begun)), strict=True)
  )


def test_a_tokenizer_of_more_tokens_than_the_embedding(tmp_path):
  checkpoints.tokenizer(tmp_path)
  checkpoints.model(tmp_path, vocab_size=64)
  with refused(tmp_path, '64'):
    build.experiment(config(tmp_path / 'data', tmp_path))


@pytest.mark.parametrize(
  ('file', 'message'),
  [
    ('config.json', 'config.json'),
    ('model.safetensors', 'safetensors'),
    ('tokenizer.json', 'tokenizer.json'),
  ],
)
def test_a_file_that_is_missing(tmp_path, file, message):
  checkpoints.model(checkpoints.tokenizer(tmp_path))
  (tmp_path / file).unlink()
  with refused(tmp_path, message):
    build.experiment(config(tmp_path / 'data', tmp_path))


def test_actions_longer_than_a_message(tmp_path, directory):
  checkpoints.model(checkpoints.tokenizer(tmp_path, words=('up',)))
  with errors.raises(ValueError, '6'):
    build.experiment(config(tmp_path / 'data', tmp_path))


@pytest.fixture
def opened(monkeypatch):
  """Files of weights that were opened, and stages of the run that began."""
  events = []

  def refuse(*args, **kwargs):
    raise AssertionError('too late: weights are read, or the run has begun')

  def open_file(file, original=hf_weights._open_file):
    events.append(file.name)
    return original(file)

  monkeypatch.setattr(hf_weights, '_open_file', open_file)
  monkeypatch.setattr(hf_weights, '_place', refuse)
  monkeypatch.setattr(update, 'init', refuse)
  monkeypatch.setattr(engine.Engine, '__init__', refuse)
  return events


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'rollout.max_message_tokens': 1}, '2'),
    (
      {'rollout.action_prefix': ' ', 'rollout.max_message_tokens': 9},
      'action_prefix up',
    ),
    (
      {'rollout.history': 'full', 'rollout.context': 30, 'micro_batch': 8},
      'context 30',
    ),
  ],
)
def test_sizes_are_checked_before_weights_are_opened(
  directory, tmp_path, opened, changes, message
):
  c = config(tmp_path / 'data', directory)
  c.update_from_flattened_dict(changes)
  with errors.raises(ValueError, message):
    runner.run(c, str(tmp_path / 'run'))
  assert not opened
  assert not (tmp_path / 'data').exists()


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'max_message_tokens': 8}, ''),
    ({'max_turns': 1}, '2 rollout.max_turns 1'),
  ],
)
def test_demonstrations_are_checked_before_weights_are_read(
  tmp_path, opened, changes, message
):
  path = checkpoints.model(checkpoints.chat(tmp_path / 'model', 'chatml'))
  c = grpo.get_config(f'tiny,env=countdown,checkpoint={path}')
  c.data, c.sft.steps = str(tmp_path / 'data'), 2
  c.env.update(dict(train=4, test=2))
  c.rollout.update(changes)
  with errors.raises(ValueError, message):
    runner.run(c, str(tmp_path / 'run'))
  assert set(opened) == {'model.safetensors'}  # its header
  assert not (tmp_path / 'run').exists()


@pytest.fixture(scope='module')
def adapted(directory, tmp_path_factory):
  """A config that begins from an adapter, and that adapter."""
  root = tmp_path_factory.mktemp('adapter')
  c = config(root / 'data', directory)
  c.lora.update(
    dict(rank=2, alpha=4.0, pattern='q|down', path=str(root / 'adapter'))
  )
  shape = pretrained.language(c).shape
  what = lora.Lora(2, 4.0, 'down|q')  # other words for the same matrices
  specs = lora.specs(what, transformer.specs(shape)['layers'])
  rng = np.random.default_rng(0)
  wrote = jax.tree.map(
    lambda p: np.float32(rng.normal(size=p.shape)), specs, is_leaf=mesh.is_param
  )
  peft.write(c.lora.path, shape, what, wrote)
  return c, shape, wrote


def test_the_policy_begins_with_an_adapter(adapted):
  c, shape, wrote = adapted
  build.experiment(c)
  learner = algorithm.make_algorithm(c, shape)
  drawn = update.init(learner, jax.random.key(0))
  begun = weights.load_policy_params(learner, weights.start(c, shape), drawn)
  same = np.testing.assert_array_equal
  jax.tree.map(same, begun.params['policy'], {'lora': wrote})
  jax.tree.map(same, begun.params['base'], hf_weights.read(c.model.path, shape))


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'lora.rank': 4}, 'rank 2 4 c.lora lora.rank'),
    ({'lora.alpha': 8.0}, '2 alpha 8 lora.alpha 4'),
    ({'lora.pattern': 'q|v'}, 'lora.pattern q'),
    ({'lora.rank': 0}, 'lora.rank 0'),
    ({'init': 'elsewhere'}, 'init elsewhere'),
    ({'lora.path': 'nowhere'}, 'adapter_config.json'),
  ],
)
def test_an_adapter_that_does_not_fit(adapted, tmp_path, changes, message):
  c = adapted[0].copy_and_resolve_references()
  c.data = str(tmp_path / 'data')
  c.update_from_flattened_dict(changes)
  with refused(tmp_path, message):
    build.experiment(c)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'chat_format': 'chatml'}, 'rollout.chat_format chatml'),
    ({'chat_format': 'chat'}, 'chat'),
    ({'system': 'Play.'}, '--config.rollout.system'),
    ({'system': 'Play.', 'chat_format': 'bare'}, 'system Play'),
  ],
)
def test_a_frame_that_is_not_there(directory, tmp_path, changes, message):
  c = config(tmp_path / 'data', directory)
  c.micro_batch = 8
  c.rollout.update(changes)
  with refused(tmp_path, message):
    build.experiment(c)


def test_a_chat_frame_needs_a_checkpoint(tmp_path):
  c = config(tmp_path / 'data', '')
  c.rollout.chat_format = 'chat'
  with errors.raises(ValueError, 'model.path'):
    build.experiment(c)
  c.rollout.update(dict(chat_format='auto', system='Play.'))
  with errors.raises(ValueError, 'model.path rollout.chat_format'):
    build.experiment(c)


def test_a_nulled_turn_of_a_framed_history(tmp_path):
  checkpoints.model(checkpoints.chat(tmp_path, 'chatml'))
  c = config(tmp_path / 'data', tmp_path)
  c.micro_batch = 8
  c.rollout.update(dict(history='full', null_observation='nothing'))
  s = build.experiment(c)
  later, after = (
    x.tolist() for x in (s.world.frame.later, s.world.frame.after)
  )
  said = s.tokenizer.encode('nothing')
  assert s.nulled == ((*later, *said, *after), s.tokenizer.eot)


def test_how_a_checkpoint_is_read_is_told(directory, tmp_path):
  c = config(tmp_path, directory)
  c.model.update(dict(remat='layer', attention='chunked', dtype='bfloat16'))
  s = build.experiment(c)
  tokens = s.world.env.obs_len + 2
  assert describe.header(s, 'run')['computing'] == (
    f'attention chunked over rows of {tokens} tokens, remat layer, bfloat16,'
    ' chat_format bare'
  )
