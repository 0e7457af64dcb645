"""Critics that are tables: what they read, what they are taught, by loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer
from agentrl.signal import critic, reference
from agentrl.signal.base import Context
from agentrl.types import Credit, Module, Outputs, TrainState
from tests import batches

STORY = batches.story(seed=51, groups=2, members=3)
LAID = batches.lay(STORY, 'turn', padding=2)
ROWS = LAID.batch.rows
SHAPE = ROWS.tokens.shape
WORDS, HEADS, CLIP = 9, 3, 0.04


def _apply(params, rows, needs):
  """What the token's entry of the table says, of whatever is asked."""
  said = params['table'][rows.tokens]
  return Outputs(**{n: said if n == 'value' else said[..., 0] for n in needs})


def _table(seed):
  table = np.random.default_rng(seed).normal(size=(WORDS, HEADS))
  return {'table': jnp.asarray(table, jnp.float32)}


ROLES = ('policy', 'value', 'reference')
MODULE = Module({}, _apply)
RULE = optimizer.Rule(lr=0.05)  # values leave the clip's width at once
CONTEXT = Context(dict.fromkeys(ROLES, MODULE), {'value': RULE}, SHAPE[0])


def _state():
  params = {role: _table(i) for i, role in enumerate(ROLES)}
  opt = {'value': optimizer.init(RULE, params['value'])}
  return TrainState(
    step=jnp.int32(0), params=params, opt=opt, signal={}, memory=(), carry=(),
    key=jax.random.key(0),
  )  # fmt: skip


def _credit(names):
  """Targets, and weights of which half are none, at sampled tokens."""
  r = np.random.default_rng(9)
  targets = {}
  for name in names:
    targets[name] = r.normal(size=SHAPE).astype(np.float32)
    kept = ROWS.sampled & (r.random(SHAPE) < 0.5)
    targets[f'{name}.weight'] = kept.astype(np.float32)
  zero = np.zeros(SHAPE, np.float32)
  return Credit(turn=zero, token=zero, weight=zero, target=targets)


def _loss(v, old, credit, name):
  """The mean over regressed tokens, one by one, in float64."""
  goal, weight = credit.target[name], credit.target[f'{name}.weight']
  total = 0.0
  for at in zip(*np.nonzero(weight), strict=True):
    x, r, before = (float(y[at]) for y in (v, goal, old))
    near = min(max(x, before - CLIP), before + CLIP)
    total += max((x - r) ** 2, (near - r) ** 2) / 2
  return total / np.count_nonzero(weight)


def _learn(signal, names, steps):
  """-> scores before, loss of each of the steps, the values after them."""
  state, credit = _state(), _credit(names)
  old = jax.jit(signal(steps).score)(state, LAID.batch, {})[0]
  update = jax.jit(signal(1).update)
  losses, seen = [], []
  for _ in range(steps):
    table = np.asarray(state.params['value']['table'])[ROWS.tokens]
    seen.append(table)
    state, told = update(state, LAID.batch, old, credit)
    losses.append(float(told['value/loss'][0]))
  return old, credit, losses, seen


@pytest.mark.parametrize(
  ('signal', 'names'),
  [(critic.value, ('value',)), (critic.heads, critic.HEADS)],
)
def test_each_head_is_read_and_taught_its_own_target(signal, names):
  make = lambda steps: signal(CONTEXT, clip=CLIP, steps=steps)  # noqa: E731
  old, credit, losses, seen = _learn(make, names, 4)
  table = np.asarray(_table(1)['table'])[ROWS.tokens]
  for i, name in enumerate(names):
    np.testing.assert_allclose(old[name], table[..., i], rtol=1e-6)
  for loss, values in zip(losses, seen, strict=True):
    want = [
      _loss(values[..., i], np.asarray(old[name]), credit, name)
      for i, name in enumerate(names)
    ]
    np.testing.assert_allclose(loss, sum(want), rtol=1e-4)
  assert losses[1] < losses[0]
  several, told = jax.jit(make(4).update)(_state(), LAID.batch, old, credit)
  np.testing.assert_allclose(told['value/loss'][0], sum(losses), rtol=1e-4)
  assert several.params['policy'] is not several.params['value']


def test_a_reference_reads_its_own_role():
  state = _state()
  for role in ('reference', 'value'):
    signal = reference.reference(CONTEXT, role=role)
    fields, _ = signal.score(state, LAID.batch, {})
    want = np.asarray(state.params[role]['table'])[ROWS.tokens][..., 0]
    live = np.any(ROWS.sampled, axis=1)
    np.testing.assert_allclose(fields['ref_logp'][live], want[live], rtol=1e-6)
