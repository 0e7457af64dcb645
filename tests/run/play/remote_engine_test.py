"""A generator on another machine: what is refused, and the same run."""

import json
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.log import metrics
from agentrl.model import policy
from agentrl.nn import transformer
from agentrl.run import config_file, runner
from agentrl.run.play import remote_engine
from agentrl.text import tokenizer
from agentrl.types import Rows
from tests import errors
from tests.run.small_configs import countdown

WORDS = tokenizer.Embedded()
REMOTE = {
  'host__generator': 'http://localhost:1',
  'host__generator_model': 'm',
  'host__generator_folder': 'weights',
}


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'host__generator': 'localhost:1'}, 'host.generator localhost:1'),
    ({'host__generator_model': ''}, 'host.generator_model'),
    ({'host__generator_folder': ''}, 'host.generator_folder'),
    ({'host__generator_kind': 'vllm'}, 'vllm lora.rank'),
    ({'rollout__top_k': 5}, 'rollout.top_k 5 host.generator'),
    ({'rollout__top_p': 0.9}, 'rollout.top_p 0.9 host.generator'),
  ],
)
def test_generators_that_cannot_be_used(changes, names):
  with errors.raises(ValueError, names):
    remote_engine.validate(countdown(**(REMOTE | changes)))


def test_one_that_can_and_none_at_all():
  remote_engine.validate(countdown(**REMOTE))
  c = countdown()
  remote_engine.validate(c)
  assert not remote_engine.wanted(c)


def test_who_tokenises_the_prompt_again_reads_fewer_tokens():
  ids = remote_engine.prompt(WORDS)
  assert WORDS.decode(ids) == remote_engine.PROMPT
  assert len(WORDS.encode(remote_engine.PROMPT)) < len(ids)


@pytest.mark.slow
def test_log_probs_are_those_of_the_learner():
  shape = transformer.DecoderConfig(
    vocab=WORDS.vocab_size,
    width=16,
    layers=2,
    heads=2,
    kv_heads=2,
    head_dim=8,
    mlp=32,
  )
  module = policy.module(shape, temperature=0.5)
  params = mesh.init(module.specs, jax.random.key(0))
  context, ids = [20, 21, 22], [30, 31]
  got = remote_engine.log_probs(shape, params, context, ids, 0.5)
  sampled = np.array([[False] * 3 + [True] * 2])
  zero = np.zeros((1, 5), np.int32)
  rows = Rows(
    tokens=np.array([[*context, *ids]], np.int32),
    seg=zero,
    traj=zero,
    turn=zero,
    span=zero.astype(np.int8),
    sampled=sampled,
    weight=sampled.astype(np.float32),
    logp=zero.astype(np.float32),
    version=zero,
  )
  want = module.apply(params, rows, ('logp',)).logp[0, 3:]
  np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.nightly
def test_a_faithful_server_trains_as_this_process_does(tmp_path):
  """Another process: sampled tokens are equal, numbers to float tolerance."""
  weights = tmp_path / 'weights'
  first = small(tmp_path)
  first.steps = 1
  runner.run(first, str(tmp_path / 'first'))
  command = [sys.executable, '-m', 'experiments.serve']
  command += [f'm={tmp_path / "first"}', '--nokey', f'--updates={weights}']
  root = pathlib.Path(__file__).parents[3]
  with subprocess.Popen(
    command, cwd=root, stdout=subprocess.PIPE, text=True
  ) as server:
    try:
      line = server.stdout.readline()
      address = line.split(' at ')[-1].split('/v1')[0]
      rows = {}
      for name in ('local', 'remote'):
        c = small(tmp_path)
        c.init, c.stages = str(tmp_path / 'first'), ('rl',)
        if name == 'remote':
          c.host.generator = address
          c.host.generator_model, c.host.generator_folder = 'm', str(weights)
        runner.run(c, str(tmp_path / name))
        read = metrics.read(str(tmp_path / name / 'metrics.jsonl'))
        rows[name] = [x for x in read if x.get('phase') == 'rl']
    finally:
      server.terminate()
  assert len(rows['local']) == len(rows['remote']) == 2
  for a, b in zip(rows['local'], rows['remote'], strict=True):
    assert b['logp/sampler_mismatch_max'] < 5e-5
    assert a['policy/grad_norm'] > 0
    for name in ('loss/total', 'policy/grad_norm'):
      np.testing.assert_allclose(a[name], b[name], rtol=2e-3, atol=1e-5)
  texts = {name: said(tmp_path / name) for name in rows}
  assert texts['local'] == texts['remote']
  assert any(map(any, texts['local']))


def small(tmp_path):
  c = countdown()
  c.data = str(tmp_path / 'data')
  c.steps, c.sft.steps, c.eval.episodes, c.eval.every = 2, 20, 4, 0
  c.log.groups, c.log.every = -1, 1
  c.reward = ('outcome', 'priced')  # which differs between all trajectories
  config_file.fill(c)
  c.hp.reward.priced.due_from = 0.0
  return c


def said(run):
  """What the policy said in each logged trajectory of training."""
  files = sorted((run / 'trajectories').glob('*.jsonl'))
  lines = [json.loads(x) for f in files for x in f.read_text().splitlines()]
  return [
    [turn['said'] for turn in x['turns']] for x in lines if x['phase'] == 'rl'
  ]
