"""Supervised stages on stored pairs: what is compared, and refusals."""

import json

import jax
import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import dpo
from agentrl.dataset import imports, selections, trajectory_store
from agentrl.log import metrics
from agentrl.run import build, runner, seed_axis, weights
from agentrl.run.check import validate
from agentrl.run.play import sampler
from agentrl.run.stage import stages, stored_sft
from agentrl.text import chat_format
from tests import errors


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Eight prompts, each with an answer that is preferred to another."""
  folder = tmp_path_factory.mktemp('preferences')
  path = folder / 'pairs.jsonl'
  lines = [
    {'prompt': f'{i} 4 = {i + 4}', 'chosen': f'{i}+4', 'rejected': f'{i}*4'}
    for i in range(8)
  ]
  path.write_text('\n'.join(map(json.dumps, lines)), encoding='utf-8')
  made = imports.read('preferences', path, chat_format.named('embedded'))
  trajectory_store.build(made, folder, 'pairs')
  return folder


def config(folder, **changes):
  """DPO on the store, with nothing sampled."""
  c = dpo.get_config('tiny,env=countdown')
  c.data, c.steps, c.micro_batch, c.rollout.slots = str(folder), 0, 4, 4
  c.env.update(dict(train=8, test=4))
  c.hp.dpo.dpo.beta, c.hp.minibatch.minibatches.n = 1.0, 1
  c.hp.curate.opposite_ranks.score = 'outcome'
  c.sft.update(dict(store='pairs', pairs=True, batch=4, steps=24, lr=3e-3))
  c.eval.episodes = 4
  c.update_from_flattened_dict(changes)
  return c


def test_halves_of_a_pair_are_drawn_together(folder):
  s = build.experiment(config(folder))
  select = registry.bind('curate', 'opposite_ranks', {'score': 'outcome'})
  seen = []
  with sampler.open_sampler(s) as playing:
    (stage,) = stages.make_stages(s, ('sft',), {'sft': (s, playing)})
    state = weights.restore_or_init(
      seed_axis.over_devices(1), [s], [Nothing()]
    )[0]
    stage.open(0)
    for step in range(4):
      batch = stage.collect(state, stage.task(state, step), step)[0]
      batch = jax.device_get(select(batch))
      on = batch.pairs.weight > 0
      assert on.sum() == 2
      for win, lose in zip(
        batch.pairs.win[on, 0], batch.pairs.lose[on, 0], strict=True
      ):
        said = [
          s.tokenizer.decode(
            batch.rows.tokens[batch.rows.sampled & (batch.rows.traj == b)][:-1]
          )
          for b in (win, lose)
        ]
        assert said[0].replace('+', '*') == said[1]
        seen.append(said[0])
  assert sorted(seen) == [f'{i}+4' for i in range(8)]


class Nothing:
  def latest(self, state):
    return None


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    ({'sft.batch': 5, 'micro_batch': 1}, 'sft.batch even 5 6'),
    ({'sft.store': ''}, 'sft.store sft.mix sft.pairs'),
  ],
)
def test_settings_that_do_not_fit_are_refused(folder, changes, names):
  with errors.raises(ValueError, names):
    validate.config(config(folder, **changes))


def test_losers_are_not_left_out(folder):
  """An odd number of halves, and halves that are in another order."""
  store = trajectory_store.open_store(folder, 'pairs')
  with errors.raises(ValueError, 'sft.pairs 15 odd'):
    stored_sft.in_turn(store.heads[:15], 'mine')
  with errors.raises(ValueError, 'sft.pairs 0.0 1.0'):
    stored_sft.in_turn(store.heads[::-1], 'mine')
  stored_sft.in_turn(store.heads[::-1], 'mine', by_outcome=False)
  with errors.raises(ValueError, 'sft.pairs tasks'):
    stored_sft.in_turn(store.heads[1:-1], 'mine', by_outcome=False)
  shuffled = store.take(np.random.default_rng(0).permutation(16))
  again = selections.in_pairs(shuffled)
  assert [x.outcome for x in again] == [1, 0] * 8
  assert all(
    a.task == b.task for a, b in zip(again[::2], again[1::2], strict=True)
  )
  assert not selections.in_pairs(shuffled, margin=1.0)


@pytest.mark.slow
@pytest.mark.nightly
def test_what_is_preferred_becomes_likelier(folder, tmp_path):
  runner.run(config(folder), str(tmp_path))
  rows = metrics.read(tmp_path / 'metrics.jsonl')
  rows = [r for r in rows if r['phase'] == 'sft']
  margin = [r['dpo/margin'] for r in rows]
  assert len(margin) == 24
  assert margin[0] == 0  # the reference is the policy as the stage begins
  assert np.mean(margin[-4:]) > 0.5
  assert np.mean([r['dpo/accuracy'] for r in rows[-4:]]) == 1
