"""Warm starts on stored trajectories: their rows, and what does not fit."""

import json

import jax
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.dataset import edits, imports, run_log, trajectory_store
from agentrl.log import metrics
from agentrl.run import build, runner, seed_axis, weights
from agentrl.run.play import sampler
from agentrl.run.stage import stages
from agentrl.text import chat_format
from agentrl.types import Span
from tests import errors
from tests.run import small_configs

SMALL = small_configs.SMALL | {'steps': 0, 'sft.steps': 3, 'log.groups': -1}


def config(folder, **more):
  c = grpo.get_config('tiny')
  c.update_from_flattened_dict(SMALL | {'data': str(folder)} | more)
  return c


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Two epochs of demonstrations, as a run logged them, in a store."""
  folder = tmp_path_factory.mktemp('stored')
  runner.run(config(folder, **{'sft.steps': 4}), str(folder / 'run'))
  logged = list(run_log.read(folder / 'run', phase='sft'))
  assert len(logged) == 32
  trajectory_store.build(logged[:16], folder, 'demos')
  half = [edits.drop_turns(x, lambda k, turn: k > 0) for x in logged[:16]]
  trajectory_store.build(half, folder, 'first_turns')
  return folder


def batches(c, steps=2):
  """The batches of the first steps, host arrays."""
  s = build.experiment(c)
  with sampler.open_sampler(s) as playing:
    stage, *_ = stages.make_stages(s, ('sft',), {'sft': (s, playing)})
    state = weights.restore_or_init(
      seed_axis.over_devices(1), [s], [Nothing()]
    )[0]
    stage.open(0)
    made = [
      stage.collect(state, stage.task(state, i), i)[0] for i in range(steps)
    ]
  return s, jax.device_get(made)


class Nothing:
  def latest(self, state):
    return None


def by_task(made):
  """{task: sorted rows of tokens, where they are trained on}."""
  out = {}
  for batch in made:
    for b, task in enumerate(batch.ids['task'].tolist()):
      mine = (batch.rows.traj == b).any(axis=1)
      rows = batch.rows.tokens[mine], batch.rows.weight[mine]
      seg = batch.rows.seg[mine]
      out[task] = [
        (t[g >= 0].tolist(), w[g >= 0].tolist())
        for t, w, g in zip(*rows, seg, strict=True)
      ]
  return out


@pytest.mark.slow
def test_rows_are_those_of_the_demonstrations_that_were_logged(folder):
  _, shown = batches(config(folder))
  _, again = batches(config(folder, **{'sft.store': 'demos'}))
  one, other = by_task(shown), by_task(again)
  assert len(one) == 16
  assert one == other
  for batch in again:
    assert set(batch.ids['source'].tolist()) == {2}
    assert not batch.sampled
    assert not batch.attempted


def test_weights_are_the_stores(folder):
  _, made = batches(config(folder, **{'sft.store': 'first_turns'}))
  for batch in made:
    rows = batch.rows
    own = rows.sampled & (rows.span != Span.INFORMATION)
    np.testing.assert_array_equal(rows.weight, own & (rows.turn == 0))
    assert np.any(own & (rows.turn > 0))


@pytest.mark.slow
def test_a_run_trains_on_a_store(folder, tmp_path):
  c = config(folder, **{'sft.store': 'demos', 'sft.steps': 12})
  runner.run(c, str(tmp_path))
  rows = metrics.read(tmp_path / 'metrics.jsonl')
  loss = [r['loss/total'] for r in rows if r['phase'] == 'sft']
  assert len(loss) == 12
  assert np.mean(loss[-3:]) < np.mean(loss[:3])


@pytest.mark.parametrize(
  ('changes', 'match'),
  [
    ({'sft.store': 'none'}, 'store none demos'),
    ({'sft.store': 'demos', 'rollout.max_turns': 1}, '1'),
    ({'sft.store': 'demos', 'rollout.history': 'full'}, '0 history turn full'),
  ],
)
def test_what_does_not_fit_is_one_sentence_before_anything_is_made(
  folder, tmp_path, changes, match
):
  with errors.raises(ValueError, match):
    runner.run(config(folder, **changes), str(tmp_path / 'run'))
  assert not (tmp_path / 'run' / 'checkpoints').exists()


def test_words_of_another_model_are_refused(folder):
  (first,) = trajectory_store.open_store(folder, 'demos').take([0])
  turn = first.turns[0]
  strange = turn._replace(message=np.full_like(turn.message, 5000))
  trajectory_store.build(
    [first, first._replace(turns=(strange,))], folder, 'strange'
  )
  with errors.raises(ValueError, '1 5000 320'):
    batches(config(folder, **{'sft.store': 'strange'}))


def test_host_worlds_take_them_too(tmp_path):
  """Chats that others wrote, encoded once: only the agent's words weigh."""
  talk = [
    {'role': 'user', 'content': '3 4 = 7'},
    {'role': 'assistant', 'content': '3+4'},
  ]
  path = tmp_path / 'chats.jsonl'
  line = json.dumps({'messages': talk, 'outcome': 1.0})
  path.write_text(f'{line}\n' * 8, encoding='utf-8')
  made = imports.read('openai', path, chat_format.named('embedded'))
  trajectory_store.build(made, tmp_path, 'chats')
  c = small_configs.countdown(data=str(tmp_path), sft__store='chats')
  c.sft.batch = c.micro_batch = 4
  s, (batch,) = batches(c, 1)
  rows = batch.rows
  assert rows.weight.sum() == 4 * (len(s.tokenizer.encode('3+4')) + 1)
  np.testing.assert_array_equal(rows.weight > 0, rows.sampled)
