"""A list of stages that is killed in each of them is the run that never was."""

import pytest

from agentrl.configs import base, grpo
from agentrl.dataset import run_log, trajectory_store
from agentrl.log import metrics
from agentrl.run import runner
from tests.integration.cut import after_row
from tests.integration.resume_test import SMALL
from tests.integration.same import assert_same_run
from tests.integration.same import rows as rows_of

STEPS = 10


def config(tmp_path):
  """Warm start, sampling, a fit on what was found, RL in another world."""
  c = grpo.get_config('tiny,env=frozen_lake')
  c.update_from_flattened_dict(SMALL)
  c.data = str(tmp_path / 'data')
  c.micro_batch = 8
  c.env.update(dict(height=3, width=3))
  c.sft.steps, c.checkpoint.every = 2, 2
  base.source(c, 'found', kind='found', edits=('subset',), weight=0.75)
  base.source(c, 'demos', weight=0.25)
  base.hp(c, 'found', 'subset', n=11)
  base.stage(c, 'explore', steps=2, changes={'minibatch': 'none'})
  base.stage(
    c,
    'fit',
    kind='sft',
    steps=3,
    changes={'sft.mix': ('found', 'demos'), 'sft.lr': 1e-3},
  )
  other = {'env.height': 2, 'rollout.temperature': 0.7, 'log.groups': 1}
  base.stage(c, 'other', steps=3, changes=other | {'loss': ('ppo', 'entropy')})
  c.stages = ('sft', 'explore', 'fit', 'other')
  c.log.groups = -1
  return base.finish(c)


def messages_of(x) -> tuple[bytes, ...]:
  return tuple(turn.message.tobytes() for turn in x.turns)


@pytest.mark.nightly
def test_killed_in_every_stage(tmp_path):
  c = config(tmp_path)
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  text = runner.run(c, whole)
  for at in (3, 6, 9):
    with after_row(at):
      runner.run(c, cut)
    assert rows_of(cut)[-1]['step'] == at
  runner.run(c, cut)
  assert_same_run(whole, cut, steps=STEPS)

  rows = metrics.read(f'{whole}/metrics.jsonl')
  trained = [x for x in rows if x['phase'] != 'eval']
  assert [(x['phase'], x.get('stage')) for x in trained] == [
    *[('sft', None)] * 2,
    *[('rl', 'explore')] * 2,
    *[('sft', 'fit')] * 3,
    *[('rl', 'other')] * 3,
  ]
  ends = [x for x in rows if x['phase'] == 'eval']
  assert [x['step'] for x in ends] == [2, 4, 7, 10]
  for x in ends:
    own = 'other' if x['step'] == STEPS else 'sft'
    assert x['eval/success'] == x[f'eval/{own}/success']
    assert x['eval/other/episodes'] == c.eval.episodes
  # Nothing was learned while exploring.
  assert ends[0]['eval/sft/solved'] == ends[1]['eval/sft/solved']
  for line in ('2 sft, 2 explore, 3 fit, 3 other', 'at the ends of stages'):
    assert line in text

  found = trajectory_store.open_store(whole, 'fit.found')
  sampled = {x.id for x in run_log.read(whole, phase='rl', steps=(3, 4))}
  assert len(found) == 11
  assert {x.id for x in found} <= sampled
  fitted = [*map(messages_of, run_log.read(whole, phase='sft', steps=(5, 7)))]
  assert len(fitted) == 24
  from_found = {*map(messages_of, found)}
  assert sum(x in from_found for x in fitted) == 18
