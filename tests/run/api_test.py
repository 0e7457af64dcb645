"""Runs as objects: stepped, resumed, asked."""

import json

import pytest

import agentrl as rl
from tests import errors

SMALL = {
  'steps': 2,
  'sft.steps': 1,
  'sft.batch': 8,
  'micro_batch': 8,
  'model.layers': 1,
  'model.width': 16,
  'model.heads': 2,
  'model.kv_heads': 2,
  'model.head_dim': 8,
  'model.mlp': 32,
  'rollout.batch': 8,
  'rollout.slots': 8,
  'rollout.group_size': 4,
  'rollout.max_turns': 2,
  'env.train': 16,
  'env.test': 4,
  'eval.episodes': 16,
}


@pytest.mark.slow
def test_a_run_is_stepped_resumed_and_asked(tmp_path):
  """The warm start is step 1; a second run goes on where the first was left."""
  changes = SMALL | {'data': str(tmp_path / 'data')}
  seen = {}
  with rl.Run('grpo:tiny', workdir=str(tmp_path), changes=changes) as run:
    for step, state, metrics in run:
      seen[step] = metrics
      assert int(state.step) == step
      break
  with rl.Run('grpo:tiny', workdir=str(tmp_path), changes=changes) as run:
    rest = {step: metrics for step, _, metrics in run}
    text = run.policy.generate('3 4 + 2 =', max_tokens=8)
    again = run.policy.generate('3 4 + 2 =', max_tokens=8)
    other = run.policy.generate('3 4 + 2 =', max_tokens=8, seed=1)
    with pytest.raises(ValueError):
      run.policy.generate('')
  assert text == again != other
  assert (list(seen), list(rest)) == ([2], [3])
  lines = (tmp_path / 'metrics.jsonl').read_text(encoding='utf-8').splitlines()
  rows = [json.loads(line) for line in lines if '"rl"' in line]
  told = [(row['step'], row['rollout/success']) for row in rows]
  assert told == [(i, x['rollout/success']) for i, x in (seen | rest).items()]
  assert (tmp_path / 'summary.txt').exists()


def test_mistakes_of_a_run_are_sentences(tmp_path):
  with errors.raises(ValueError, 'oprll'):
    rl.Run('oprll', workdir=str(tmp_path))
  with errors.raises(ValueError, 'stepz'):
    rl.Run('oprl:tiny', workdir=str(tmp_path), changes={'stepz': 1})
  with pytest.raises(ValueError):
    next(iter(rl.Run('oprl:tiny', workdir=str(tmp_path))))
