"""Labels that come late: they pay 0 before, and at the same turns after."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, registry
from agentrl.advantage import chain
from agentrl.configs import oni
from agentrl.memory import annotations as lib
from agentrl.run.check import validate
from tests import batches, errors
from tests.memory.sampled import STORIES, B
from tests.memory.sampled import batch as batch_of

pytestmark = pytest.mark.usefixtures('float64')


@functools.cache
def memory(lag, held=4):
  hp = dict(term='judge', lag=lag, batches=held)
  m = registry.bind('memory', lib.NAME, hp)()
  return m._replace(read=jax.jit(m.read), write=jax.jit(m.write))


def labels(step):
  """What the annotator says of a batch, and where: [B, K] both."""
  valid = np.asarray(batch_of(step).turns.valid)
  r = np.random.default_rng(step)
  known = valid & (r.random(valid.shape) < 0.7)
  return np.where(known, r.integers(0, 2, valid.shape), 0.0), known


def brought(step, lag):
  """The batch of a step, with labels of the one of `lag` steps ago."""
  batch = batch_of(step)
  score, known = labels(step - lag) if step >= lag else (0.0, False)
  zero = np.zeros(batch.turns.valid.shape)
  terms = {'judge': zero + score, 'judge_known': zero + known}
  terms = jax.tree.map(jnp.asarray, terms)
  return batch.replace(turns=batch.turns.replace(terms=terms))


def start(m):
  return m.init(brought(0, 1), 0)


def played(m, lag, steps):
  state = start(m)
  for step in range(steps):
    state = m.write(state, brought(step, lag), None, step)
  return state


def content(step):
  """What was read and said in each turn: [trajectory][turn]."""
  batch, story = batch_of(step), STORIES[step]
  rows = jax.tree.map(np.asarray, batch.rows)
  out = {}
  for i, sizes in enumerate(story.size):
    for k in range(len(sizes)):
      at = rows.sampled & (rows.traj == i) & (rows.turn == k)
      tokens = tuple(rows.tokens[at].tolist())
      out[i, k] = int(batch.turns.state[i, k]), tokens
  return out


def looked_up(m, state, step):
  _, fields = m.read(state, batch_of(step), step, jax.random.key(0))
  return np.asarray(fields['annotations.label'])


@pytest.mark.parametrize('lag', [1, 2])
def test_a_label_pays_nothing_before_it_came_and_its_value_after(lag):
  m, state = memory(lag), start(memory(lag))
  want, known = labels(0)
  alone = {}
  for at, x in content(0).items():
    alone.setdefault(x, []).append(at)
  for step in range(3):
    if step <= lag:
      assert not looked_up(m, state, 0).any()
    state = m.write(state, brought(step, lag), None, step)
  if lag == 1:
    state = played(m, lag, 2)  # labels of step 0 alone
  got = looked_up(m, state, 0)
  assert want.any()
  for places in alone.values():
    those = [want[at] for at in places if known[at]]
    for at in places:
      np.testing.assert_allclose(got[at], np.mean(those) if those else 0)


def test_labels_are_found_by_content_among_all_batches_that_are_held():
  """Against dicts; what is padding is never looked up, and pays nothing."""
  m = memory(1)
  state = played(m, 1, 4)
  told = {}
  for step in range(3):  # those of step 3 have not come
    score, known = labels(step)
    for at, x in content(step).items():
      if known[at]:
        told.setdefault(x, []).append(score[at])
  shared = 0
  for step in range(4):
    got = looked_up(m, state, step)
    want = np.zeros_like(got)
    for at, x in content(step).items():
      want[at] = np.mean(told.get(x, [0]))
      shared += step == 3 and x in told
    np.testing.assert_allclose(got, want, rtol=1e-12)
  assert shared  # turns without a label of their own


def test_older_batches_make_room():
  state = played(memory(1, 2), 1, 4)
  assert set(np.asarray(state.born).tolist()) == {2, 3}
  got, known = np.asarray(state.label), np.asarray(state.known)
  np.testing.assert_array_equal(known[:B], labels(2)[1])
  np.testing.assert_array_equal(got[:B], labels(2)[0])
  assert not known[B:].any()
  told = memory(1, 2).measure(state)
  held = sum(np.asarray(batch_of(x).turns.valid).sum() for x in (2, 3))
  assert told['annotations/labelled'] == (labels(2)[1].sum(), held)
  assert told['annotations/label'] == (labels(2)[0].sum(), labels(2)[1].sum())


def test_scores_without_their_batch_are_dropped():
  """A run begins with a memory that has not held the turns they are of."""
  m = memory(1)
  batch = brought(3, 1)
  state = m.write(start(m), batch, None, 3)
  assert not np.asarray(state.known).any()


def test_messages_are_told_apart_by_their_order_and_by_what_was_read():
  laid = batches.lay(STORIES[0], 'turn')
  rows, turns = laid.batch.rows, laid.batch.turns
  i, k = next(
    (i, k)
    for i, sizes in enumerate(STORIES[0].size)
    for k, n in enumerate(sizes)
    if n > 1
  )
  at = rows.sampled & (rows.traj == i) & (rows.turn == k)

  def hashed(tokens, state):
    new = rows.tokens.copy()
    new[at] = [*tokens, *[5] * (at.sum() - len(tokens))]
    read = turns.state.copy()
    read[i, k] = state
    batch = laid.batch.replace(
      rows=rows.replace(tokens=new), turns=turns.replace(state=read)
    )
    return tuple(np.asarray(lib.contents(batch))[i, k].tolist())

  keys = {hashed(x, s) for x in [(1, 2), (2, 1), (0, 3)] for s in (0, 1)}
  assert len(keys) == 6
  assert hashed((1, 2), 0) in keys


def test_oni_pays_the_label_that_has_come_less_each_time_it_is_there_again():
  c = oni.get_config('tiny')
  hp = c.hp.intrinsic.to_dict()
  links = [
    registry.bind('link', x, hp.get(x, {}), 'intrinsic')
    for x in c.stream.intrinsic
  ]
  m = memory(1)
  state = played(m, 1, 2)
  batch, signals = m.read(state, batch_of(0), 2, jax.random.key(0))
  credit, _ = chain.stream(links, batch, signals)
  label = np.asarray(signals['annotations.label'])
  for i, states in enumerate(STORIES[0].state):
    bonus = [0.0] * len(states)
    for k in range(len(states)):
      times = states[: k + 2].count(states[k + 1]) if k + 1 < len(states) else 1
      bonus[k] = label[i, k] / times**3
    to_go = np.cumsum(bonus[::-1])[::-1]
    np.testing.assert_allclose(credit.turn[i, : len(states)], to_go, rtol=1e-6)
  assert np.any(credit.turn)


@pytest.mark.parametrize(
  ('changes', 'names'),
  [
    (
      {'hp.memory.annotations.lag': 40},
      'hp.memory.annotations.batches lag=40 32',
    ),
    ({'hp.memory.annotations.lag': 0}, 'hp.memory.annotations.lag 0'),
    ({'collect': 'dynamic', 'rollout.batch': 64}, 'c.collect once dynamic'),
    ({'reward': ('env', 'weighted')}, 'annotations.term judged weighted'),
    ({'judge': (), 'hp.judge': {}}, 'late:judged annotations c.judge'),
  ],
)
def test_what_does_not_fit_is_refused(changes, names):
  c = oni.get_config('tiny')
  if 'reward' in changes:
    c.hp.reward = {'weighted': {'terms': ('judged',), 'weights': (1.0,)}}
  for path, value in changes.items():
    node, _, last = path.rpartition('.')
    _section(c, node)[last] = value
  with errors.raises(ValueError, names):
    validate.config(c)


def _section(c, path):
  for name in filter(None, path.split('.')):
    c = c[name]
  return c


@pytest.mark.slow
def test_on_an_explicit_mesh():
  m = memory(1)
  state, batch = played(m, 1, 2), brought(2, 1)
  want = m.read(state, batch, 2, jax.random.key(0))[1]
  written = m.write(state, batch, None, 2)
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    read, write = (jax.jit(f.__wrapped__) for f in (m.read, m.write))
    put = jax.device_put(state, jax.P())
    there = batches.place(batch, batch.rows.traj.shape)
    got = read(put, there, 2, jax.random.key(0))[1]
    after = write(put, there, None, 2)
  jax.tree.map(np.testing.assert_array_equal, (got, after), (want, written))
