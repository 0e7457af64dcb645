"""Runs of a checkpoint: its tokenizer, its shape, its weights, and back."""

import json
import os

import checkpoints
import jax
import numpy as np
import pytest

from agentrl import learner as learner_lib
from agentrl import metrics
from agentrl.model import families, hf
from agentrl.text import tokenizer
from configs import grpo
from experiments import build, folder, pretrained, runner


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
  path = tmp_path_factory.mktemp('checkpoint')
  checkpoints.tokenizer(path)
  return str(checkpoints.model(path))


def config(folder, path):
  c = grpo.get_config('tiny')
  c.data = str(folder)
  c.model.path = str(path)
  c.steps, c.micro, c.sft.steps, c.sft.batch = 2, 16, 3, 8
  c.rollout.update(dict(batch=8, slots=8, turns=2))
  c.env.update(dict(train=16, test=4))
  c.eval.episodes = 8
  return c


@pytest.fixture(scope='module')
def ran(directory, tmp_path_factory):
  """A run of three steps of imitation and two of reinforcement."""
  root = tmp_path_factory.mktemp('run')
  runner.run(config(root / 'data', directory), str(root / 'run'))
  return str(root / 'run')


def test_the_checkpoint_says_what_the_model_is(directory, tmp_path):
  c = config(tmp_path, directory)
  c.model.update(dict(remat='layer', dtype='bfloat16', width=7))
  words, shape = pretrained.language(c)
  theirs = families.shape(families.read(directory))
  assert (shape.width, shape.bias, shape.positions) == (32, True, 0)
  assert (shape.remat, shape.dtype) == ('layer', 'bfloat16')
  assert shape.vocab == words.vocab_size == theirs.vocab == 384
  assert words.decode([words.eot]) == '<|im_end|>'


@pytest.mark.slow
def test_two_steps(ran, directory):
  rows = metrics.read(os.path.join(ran, 'metrics.jsonl'))
  steps = [r for r in rows if r['phase'] == 'rl']
  assert [r['step'] for r in steps] == [4, 5]
  for r in steps:
    assert 0 < r['rollout/turns'] <= 2
    assert r['logp/gap_max'] < 1e-5
  assert folder.read_config(ran).model.path == directory


def test_the_policy_begins_with_the_weights(directory, tmp_path):
  c = config(tmp_path, directory)
  learner = build.make_learner(c, pretrained.language(c).shape)
  drawn = learner_lib.init(learner, jax.random.key(0))
  policy = folder.start(c, pretrained.language(c).shape)
  begun = folder.adopt(learner, policy, drawn)
  want = hf.read(directory, pretrained.language(c).shape)
  jax.tree.map(np.testing.assert_array_equal, begun.params['policy'], want)


@pytest.mark.slow
def test_exported_and_read_again(ran, directory, tmp_path):
  out = tmp_path / 'out'
  folder.export(ran, str(out))
  c = config(tmp_path, out)
  words, shape = pretrained.language(c)
  assert shape == pretrained.language(config(tmp_path, directory)).shape
  assert words.encode('up left') == (
    tokenizer.HuggingFace(directory).encode('up left')
  )
  _, state = folder.load(folder.read_config(ran), shape, ran)
  learned = hf.read(out, shape)
  jax.tree.map(np.testing.assert_array_equal, learned, state.params['policy'])
  begun = hf.read(directory, shape)
  assert any(
    np.any(np.asarray(a) != b)
    for a, b in zip(*map(jax.tree.leaves, (learned, begun)), strict=True)
  )


def test_a_run_of_its_own_model_is_no_checkpoint(tmp_path):
  folder.keep_config(config(tmp_path, ''), str(tmp_path))
  with pytest.raises(ValueError, match=r'model of its own.*model\.path'):
    folder.export(str(tmp_path), str(tmp_path / 'out'))


def test_a_tokenizer_of_more_tokens_than_the_embedding(tmp_path):
  checkpoints.tokenizer(tmp_path)
  checkpoints.model(tmp_path, vocab_size=64)
  with pytest.raises(ValueError, match=r'ids up to \d+ .* has 64 rows; give'):
    build.setup(config(tmp_path / 'data', tmp_path))
  assert not (tmp_path / 'data').exists()


@pytest.mark.parametrize(('file', 'message'), [
  ('config.json', 'has no config.json; give a directory'),
  ('model.safetensors', 'has no .safetensors file; save'),
  ('tokenizer.json', 'cannot be read .* needs the tokenizer.json'),
])  # fmt: skip
def test_a_file_that_is_missing(tmp_path, file, message):
  checkpoints.model(checkpoints.tokenizer(tmp_path))
  (tmp_path / file).unlink()
  with pytest.raises(ValueError, match=message) as caught:
    build.setup(config(tmp_path / 'data', tmp_path))
  assert '\n' not in str(caught.value)
  assert not (tmp_path / 'data').exists()


def test_actions_longer_than_a_message(tmp_path, directory):
  checkpoints.model(checkpoints.tokenizer(tmp_path, words=('up',)))
  with pytest.raises(ValueError, match=r'takes 6 tokens.*set it to 6'):
    build.setup(config(tmp_path / 'data', tmp_path))


def test_a_run_of_another_checkpoint_cannot_be_the_beginning(tmp_path):
  folder.keep_config(config(tmp_path, 'elsewhere'), str(tmp_path))
  c = config(tmp_path, '')
  c.init = str(tmp_path)
  with pytest.raises(ValueError, match=r'another model: model\.path is'):
    folder.same_model(c)


def test_a_run_from_before_there_were_checkpoints_goes_on(tmp_path):
  c = config(tmp_path, '')
  folder.keep_config(c, str(tmp_path))
  path = tmp_path / folder.CONFIG
  old = json.loads(path.read_text())
  del old['model']['path']
  path.write_text(json.dumps(old))
  folder.same_config(c, str(tmp_path))
  assert folder.read_config(str(tmp_path)).model.path == ''
  with pytest.raises(ValueError, match=r'config\.model\.path'):
    folder.same_config(config(tmp_path, 'elsewhere'), str(tmp_path))
