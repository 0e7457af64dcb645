"""Curves of skills against lists of attempts, and when they are flat."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.memory import skills
from agentrl.memory.skills import Practice
from tests import batches, errors

S, W, N = 5, 4, 12
SKILL = np.arange(N, dtype=np.int32) % 4  # the last has no task


def batch(attempted, practice):
  laid = batches.lay(batches.story(0), 'history').batch
  made = laid.replace(attempted=attempted, practice=practice)
  return jax.tree.map(jnp.asarray, made)


def attempts(rng):
  size = 16
  return {
    'task': rng.integers(0, 6, size).astype(np.int32),
    'outcome': rng.choice([0.0, 0.5, 1.0], size).astype(np.float32),
    'counts': rng.random(size) < 0.8,
  }


def told(now=(), added=(), refused=0, asked=1):
  def marked(which):
    return np.isin(np.arange(S), which)

  return Practice(
    skill=SKILL,
    now=marked(now),
    added=marked(added),
    asked=np.int32(asked),
    refused=np.int32(refused),
  )


def memory(**hp):
  return registry.bind('memory', 'skills', dict(capacity=S, window=W) | hp)()


def test_curves_hold_the_newest_updates_that_practised_a_skill():
  rng, piece = np.random.default_rng(0), memory()
  state, points = None, {i: [] for i in range(S)}
  for step in range(9):
    made = attempts(rng)
    given = batch(made, told(now=[0, 1]))
    state = piece.init(given, N) if state is None else state
    state = jax.jit(piece.write)(state, given, None, jnp.int32(step))
    for i in range(S):
      mine = [
        float(o) > 0.5
        for t, o, c in zip(*made.values(), strict=True)
        if SKILL[t] == i and c
      ]
      if mine:
        points[i].append((sum(mine), len(mine)))
  for i, of_skill in points.items():
    newest = [(0, 0)] * W + of_skill
    won, tried = zip(*newest[-W:], strict=True)
    assert state.won[i].tolist() == [*won]
    assert state.tried[i].tolist() == [*tried]
  assert len(points[0]) > W
  assert not points[4]
  assert state.skill.tolist() == SKILL.tolist()
  measured = {k: float(v[0]) for k, v in piece.measure(state).items()}
  assert measured['skills/practised'] == 2
  assert measured['skills/asked'] == 9


def test_the_library_only_grows():
  piece = memory()
  state = piece.init(batch(attempts(np.random.default_rng(0)), told()), N)
  for step, (added, want) in enumerate(
    [((), [-1] * 5), ((1,), [-1, 1, -1, -1, -1]), ((1, 3), [-1, 1, -1, 2, -1])]
  ):
    decided = skills.decided(state, told(added=added, refused=2), step)
    assert decided.added.tolist() == want
    assert decided.added.dtype == state.added.dtype
    state = decided
  assert int(state.refused) == 6


def test_without_a_proposal_nothing_is_written():
  piece, made = memory(), attempts(np.random.default_rng(0))
  state = piece.init(batch(made, told()), N)
  assert piece.write(state, batch(made, None), None, jnp.int32(0)) is state


def test_a_batch_says_what_was_attempted():
  with errors.raises(ValueError, 'skills Batch.attempted'):
    memory().init(batch({}, told()), N)


def by_hand(won, tried, level, tolerance):
  """The same in plain Python, a float64 each."""
  out = []
  for w, n in zip(won.tolist(), tried.tolist(), strict=True):
    if 0 in n:
      out.append(False)
      continue
    half = len(w) // 2
    old = float(sum(w[:half])) / sum(n[:half])
    new = float(sum(w[half:])) / sum(n[half:])
    # To what float32 can tell apart.
    out.append(new >= level - 1e-6 and abs(new - old) <= tolerance + 1e-6)
  return out


@pytest.mark.parametrize('window', [2, 3, 4, 7])
def test_a_curve_converges_where_it_is_high_and_flat(window):
  rng = np.random.default_rng(window)
  tried = rng.integers(0, 9, (4000, window)) + (rng.random((4000, 1)) < 0.8)
  won = rng.binomial(tried, rng.random((4000, 1)) ** 0.3)
  for level, tolerance in ((0.8, 0.2), (0.5, 0.0), (0.0, 1.0), (1.0, 0.1)):
    want = by_hand(won, tried, level, tolerance)
    on_host = skills.converged(won, tried, level, tolerance)
    given = jnp.asarray(won), jnp.asarray(tried)
    on_device = skills.converged(*given, level, tolerance)
    assert on_host.tolist() == on_device.tolist() == want
    assert 0 < sum(want) < len(want)


@pytest.mark.parametrize(
  ('curve', 'want'),
  [
    ('8/8 8/8 8/8 8/8', True),
    ('6/8 6/8 7/8 7/8', True),
    ('1/8 2/8 8/8 8/8', False),  # it rises
    ('0/8 0/8 0/8 0/8', False),  # it is flat, and low
    ('8/8 8/8 8/8', False),  # it is short
    ('8/8 8/8 4/8 4/8', False),  # it falls
  ],
)
def test_curves_one_by_one(curve, want):
  points = [x.split('/') for x in curve.split()]
  points = [['0', '0']] * (W - len(points)) + points
  won, tried = np.array(points, int).T[:, None]
  assert skills.converged(won, tried, 0.8, 0.2).tolist() == [want]
