"""Every verb against a python loop: ragged data, layouts, trash ids, meshes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh, segment
from agentrl.segment import TurnIndex
from agentrl.types import Span
from tests import batches, errors

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=21, groups=2)
HOW = (
  'jit',
  'explicit',
  pytest.param('eager', marks=pytest.mark.nightly),
  pytest.param('auto', marks=pytest.mark.nightly),
)
everywhere = pytest.mark.parametrize('how', HOW)


def _run(how, f, *args, shape=()):
  """f(*args); on the 2x2 meshes arrays [N, T] lie along the data axis."""
  if how in ('eager', 'jit'):
    return (jax.jit(f) if how == 'jit' else f)(*jax.tree.map(jnp.asarray, args))
  return batches.on_a_mesh(f, args, shape, explicit=how == 'explicit')


class Case:
  """Random ids [N, T] with everything that may be found there."""

  def __init__(self, seed=0, n=6, t=9, b=4, k=3):
    r = np.random.default_rng(seed)
    self.b, self.k, self.shape = b, k, (n, t)
    self.traj = r.integers(-1, b + 2, (n, t)).astype(np.int32)  # b: trash
    self.turn = r.integers(-1, k + 2, (n, t)).astype(np.int32)
    self.x = r.normal(size=(n, t))
    self.mask = r.random((n, t)) < 0.6
    self.table = r.normal(size=(b, k))
    self.index = TurnIndex(self.traj, self.turn, b, k)

  def turns(self):
    """Positions of the tokens of each (trajectory, turn)."""
    for i in range(self.b):
      for j in range(self.k):
        yield i, j, (self.traj == i) & (self.turn == j)


@everywhere
def test_to_tokens(how):
  c = Case()
  got = _run(how, TurnIndex.to_tokens, c.index, c.table, shape=c.shape)
  want = np.zeros(c.shape)
  for i, j, where in c.turns():
    want[where] = c.table[i, j]
  np.testing.assert_array_equal(got, want)


@everywhere
@pytest.mark.parametrize('dtype', [np.float64, np.int32])
def test_to_turns(how, dtype):
  c = Case(1)
  x = (10 * c.x).astype(dtype)
  got = _run(how, TurnIndex.to_turns, c.index, x, shape=c.shape)
  assert got.dtype == dtype
  for i, j, where in c.turns():
    np.testing.assert_allclose(got[i, j], x[where].sum(), rtol=1e-12)


@everywhere
def test_largest_turns(how):
  c = Case(2)
  f = TurnIndex.largest_turns
  got = _run(how, f, c.index, c.x, c.mask, shape=c.shape)
  for i, j, where in c.turns():
    assert got[i, j] == max(c.x[where & c.mask], default=-np.inf)
  nothing = _run(how, f, c.index, c.x, np.zeros_like(c.mask), shape=c.shape)
  assert (nothing == -np.inf).all()


@pytest.fixture(params=batches.LAYOUTS)
def laid(request):
  return batches.lay(STORY, request.param, padding=1)


@everywhere
def test_bounds(how, laid):
  first, last = _run(
    how,
    TurnIndex.bounds,
    segment.index(laid.batch),
    laid.batch.rows.sampled,
    shape=laid.tokens['value'].shape,
  )
  for x, at in ((first, 0), (last, -1)):
    want = [[np.zeros(n) for n in sizes] for sizes in STORY.size]
    for turns in want:
      for marks in turns:
        marks[at] = 1
    got = batches.flat(batches.read(x, STORY, laid))
    np.testing.assert_array_equal(got, batches.flat(want))
    assert not np.asarray(x)[~laid.batch.rows.sampled].any()


@everywhere
def test_at_turns(how, laid):
  value = laid.tokens['value']

  def f(x, sampled, index):
    _, last = index.bounds(sampled)
    return index.at_turns(x, last)

  index, sampled = segment.index(laid.batch), laid.batch.rows.sampled
  got = _run(how, f, value, sampled, index, shape=value.shape)
  want = np.zeros(laid.batch.turns.valid.shape)
  for i, turns in enumerate(STORY.token['value']):
    want[i, : len(turns)] = [x[-1] for x in turns]
  np.testing.assert_allclose(got, want, rtol=1e-12)


@everywhere
def test_dense(how):
  r = np.random.default_rng(3)
  columns = r.integers(-2, 3, (3, 40)).astype(np.int32)
  got = np.asarray(_run(how, segment.compact_ids, *columns))
  keys = list(zip(*columns, strict=True))
  assert len(set(zip(keys, got.tolist(), strict=True))) == len(set(keys))
  assert set(got.tolist()) == set(range(len(set(keys))))


@everywhere
def test_total_and_largest(how):
  r = np.random.default_rng(4)
  x, mask = r.normal(size=30), r.random(30) < 0.7
  ids = r.integers(0, 8, 30).astype(np.int32)
  mask[ids == ids[0]] = False  # an id without anything
  for m in (mask, np.ones(30, bool)):
    total = _run(how, segment.segment_sum, x, ids, m)
    top = _run(how, segment.segment_max, x, ids, m)
    for i in range(30):
      same = x[(ids == ids[i]) & m]
      np.testing.assert_allclose(total[i], sum(same), rtol=1e-12, atol=1e-12)
      assert top[i] == max(same, default=-np.inf)
  np.testing.assert_array_equal(
    _run(how, segment.segment_sum, x, ids),
    _run(how, segment.segment_sum, x, ids, m),
  )


@everywhere
@pytest.mark.parametrize('shape', [(8,), (4, 7), (2, 3, 7)])
def test_accumulate(how, shape):
  r = np.random.default_rng(5)
  x, factor = r.normal(size=shape), r.normal(size=shape)
  factor[..., 3] = 0
  got = _run(how, segment.accumulate, x, factor, shape=shape[:2])
  want, y = np.zeros(shape), np.zeros(shape[:-1])
  for t in reversed(range(shape[-1])):
    y = x[..., t] + factor[..., t] * y
    want[..., t] = y
  np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def _gaps(seed):
  """[B, K] with valid turns anywhere, none at all and all."""
  r = np.random.default_rng(seed)
  valid = r.random((6, 5)) < 0.6
  valid[0], valid[1] = False, True
  return r.normal(size=(6, 5)), r.normal(size=(6, 5)), valid


@everywhere
def test_accumulate_turns(how):
  x, factor, valid = _gaps(6)
  got = _run(how, segment.accumulate_turns, x, factor, valid)
  const = _run(how, lambda x, v: segment.accumulate_turns(x, 0.5, v), x, valid)
  for i, live in enumerate(valid):
    for rates, out in ((factor[i], got[i]), (np.full(5, 0.5), const[i])):
      y = 0.0
      for k in reversed(range(5)):
        y = x[i, k] + rates[k] * y if live[k] else y
        np.testing.assert_allclose(out[k], y if live[k] else 0, rtol=1e-12)


@everywhere
def test_next_turn(how):
  x, _, valid = _gaps(7)
  got = _run(how, segment.next_turn, x, valid)
  for i in range(6):
    for k in range(5):
      after = [x[i, j] for j in range(k + 1, 5) if valid[i, j]]
      assert got[i, k] == (after[0] if after and valid[i, k] else 0)


@everywhere
def test_roll_turns(how):
  x, _, mask = _gaps(8)
  shift = np.array([[0], [1], [2], [3], [7], [-1]])
  got = _run(how, segment.roll_turns, x, shift, mask)
  for i in range(6):
    want, live = x[i].copy(), np.flatnonzero(mask[i])
    want[live] = np.roll(want[live], shift[i, 0])
    np.testing.assert_array_equal(got[i], want)


def _args(laid):
  """mask, index, valid of the functions that go through a trajectory."""
  batch = laid.batch
  return batch.rows.sampled, segment.index(batch), batch.turns.valid


@everywhere
@pytest.mark.parametrize(
  ('f', 'of_trajectory'),
  [
    (segment.next_token, lambda x: np.append(x[1:], 0)),
    (segment.prefix_sum, np.cumsum),
  ],
)
def test_along_a_trajectory(how, f, of_trajectory, laid):
  value, args = laid.tokens['value'], _args(laid)
  got = _run(how, f, value, *args, shape=value.shape)
  want = [
    np.split(
      of_trajectory(np.concatenate(turns)),
      np.cumsum([len(t) for t in turns])[:-1],
    )
    for turns in STORY.token['value']
  ]
  read = batches.flat(batches.read(got, STORY, laid))
  np.testing.assert_allclose(read, batches.flat(want), rtol=1e-10, atol=1e-12)
  assert not np.asarray(got)[~laid.batch.rows.sampled].any()


@everywhere
def test_accumulate_tokens(how, laid):
  """Also over turns without sampled tokens, and past invalid ones."""
  rows, valid = laid.batch.rows, laid.batch.turns.valid.copy()
  sampled = rows.sampled & ~((rows.traj == 1) & (rows.turn == 1))
  valid[1, 2] = False
  x, factors = laid.tokens['value'], (1.0, 0.9, 0.0)

  def f(x, *args):
    return [segment.accumulate_tokens(x, factor, *args) for factor in factors]

  index = segment.index(laid.batch)
  found = _run(how, f, x, sampled, index, valid, shape=x.shape)
  assert len(STORY.size[1]) > 3
  for factor, got in zip(factors, found, strict=True):
    got = batches.read(np.where(sampled, got, 0), STORY, laid)
    for i, turns in enumerate(STORY.token['value']):
      y = 0.0
      for k in reversed(range(len(turns))):
        if (i, k) in ((1, 1), (1, 2)):
          continue
        for j in reversed(range(len(turns[k]))):
          y = turns[k][j] + factor * y
          np.testing.assert_allclose(got[i][k][j], y, rtol=1e-10, atol=1e-12)
    assert not got[1][1].any()


@pytest.mark.parametrize('how', ['jit', 'explicit'])
def test_alike(how):
  """Among masked tokens that agree in both columns, wherever they stand."""
  c = Case(seed=3)
  a, b = c.traj % 2, c.turn % 3

  def both(x, mask, a, b):
    return (
      segment.group_reduce(x, mask, a, b),
      segment.group_reduce(x, mask, a, b, how='max'),
    )

  total, top = _run(how, both, c.x, c.mask, a, b, shape=c.shape)
  for i in np.argwhere(c.mask):
    n, t = i
    same = c.x[c.mask & (a == a[n, t]) & (b == b[n, t])]
    np.testing.assert_allclose(total[n, t], np.sum(same), rtol=1e-10)
    assert top[n, t] == np.max(same)


@everywhere
def test_rows_are_reordered_and_put_back(how):
  r = np.random.default_rng(8)
  live, x = r.random(8) < 0.5, r.normal(size=(8, 3))
  order = np.asarray(_run(how, segment.live_first, live))
  want = [i for i in range(8) if live[i]] + [i for i in range(8) if not live[i]]
  assert order.tolist() == want

  def there_and_back(x, live):
    order = segment.live_first(live)
    tree = {'x': x, 'first': x[:, 0]}
    taken = segment.take_rows(tree, order)
    return taken, segment.take_rows(taken, segment.invert(order))

  taken, back = _run(how, there_and_back, x, live, shape=x.shape)
  np.testing.assert_array_equal(taken['x'], x[want])
  np.testing.assert_array_equal(taken['first'], x[want, 0])
  np.testing.assert_array_equal(back['x'], x)


@everywhere
def test_rows_are_cut_and_joined(how):
  x = np.random.default_rng(9).normal(size=(8, 3))

  def both(x):
    pieces = segment.cut({'x': x, 'first': x[:, 0]}, 2)
    return pieces, segment.join(pieces)

  pieces, whole = _run(how, both, x, shape=x.shape)
  np.testing.assert_array_equal(pieces['x'], x.reshape(4, 2, 3))
  np.testing.assert_array_equal(pieces['first'], x[:, 0].reshape(4, 2))
  np.testing.assert_array_equal(whole['x'], x)
  np.testing.assert_array_equal(whole['first'], x[:, 0])


def test_rows_stay_split_on_an_explicit_mesh():
  """What is [N, T] comes back along the data axis, what is [B, K] whole."""
  c = Case()
  with jax.set_mesh(mesh.make({'fsdp': 2, 'tensor': 2})):
    index, table = batches.place((c.index, c.table), c.shape)
    tokens = jax.jit(TurnIndex.to_tokens)(index, table)
    turns = jax.jit(TurnIndex.to_turns)(index, tokens)
  assert tokens.sharding.spec == mesh.spec('batch', None)
  assert turns.sharding.is_fully_replicated


def test_bounds_of_neighbours_whose_numbers_add_up_to_the_same():
  """Turn 1 of trajectory 0 beside turn 0 of trajectory 1."""
  traj, turn = jnp.array([[0, 0, 1, 1]]), jnp.array([[1, 1, 0, 0]])
  index = TurnIndex(traj, turn, 2, 2)
  first, last = index.bounds(jnp.ones_like(traj, bool))
  assert first.tolist() == [[True, False, True, False]]
  assert last.tolist() == [[False, True, False, True]]


def test_a_trajectory_holds_its_prompts():
  traj, turn = jnp.array([[0, 0, 1, -1]]), jnp.array([[-1, 3, -1, -1]])
  index = TurnIndex(traj, turn, 2, 4)
  got = index.unit('trajectory')
  assert got.traj.tolist() == [[0, 0, 1, -1]]
  assert got.turn.tolist() == [[0, 0, 0, -1]]
  assert (got.b, got.k) == (2, 1)
  assert index.unit('turn') is index
  x = jnp.array([[1.0, 2, 4, 8]])
  assert index.to_trajectories(x).tolist() == [3, 4]
  there = index.trajectories_to_tokens(jnp.array([5.0, 7]))
  assert there.tolist() == [[5, 5, 7, 0]]


def test_a_table_of_other_turns_is_refused():
  """A table of another capacity would be read at the wrong turns."""
  index = Case(k=3).index
  for shape in ((4, 2), (3, 3), (12,)):
    with pytest.raises(AssertionError):
      index.to_tokens(jnp.zeros(shape))


def test_rank():
  r = np.random.default_rng(1)
  x, ids = r.integers(0, 4, 30), r.integers(0, 3, 30)
  mask = r.uniform(size=30) < 0.7
  got = jax.jit(segment.rank)(
    jnp.asarray(x), jnp.asarray(ids), jnp.asarray(mask)
  )
  for i in range(30):
    before = [
      j
      for j in range(30)
      if mask[j] and ids[j] == ids[i] and (x[j], j) < (x[i], i)
    ]
    assert got[i] == (len(before) if mask[i] else 30)


def test_in_order():
  traj = jnp.array([[0, 0, 0, 0, 1, 1], [1, 1, 1, -1, -1, -1]])
  turn = jnp.array([[-1, 0, 0, 0, 1, 1], [0, 0, 0, -1, -1, -1]])
  mask = jnp.array([[0, 1, 1, 0, 1, 1], [0, 1, 1, 0, 0, 0]]) > 0
  x = jnp.arange(1, 13).reshape(2, 6)
  f = jax.jit(TurnIndex.in_order, static_argnums=3)
  index = TurnIndex(traj, turn, 2, 2)
  got = f(index, x, mask, 3)
  want = [[[2, 3, 0], [0, 0, 0]], [[8, 9, 0], [5, 6, 0]]]
  np.testing.assert_array_equal(got, want)
  short = f(index, x, mask, 1)
  np.testing.assert_array_equal(short, np.array(want)[..., :1])


@everywhere
def test_align(how):
  """Messages of the same rows after other contexts, and one that is missing."""
  messages = [[(0, 0, 2), (0, 1, 1)], [(1, 0, 3)], [(1, 1, 2)], []]
  r, lacking = np.random.default_rng(0), (0, 1)

  def lay(width, gaps, leave=None):
    """Ids of rows whose every message stands behind a context."""
    mask, traj, turn = (
      np.zeros((4, width), bool),
      *(np.full((4, width), -1) for _ in 'ab'),
    )
    place = np.full((4, width), -1)
    for n, row in enumerate(messages):
      at = 0
      for b, k, size in row:
        at += gaps.pop()
        if (b, k) == leave:
          continue
        here = slice(at, at + size)
        mask[n, here], traj[n, here], turn[n, here] = True, b, k
        place[n, here] = 10 * b + 5 * k + np.arange(size)
        at += size
    return (mask, TurnIndex(traj, turn, 2, 2)), place

  there, where = lay(12, [2, 5, 0, 3], lacking)
  here, want = lay(9, [0, 1, 2, 1])
  x = r.normal(size=(4, 12))

  def f(x, there, here):
    near = segment.align(x, there, here)
    both = segment.align(jnp.stack([x, 2 * x], -1), there, here)
    return near, both

  got, both = _run(how, f, x, there, here, shape=(4, 9))
  found = {p: v for p, v in zip(where.flat, x.flat, strict=True) if p >= 0}
  assert len(found) == 7
  expected = [found.get(p, 0.0) for p in want.flat]
  np.testing.assert_array_equal(np.ravel(got), expected)
  np.testing.assert_array_equal(both[..., 1].ravel(), 2 * np.ravel(got))
  assert np.count_nonzero(got) == 7


def test_align_stays_within_rows():
  ids = jnp.zeros((2, 3), jnp.int32)
  rows = jnp.zeros((2, 3), bool), TurnIndex(ids, ids, 1, 1)
  with errors.raises(ValueError, '4 2'):
    segment.align(jnp.zeros((4, 3)), rows, rows)


def test_top():
  x = jnp.array([[3.0, 1.0, 3.0], [9.0, 2.0, 3.0]])
  mask = jnp.array([[True, True, True], [False, True, True]])
  got = segment.top_k_mask(x, mask, jnp.int32(2))
  np.testing.assert_array_equal(got, [[True, False, True], [False] * 3])
  assert int(segment.top_k_mask(x, mask, jnp.int32(99)).sum()) == 5


def test_a_call_has_its_arguments_in_it_and_other_spans_stand_alone():
  span = np.arange(-1, max(Span) + 2, dtype=np.int8)
  for which in Span:
    inside = [which, Span.ARGUMENT] if which == Span.CALL else [which]
    mask = jax.jit(segment.in_span, static_argnums=1)(span, which)
    np.testing.assert_array_equal(mask, np.isin(span, inside))
