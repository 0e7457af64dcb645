"""What of a batch is kept and told, against the story it was laid out from."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl import mesh
from agentrl.log import encode, sample, trajectories
from agentrl.text.tokenizer import Embedded
from agentrl.types import Credit
from tests import batches


def told(laid, *, groups, size, seed=0, credit=None, signals=None):
  ids = laid.batch.ids['group']
  ids = {'group': ids, 'task': ids + 40, 'source': ids * 0}
  batch = laid.batch.replace(ids=ids)
  if mesh.active():
    batch = batches.place(batch, batch.rows.traj.shape)
  some = jax.jit(sample.sample, static_argnames=('groups', 'size'))(
    batch,
    laid.signals if signals is None else signals,
    credit,
    jax.random.key(seed),
    groups=groups,
    size=size,
  )
  return list(
    encode.trajectories(jax.device_get(some), Embedded(), step=3, phase='rl')
  )


@pytest.mark.parametrize('layout', batches.LAYOUTS)
def test_every_layout_tells_the_story(layout):
  story = batches.story(1)
  laid = batches.lay(story, layout, padding=2)
  n = len(story.group)
  found = told(laid, groups=-1, size=n + 2)
  assert [t['member'] for t in found] == list(range(n))
  for i, t in enumerate(found):
    assert (t['group'], t['task']) == (story.group[i], story.group[i] + 40)
    np.testing.assert_allclose(t['reward'], sum(story.reward[i]), rtol=1e-5)
    assert [x['k'] for x in t['turns']] == list(range(len(story.size[i])))
    for k, turn in enumerate(t['turns']):
      close(turn['reward'], story.reward[i][k])
      close(turn['signals']['implicit_prm.step'], story.step[i][k])
      for name, mine in (('value', 'value'), ('implicit_prm.token', 'prm')):
        close(turn['token'][name], story.token[mine][i][k])
      assert len(turn['said']['pieces']) == story.size[i][k]
      answer = story.answer[i][k - 1] if k else 2  # the prompt
      again = 2 if layout != 'history' else answer
      assert len(turn['read']['tokens']) == again
    assert trajectories.encode(t)


def test_the_rows_may_lie_on_several_devices():
  laid = batches.lay(batches.story(1), 'turn')
  alone = told(laid, groups=1, size=8, signals={})
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    assert told(laid, groups=1, size=8, signals={}) == alone
  assert len(alone) > 1 or alone[0]['group'] == 3


def close(x, y):
  np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6)


def test_tokens_are_those_of_the_rows():
  laid = batches.lay(batches.story(2), 'history')
  rows = laid.batch.rows
  for t in told(laid, groups=-1, size=99):
    for turn in t['turns']:
      here = (rows.traj == t['member']) & (rows.turn == turn['k'])
      mine = rows.tokens[here & rows.sampled].tolist()
      assert turn['said']['tokens'] == mine
      assert turn['said']['text'] == Embedded().decode(mine)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31 - 1), st.integers(0, 4))
def test_groups_are_whole(seed, groups):
  group = np.array([5, 7, 5, 5, 7, 2, 9])
  live = np.array([1, 1, 1, 1, 1, 1, 0], bool)
  key = jax.random.key(seed)
  found = sample.chosen(group, live, key, groups=groups, size=6)
  found = found[found < 7].tolist()
  taken = {int(group[i]) for i in found}
  assert len(taken) == min(groups, 3)
  assert found == [i for i in range(6) if group[i] in taken]


def test_every_group_is_taken_as_often():
  group, live = np.repeat(np.arange(4), 3), np.ones(12, bool)

  def first(key):
    return sample.chosen(group, live, key, groups=1, size=3)[0] // 3

  keys = jax.random.split(jax.random.key(0), 2000)
  count = np.bincount(jax.vmap(first)(keys), minlength=4)
  assert np.all(np.abs(count - 500) < 5 * np.sqrt(2000 * 3 / 16))


def test_credit_is_told_by_turn_and_token():
  story = batches.story(3)
  laid = batches.lay(story, 'turn')
  turn = np.arange(laid.batch.turns.valid.size, dtype=np.float32)
  turn = turn.reshape(laid.batch.turns.valid.shape)
  rows = laid.batch.rows
  two = np.stack([rows.logp, -rows.logp], axis=-1)
  credit = Credit(turn, rows.logp * 0 + 0.5, rows.weight, {'value': two})
  (t, *_) = told(laid, groups=-1, size=2, credit=credit, signals={})
  first = t['turns'][0]
  assert first['signals'] == {'advantage': 0.0}
  assert first['token']['advantage'] == [0.5] * story.size[0][0]
  close(first['token']['target.value.0'], first['token']['logp'])
  close(first['token']['target.value.1'], -np.array(first['token']['logp']))


def test_what_is_held_comes_one_step_late():
  seen, flushed = [], itertools.count(1)
  keeper = sample.TrajectoryLogger(
    lambda step, phase, what: seen.append((step, phase, type(what['x']))),
    lambda: seen.append(next(flushed)),
    every=2,
  )
  x = {'x': jax.numpy.ones(3)}
  for step in range(1, 6):
    keeper.push(step, 'rl', x)
  assert seen == [(2, 'rl', np.ndarray), (4, 'rl', np.ndarray)]
  keeper.push(6, 'rl', x)
  keeper.write(6, 'eval', x)
  keeper.push(8, 'rl', None)
  keeper.flush()
  assert [s[:2] for s in seen[2:4]] == [(6, 'rl'), (6, 'eval')]
  assert seen[4:] == [1]
