"""Critics that are tables: what they read, what they are taught, by loops."""

import jax
import numpy as np
import pytest

from agentrl.signal import critic
from agentrl.types import Credit
from tests.signal import tables


def _credit(names):
  """Targets, and weights of which half are none, at sampled tokens."""
  r = np.random.default_rng(9)
  targets = {}
  for name in names:
    targets[name] = r.normal(size=tables.SHAPE).astype(np.float32)
    kept = tables.ROWS.sampled & (r.random(tables.SHAPE) < 0.5)
    targets[f'{name}.weight'] = kept.astype(np.float32)
  zero = np.zeros(tables.SHAPE, np.float32)
  return Credit(turn=zero, token=zero, weight=zero, target=targets)


def _loss(v, old, credit, name):
  """Means over regressed tokens: of the loss, and of what is clipped."""
  goal, weight = credit.target[name], credit.target[f'{name}.weight']
  total, clipped = 0.0, 0
  for at in zip(*np.nonzero(weight), strict=True):
    x, r, before = (float(y[at]) for y in (v, goal, old))
    near = min(max(x, before - tables.CLIP), before + tables.CLIP)
    total += max((x - r) ** 2, (near - r) ** 2) / 2
    clipped += (near - r) ** 2 > (x - r) ** 2
  count = np.count_nonzero(weight)
  return total / count, clipped / count


def _learn(signal, names, steps):
  """-> scores before; losses, shares clipped and values of each step."""
  state, credit = tables.make_state(), _credit(names)
  old = jax.jit(signal(steps).score)(state, tables.LAID.batch, {})[0]
  update = jax.jit(signal(1).update)
  label = 'clip' if names == ('value',) else f'{names[0]}_clip'
  losses, clips, seen = [], [], []
  for _ in range(steps):
    table = np.asarray(state.params['value']['table'])[tables.ROWS.tokens]
    seen.append(table)
    state, told = update(state, tables.LAID.batch, old, credit)
    losses.append(float(told['value/loss'][0]))
    total, count = told[f'value/{label}']
    clips.append(float(total / count))
  return old, credit, losses, clips, seen


@pytest.mark.parametrize(
  ('signal', 'names'),
  [(critic.value, ('value',)), (critic.heads, critic.HEADS)],
)
def test_each_head_is_read_and_taught_its_own_target(signal, names):
  make = lambda steps: signal(tables.CONTEXT, clip=tables.CLIP, steps=steps)  # noqa: E731
  old, credit, losses, clips, seen = _learn(make, names, 4)
  table = np.asarray(tables.table(1)['table'])[tables.ROWS.tokens]
  for i, name in enumerate(names):
    np.testing.assert_allclose(old[name], table[..., i], rtol=1e-6)
  for loss, clip, values in zip(losses, clips, seen, strict=True):
    want = [
      _loss(values[..., i], np.asarray(old[name]), credit, name)
      for i, name in enumerate(names)
    ]
    np.testing.assert_allclose(loss, sum(x for x, _ in want), rtol=1e-4)
    np.testing.assert_allclose(clip, want[0][1], rtol=1e-6)
  assert clips[-1] > 0
  assert losses[1] < losses[0]
  several, told = jax.jit(make(4).update)(
    tables.make_state(), tables.LAID.batch, old, credit
  )
  np.testing.assert_allclose(told['value/loss'][0], sum(losses), rtol=1e-4)
  assert several.params['policy'] is not several.params['value']
