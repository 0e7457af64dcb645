"""Runs as objects: stepped, resumed, asked."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import agentrl as rl
from agentrl.runtime import objects
from tests import errors
from tests.run import small_configs
from tests.run.config_objects_test import Guess

SMALL = small_configs.SMALL | {
  'steps': 2,
  'sft.steps': 1,
  'rollout.group_size': 4,
  'rollout.max_turns': 2,
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


HOSTED = {x: y for x, y in SMALL.items() if not x.startswith(('sft', 'env'))}
HOSTED |= {
  'stages': ('rl',),
  'steps': 1,
  'rollout.max_turns': 1,
  'rollout.max_message_tokens': 2,
  'host.max_observation_tokens': 24,
  'eval.episodes': 4,
}


@pytest.mark.slow
def test_a_run_of_python_objects_is_trained_and_loaded(tmp_path, monkeypatch):
  """A reward of trajectories stands on their last turn; rewards are summed."""
  seen = []

  def verifier(completion, row):
    seen.append(row['answer'])
    return len(completion) % 2, {'said': len(completion)}

  rows = [{'prompt': f'{i} + 1?', 'answer': i + 1} for i in range(30)]
  changes = HOSTED | {'data': str(tmp_path / 'data'), 'env.info': 'said'}
  with rl.Run(
    'grpo:tiny',
    workdir=str(tmp_path),
    changes=changes,
    rows=rows,
    verifier=verifier,
    reward=['env', lambda x: x.outcome, lambda x: 0.25 * x.turns.valid],
  ) as run:
    policy, before = run.policy, jax.device_get(run.policy.params)
    told = [metrics for _, _, metrics in run]
  assert set(seen) <= {row['answer'] for row in rows}
  assert 0 < told[0]['rollout/success'] < 1
  assert told[0]['rollout/return'] == 2 * told[0]['rollout/success'] + 0.25
  assert policy is run.policy
  monkeypatch.setattr(objects, '_KEPT', {})  # as in another program
  loaded = rl.Policy.load(str(tmp_path))
  jax.tree.map(np.testing.assert_array_equal, policy.params, loaded.params)
  same = jax.tree.map(np.array_equal, before, loaded.params)
  assert not any(jax.tree.leaves(same))
  samples = [x.sample(['3 + 1?'], n=2, max_tokens=3) for x in (policy, loaded)]
  assert samples[0] == samples[1]
  asked = [{'role': 'user', 'content': '3 + 1?'}]  # as lines, as in the run
  assert loaded.sample([asked])[0].prompt == loaded.tokenizer.encode('3 + 1?\n')


@pytest.mark.slow
def test_the_policy_of_a_run_whose_environment_is_gone(tmp_path, monkeypatch):
  @dataclasses.dataclass(frozen=True)
  class Own(Guess):
    pass

  changes = HOSTED | {'data': str(tmp_path / 'data'), 'env.train': 8}
  changes |= {'env.test': 4}
  with rl.Run(
    'grpo:tiny', workdir=str(tmp_path), changes=changes, env=Own(span=2)
  ) as run:
    held, seen = run.policy, []
    for _ in run:
      seen.append(held.sample(['A number?'], max_tokens=2))
  monkeypatch.setattr(objects, '_KEPT', {})
  loaded = rl.Policy.load(str(tmp_path))
  assert seen == [loaded.sample(['A number?'], max_tokens=2)]


def test_mistakes_of_a_run_are_sentences(tmp_path):
  with errors.raises(ValueError, 'oprll'):
    rl.Run('oprll', workdir=str(tmp_path))
  with errors.raises(ValueError, 'stepz'):
    rl.Run('oprl:tiny', workdir=str(tmp_path), changes={'stepz': 1})
  closed = rl.Run('oprl:tiny', workdir=str(tmp_path))
  with errors.raises(ValueError, 'open'):
    next(iter(closed))
  with errors.raises(ValueError, 'open'):
    closed.policy.generate('up')
