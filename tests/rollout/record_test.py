"""Rows of a record, in every layout, against lists of its tokens."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.rollout import record as record_lib
from agentrl.types import Span
from tests.readings_cases import TURNS, B, C, K, M, context, made, message

NOTHING = dict(
  tokens=0,
  seg=-1,
  traj=-1,
  turn=-1,
  span=Span.OTHER,
  sampled=False,
  weight=0.0,
  logp=0.0,
)
WIDTH = K * (C + M)
NARROW = 9  # holds the shortest trajectory, and half of the longest


def record() -> record_lib.Record:
  """The longest just before the shortest, where what overflows would show."""
  r = made()
  span = np.random.default_rng(1).integers(0, len(Span), (B, K, M))
  read = np.random.default_rng(2).integers(0, len(Span), (B, K, C))
  r = r.replace(
    span=jnp.asarray(span, jnp.int8), context_span=jnp.asarray(read, jnp.int8)
  )
  return jax.tree.map(lambda x: np.roll(x, -1, axis=0), r)


def turn_cells(r, b: int, k: int, answers: int):
  """Cells of a context, which belongs to turn `answers`, and of a message."""
  here = NOTHING | dict(seg=0, traj=b)
  out = [
    here | dict(tokens=x, turn=answers, span=int(r.context_span[b, k, j]))
    for j, x in enumerate(context(r, b, k))
  ]
  for j, x in enumerate(message(r, b, k)):
    logp, span = float(r.logp[b, k, j]), int(r.span[b, k, j])
    own = span != Span.PREFIX
    said = dict(tokens=x, turn=k, span=span, sampled=own, weight=0.5 * own)
    out.append(here | said | dict(logp=logp))
  return out


def turns_apart(r, t):
  """Nobody's answer is shown where each turn has a row of its own."""
  return [
    turn_cells(r, b, k, -1) if r.valid[b, k] else []
    for b in range(B)
    for k in range(K)
  ]


def turns_in_order(r, t):
  return [
    [x for k in range(n) for x in turn_cells(r, b, k, k - 1)][:t]
    for b, n in enumerate(np.roll(TURNS, -1))
  ]


@pytest.mark.parametrize(
  ('lay', 'want', 't'),
  [
    (lambda r, t: record_lib.per_turn(r), turns_apart, C + M),
    (record_lib.full_history, turns_in_order, WIDTH),
    (record_lib.full_history, turns_in_order, NARROW),
  ],
  ids=['per_turn', 'full_history', 'no_room'],
)
def test_rows_are_contexts_each_with_its_message_after_it(lay, want, t):
  """What does not fit into a row is left out, and no other row has it."""
  r = record()
  rows = jax.device_get(
    jax.jit(lambda r: record_lib.rows(r, lay(r, t), 7, weight=0.5))(r)
  )
  expected = want(jax.device_get(r), t)
  for name, empty in NOTHING.items():
    cells = [
      [x[name] for x in row] + [empty] * (t - len(row)) for row in expected
    ]
    np.testing.assert_array_equal(
      getattr(rows, name), np.array(cells), err_msg=name
    )
  assert (rows.version == 7).all()


def test_without_spans_of_contexts_what_is_read_is_other():
  r = made()
  rows = record_lib.rows(r, record_lib.per_turn(r), 0)
  assert r.context_span is None
  assert not np.any(rows.span[~rows.sampled])
