"""Nulled readings: the same messages, one observation taken away."""

import jax
import numpy as np
import pytest

from agentrl.rollout import counterfactual
from tests.readings_cases import (
  NULL,
  TURNS,
  B,
  C,
  K,
  M,
  context,
  made,
  message,
  nulled,
)


def turn_rows(r):
  """(trajectory, turn) -> what the nulled row holds before the message."""
  return {(b, k): [*NULL.tokens] for b in range(B) for k in range(1, TURNS[b])}


def history_rows(r):
  out = {}
  for b, k in turn_rows(r):
    past = [x for j in range(k) for x in context(r, b, j) + message(r, b, j)]
    out[b, k] = [*past, *NULL.tokens]
  return out


WIDTH = K * (C + M)
KINDS = {
  'turn': (jax.jit(lambda r: nulled(r, NULL)), turn_rows),
  'full': (
    jax.jit(lambda r: counterfactual.nulled_history(r, NULL, 7, WIDTH)),
    history_rows,
  ),
}


@pytest.mark.parametrize('kind', KINDS)
def test_rows_are_the_history_then_nothing_then_the_message(kind):
  f, want = KINDS[kind]
  r = made()
  rows = jax.device_get(f(r))
  expected, found = want(r), {}
  assert np.all(rows.weight == 0)
  for n in range(rows.tokens.shape[0]):
    sampled, used = rows.sampled[n], rows.seg[n] >= 0
    assert used.any() == sampled.any()
    if not used.any():
      continue
    ids = {*zip(rows.traj[n][sampled], rows.turn[n][sampled], strict=True)}
    assert len(ids) == 1
    b, k = (int(i) for i in ids.pop())
    assert (b, k) not in found
    before = used & (np.arange(used.size) < np.argmax(sampled))
    found[b, k] = rows.tokens[n][before].tolist()
    assert rows.tokens[n][sampled].tolist() == message(r, b, k)
    size = int(r.message_len[b, k])
    np.testing.assert_array_equal(rows.logp[n][sampled], r.logp[b, k, :size])
    assert used.sum() == len(found[b, k]) + size
    assert np.all(rows.logp[n][~sampled] == 0)
  assert found == expected


def test_a_message_that_was_cut_is_ended_first():
  """As by chat templates: the end of turn is not the agent's, then."""
  r, end = made(), 999
  last = r.message_len[1, 0] - 1
  r = r.replace(message=r.message.at[1, 0, last].set(end))
  null = counterfactual.NullObservation((90, 91), end)
  f = jax.jit(lambda r: counterfactual.nulled_history(r, null, 7, WIDTH))
  rows = jax.device_get(f(r))
  for b, k in turn_rows(r):
    n = b * K + k
    before = np.argmax(rows.sampled[n])
    read = rows.tokens[n, :before].tolist()
    text = [90, 91] if (b, k) == (1, 1) else [end, 90, 91]
    assert read[-len(text) :] == text
    assert read[-len(text) - 1] == message(r, b, k - 1)[-1]
