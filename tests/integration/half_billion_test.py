"""A decoder of Qwen2.5-0.5B's shape goes through the loop: slow and correct."""

import json

import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.log import metrics
from agentrl.run import runner
from tests import checkpoints

CONFIG = dict(
  model_type='qwen2',
  architectures=['Qwen2ForCausalLM'],
  vocab_size=151_936,
  hidden_size=896,
  intermediate_size=4864,
  num_hidden_layers=24,
  num_attention_heads=14,
  num_key_value_heads=2,
  tie_word_embeddings=True,
  rope_theta=1e6,
  rms_norm_eps=1e-6,
  hidden_act='silu',
  initializer_range=0.02,
  max_position_embeddings=32_768,
  dtype='bfloat16',
)


@pytest.mark.nightly
def test_real_training_steps(tmp_path):
  """Two steps of Sokoban in bfloat16 from config.json and a tokenizer alone."""
  directory = tmp_path / 'model'
  checkpoints.tokenizer(directory)
  (directory / 'config.json').write_text(json.dumps(CONFIG))
  c = grpo.get_config('tiny')
  c.model.update(
    dict(path=str(directory), random=True, dtype='bfloat16', remat='layer')
  )
  c.rollout.update(dict(batch=4, group_size=2, slots=4, max_turns=2))
  c.env.update(dict(train=16, test=4))
  c.update(dict(data=str(tmp_path / 'data'), steps=2, micro_batch=2))
  c.loss = (*c.loss, 'entropy')  # a gradient even if nothing is solved
  c.hp.minibatch.minibatches.n = 1  # so that what sampled is what is trained
  c.sft.steps, c.eval.episodes = 0, 4
  runner.run(c, str(tmp_path / 'run'))
  rows = [
    r
    for r in metrics.read(str(tmp_path / 'run' / 'metrics.jsonl'))
    if r['phase'] == 'rl'
  ]
  assert [r['step'] for r in rows] == [1, 2]
  for r in rows:
    assert r['logp/sampler_mismatch'] < 2e-2, r['logp/sampler_mismatch']
    assert np.isfinite(r['loss/total'])
    assert r['policy/grad_norm'] > 0
