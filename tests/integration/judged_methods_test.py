"""Methods of composed and judged rewards, two real updates in their worlds."""

import importlib

import numpy as np
import pytest

from agentrl.configs import base
from agentrl.log import metrics
from agentrl.run import runner
from agentrl.runtime import install

pytest.importorskip('bm25s', reason=install.command('host'))

# Configs whose reward is composed of what their own world tells.
COMPOSED = (
  'agent0', 'agent_rlvr', 'agentmath_partial', 'artist', 'atom_searcher',
  'calibration',
  'chatshop', 'compaction_rl', 'cpr_norms', 'deep_dxsearch', 'doctor_r1',
  'evinote_rag', 'evolver', 'marag_r1', 'memact_dcpo', 'mira', 'oni', 'pae',
  'oni_learned', 'prs',
  'recoworld', 'shop_r1',
  'chatshop_dcpo', 'cleaner', 'polar', 'prs_vspo', 'verltool',
  'smartsnap', 'speakrl', 'ssp', 'statefactory', 'swe_trace', 'tool_star',
  'toolorchestra', 'toolpo', 'toolrl',
)  # fmt: skip
# Of these, one for each way a reward is composed; the others: nightly.
DAILY = 'compaction_rl', 'polar', 'tool_star', 'toolrl'
# Those that need a score of every turn, with what a service would answer.
JUDGED = {
  'adca': 'attribution',
  'adca_allocation': 'attribution',
  'barfi': 'number',
  'cm2': 'checklist',
  'mira': 'milestones',
  'ppr': 'number',
  'vpr': 'grade',
  'vpr_turn': 'potential',
}
# Of these, one for each shape of an answer; the others: nightly.
DAILY_JUDGED = 'cm2', 'vpr'
LIST = ('Is there a call?', 'Is it short?')


def answered(messages, *, seed):
  """An answer in the form that the question asks for, from its length."""
  prompt = messages[-1].content
  kind, turns = len(prompt) % 3, prompt.count('[assistant]')
  if 'good' in prompt and '1: good' in prompt:
    words = ('good', 'bad')
    return '\n'.join(
      f'{k}: {words[(k + kind) % 2]}' for k in range(1, turns + 1)
    )
  if '"1: 3"' in prompt:
    return f'1: {1 + kind % turns}\n2: never'
  if '"1: yes"' in prompt:
    return f'1: {"yes" if kind else "no"}\n2: yes'
  if 'Answer with one of' in prompt:
    return 'ABC'[kind]
  return f'0.{kind + 3}'


def small(c, folder):
  c.update(dict(data=str(folder / 'data'), steps=2, micro_batch=4))
  c.env.update(dict(train=16, test=4))
  c.rollout.update(dict(batch=8, group_size=4, slots=4))
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.sft.update(dict(steps=1, batch=4))
  c.eval.episodes = 4
  c.hp.minibatch.minibatches.n = 1
  for stage in c.stage.values():
    stage.steps = 1
  return c


def updates(c, folder):
  """Metrics of the RL steps."""
  runner.run(c, str(folder))
  rows = metrics.read(str(folder / 'metrics.jsonl'))
  rl = [r for r in rows if r['phase'] == 'rl' and 'loss/total' in r]
  assert len([r for r in rl if r.get('stage', 'rl') == 'rl']) == 2
  for r in rl:
    assert np.isfinite(r['loss/total'])
    assert not r['policy/nonfinite_skips']
    assert not [name for name in r if 'fault/' in name]
  return rl


@pytest.mark.parametrize(
  'method',
  [
    pytest.param(
      m, marks=pytest.mark.slow if m in DAILY else pytest.mark.nightly
    )
    for m in COMPOSED
  ],
)
def test_two_updates_in_the_world_of_the_method(tmp_path, method):
  module = importlib.import_module(f'agentrl.configs.{method}')
  c = small(module.get_config('tiny'), tmp_path)
  for stage in c.stage.values():
    stage.steps = 2
  if c.rollout.kind == 'jit':
    c.micro_batch, c.sft.batch = 8, 8
  if 'players' in c.env:
    c.env.players = 2  # so that a group is two matches
  if 'annotations' in c.memory:  # whose labels come in the second update then
    c.hp.memory.annotations.lag = 1
  *_, last = rl = updates(c, tmp_path / 'run')
  for name in c.judge:
    assert last[f'rollout/judge/{name}/items'] > 0
    assert not any(r[f'rollout/judge/{name}/unscored'] for r in rl)


@pytest.mark.slow
@pytest.mark.parametrize(
  ('env', 'error'),
  [
    ('countdown', 0.2),
    pytest.param('hidden_slots', 0.0, marks=pytest.mark.nightly),
    pytest.param('countdown', 0.0, marks=pytest.mark.nightly),
    pytest.param('hidden_slots', 0.2, marks=pytest.mark.nightly),
  ],
)
@pytest.mark.parametrize(
  'method',
  [
    pytest.param(m, marks=() if m in DAILY_JUDGED else pytest.mark.nightly)
    for m in JUDGED
  ],
)
def test_two_updates_by_a_judge_of_turns(tmp_path, method, env, error):
  module = importlib.import_module(f'agentrl.configs.{method}')
  form = JUDGED[method]
  c = small(module.get_config(f'tiny,env={env},judged={form}'), tmp_path)
  c.service.judge.function = f'{__name__}:answered'
  if form in ('checklist', 'milestones'):
    base.hp(c, 'judge', form, questions=LIST)
  if method == 'cm2':
    c.hp.turn.require_members.least = 3
  c.judging.flip = error
  for r in updates(c, tmp_path / 'run'):
    assert r[f'rollout/judge/{form}/items'] > 0
    assert r[f'rollout/judge/{form}/unscored'] == 0
    assert 0 < r['rollout/judged'] < 1
