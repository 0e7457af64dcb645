"""SmolLM2-135M with its real weights: read, sampled, served, trained, exported.

Skipped where its package is not installed.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax.numpy as jnp
import numpy as np
import pytest

import agentrl as rl
from agentrl.model import hf_config, hf_weights
from agentrl.serve import serving
from agentrl.text import tokenizer
from tests import smollm2

pytestmark = [pytest.mark.slow, smollm2.installed]
ROOT = pathlib.Path(__file__).parents[2]
ENGLISH = (
  'The sun rises in the east and sets in the west. Water boils when it is'
  ' heated, and freezes when it is cold enough. Paris is the capital of France.'
)


@pytest.fixture(scope='module')
def policy():
  return rl.Policy.load('smollm2')


def test_it_is_the_language_model_that_it_was(policy):
  """English is likely, its words in another order are not."""
  words = np.random.default_rng(0).permutation(ENGLISH.split())
  shuffled = ' '.join(words)
  bos = policy.tokenizer.decode([policy.tokenizer.bos])
  plain, mixed = policy.logp([bos] * 2, [ENGLISH, shuffled])
  assert -3.5 < plain.mean() < -2.0
  assert mixed.mean() < plain.mean() - 2.0
  said = policy.generate(
    [{'role': 'user', 'content': 'What is the capital of France?'}],
    max_tokens=24,
    temperature=0,
  )
  assert 'Paris' in said, said


def test_the_template_is_that_of_transformers(policy):
  said = [
    {'role': 'user', 'content': 'Say <|im_end|> twice.'},
    {'role': 'assistant', 'content': 'No.'},
    {'role': 'user', 'content': 'Why?'},
  ]
  folder = hf_weights.locate('smollm2')
  words = tokenizer.HuggingFace(folder)
  (sample,) = policy.sample([said], max_tokens=1)
  text = words.render(said, ask=True)
  assert policy.tokenizer.decode(sample.prompt) == text
  # The user's own literal is text: three turns and the default system's end.
  assert sample.prompt.count(words.eot) == 4
  assert text.startswith('<|im_start|>system\n')


@pytest.mark.parametrize(
  ('dtype', 'mean', 'most'),
  [
    ('float32', 1e-5, 1e-4),
    pytest.param('bfloat16', 0.1, 1.0, marks=pytest.mark.nightly),
  ],
)
def test_sampler_and_learner_agree(dtype, mean, most, policy):
  if dtype != 'float32':
    policy = rl.Policy.load('smollm2', dtype=dtype)
  prompts = [ENGLISH[:n] for n in (20, 60, 110)]
  samples = policy.sample(prompts, n=2, max_tokens=40)
  again = policy.logp([x.prompt for x in samples], [x.ids for x in samples])
  gaps = [np.abs(x.logp - y) for x, y in zip(samples, again, strict=True)]
  assert max(x.max() for x in gaps) < most
  assert np.concatenate(gaps).mean() < mean


@pytest.mark.nightly
def test_prefixes_are_reused_and_change_nothing(policy):
  begun = (ENGLISH + ' ') * 8
  prompts = [begun + x for x in ('So', 'But', 'And then', 'Since')]
  together = policy.sample(prompts, max_tokens=8, seed=1)
  for prompt, x in zip(prompts, together, strict=True):
    (alone,) = policy.sample([prompt], max_tokens=8, seed=1)
    assert alone.ids == x.ids
    np.testing.assert_allclose(alone.logp, x.logp, atol=1e-4)


@pytest.mark.nightly
def test_a_context_of_8192_tokens(policy):
  ids = policy.tokenizer.encode((ENGLISH + '\n') * 400)[: 8192 - 8]
  (sample,) = policy.sample([ids], max_tokens=8)
  (again,) = policy.logp([ids], [sample.ids])
  np.testing.assert_allclose(sample.logp, again, atol=1e-3)
  # What stands at the beginning is still seen: the text is a repetition.
  (late,) = policy.logp([ids[:-40]], [ids[-40:]])
  assert late.mean() > -0.5


@pytest.mark.nightly
def test_a_client_streams_stops_and_calls_a_tool():
  openai = pytest.importorskip('openai')
  models = serving.load_all({'smollm2': 'smollm2'}, context=512, message=48)
  with serving.opened(models, slots=4) as gateway:
    client = openai.OpenAI(
      base_url=f'{gateway.address}/v1', api_key=gateway.key
    )
    ask = dict(
      model='smollm2',
      messages=[{'role': 'user', 'content': 'Count from one to ten.'}],
      max_tokens=40,
      temperature=0,
    )
    chat = client.chat.completions
    whole = chat.create(**ask).choices[0]
    parts = [
      x.choices[0].delta.content or ''
      for x in chat.create(**ask, stream=True)
      if x.choices
    ]
    assert ''.join(parts) == whole.message.content
    word = whole.message.content.split()[2]
    cut = chat.create(**ask, stop=[word]).choices[0]
    assert cut.finish_reason == 'stop'
    assert cut.message.content == whole.message.content.split(word)[0]
    tools = [
      {
        'type': 'function',
        'function': {
          'name': 'add',
          'description': 'Adds two numbers.',
          'parameters': {
            'type': 'object',
            'properties': {'a': {'type': 'number'}, 'b': {'type': 'number'}},
          },
        },
      }
    ]
    called = [
      {'role': 'user', 'content': 'What is 2 + 3?'},
      {
        'role': 'assistant',
        'content': None,
        'tool_calls': [
          {
            'id': 'a',
            'type': 'function',
            'function': {'name': 'add', 'arguments': '{"a": 2, "b": 3}'},
          }
        ],
      },
      {'role': 'tool', 'tool_call_id': 'a', 'content': '5'},
    ]
    told = chat.create(
      model='smollm2',
      messages=called,
      tools=tools,
      max_tokens=24,
      temperature=0,
    ).choices[0]
    assert told.message.content or told.message.tool_calls


def command(module: str, *args: str) -> list[str]:
  return [sys.executable, '-m', f'experiments.{module}', *args]


def rows_of(folder: pathlib.Path, phase: str) -> list[dict]:
  lines = (folder / 'metrics.jsonl').read_text().splitlines()
  return [x for x in map(json.loads, lines) if x['phase'] == phase]


@pytest.mark.nightly
def test_it_is_trained_killed_resumed_and_exported(tmp_path):
  """An adapter on sums: two supervised steps, then three of GRPO."""
  folder, out = tmp_path / 'run', tmp_path / 'exported'
  train = command(
    'train',
    '--config=configs/grpo.py:checkpoint=smollm2,lora=4,env=jsonl',
    f'--workdir={folder}',
    '--config.env.path=examples/sums.jsonl',
    '--config.env.verifier=numeric',
    f'--config.data={tmp_path / "data"}',
    '--config.rollout.batch=8',
    '--config.micro_batch=8',
    '--config.rollout.group_size=4',
    '--config.rollout.max_message_tokens=4',
    '--config.sft.steps=2',
    '--config.sft.batch=8',
    '--config.steps=3',
    '--config.eval.episodes=4',
    '--config.checkpoint.every=1',
    '--config.loss=("ppo","entropy")',
  )
  begun = subprocess.Popen(train, cwd=ROOT, start_new_session=True)
  while begun.poll() is None and not _saved(folder, 3):
    time.sleep(0.2)
  assert begun.poll() is None
  os.killpg(begun.pid, signal.SIGKILL)
  begun.wait()
  subprocess.run(train, cwd=ROOT, check=True)
  steps = [x['step'] for x in rows_of(folder, 'rl')]
  assert steps == [3, 4, 5]
  for row in rows_of(folder, 'rl'):
    assert np.isfinite(row['loss/total'])
    assert row['logp/sampler_mismatch'] < 1e-4
  export = command('export', f'--workdir={folder}', f'--out={out}')
  subprocess.run(export, cwd=ROOT, check=True)
  shape = hf_config.shape(hf_config.read(out))
  merged = hf_weights.read(out, shape)
  base = hf_weights.read(hf_weights.locate('smollm2'), shape)
  moved = jnp.abs(merged['layers']['q'] - base['layers']['q']).max()
  assert 0 < moved < 0.1
  np.testing.assert_array_equal(merged['embed'], base['embed'])
  policy, run = rl.Policy.load(str(out)), rl.Policy.load(str(folder))
  ids = policy.tokenizer.encode('12 + 30 = ?')
  np.testing.assert_allclose(
    policy.logp([ids], ['42'])[0], run.logp([ids], ['42'])[0], atol=1e-4
  )


def _saved(folder: pathlib.Path, step: int) -> bool:
  return (folder / 'checkpoints' / str(step)).exists()
