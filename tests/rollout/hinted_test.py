"""Hinted readings: the same messages after a text and what was read."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import segment
from agentrl.rollout import hinted
from agentrl.rollout import record as record_lib
from agentrl.rollout.hinted import HintFrame
from agentrl.types import Span
from tests import batches, readings_cases
from tests.readings_cases import TURNS, B, C, K, M, context, message

HINTS = [[70, 71, 72], [], [73]]  # of each trajectory
FRAMES = {
  'bare': HintFrame(),
  'line': HintFrame((60,), (61, 62), 0),
  'system': HintFrame((60, 63), (61,), 2),
}
WIDTH = K * (C + M)


def record():
  """Contexts of two tokens at least, which a template's beginning has."""
  r = readings_cases.made()
  return r.replace(
    context_len=jnp.maximum(r.context_len, 2),
    context_span=jnp.full((B, K, C), Span.INFORMATION, jnp.int8),
  )


def table():
  tokens = np.full((B, 3), 99, np.int32)
  for row, ids in zip(tokens, HINTS, strict=True):
    row[: len(ids)] = ids
  return jnp.asarray(tokens), jnp.array([len(x) for x in HINTS])


def read_of(r, frame: HintFrame, b: int, k: int) -> list[int]:
  own = context(r, b, k)
  if not HINTS[b]:
    return own
  text = [*frame.before, *HINTS[b], *frame.after]
  return text + own[frame.replaces :]


def wanted(r, frame, full: bool) -> dict:
  """(trajectory, turn) -> the tokens before its message in its row."""
  out = {}
  for b in range(B):
    past: list[int] = []
    for k in range(TURNS[b]):
      own = context(r, b, k) if full and k else read_of(r, frame, b, k)
      out[b, k] = (past if full else []) + own
      past = out[b, k] + message(r, b, k)
  return out


def rows_of(r, frame, full: bool):
  hint, length = table()
  t = WIDTH if full else None
  f = jax.jit(lambda r: hinted.hinted_rows(r, hint, length, frame, 7, t))
  return f(r)


@functools.partial(jax.jit, static_argnums=1)
def own_rows(r, full: bool):
  layout = record_lib.full_history(r, WIDTH) if full else record_lib.per_turn(r)
  return record_lib.rows(r, layout, 7)


@pytest.mark.parametrize('full', [False, True])
@pytest.mark.parametrize('frame', FRAMES)
def test_rows_are_the_hint_then_what_was_read_then_the_message(frame, full):
  r = record()
  rows = jax.device_get(rows_of(r, FRAMES[frame], full))
  found = {}
  for n in range(rows.tokens.shape[0]):
    where = zip(rows.traj[n], rows.turn[n], rows.sampled[n], strict=True)
    messages = {(b, k) for b, k, mine in where if mine}
    for b, k in messages:
      mine = rows.sampled[n] & (rows.turn[n] == k) & (rows.traj[n] == b)
      begin = np.argmax(mine)
      assert (b, k) not in found
      assert rows.tokens[n][mine].tolist() == message(r, b, k)
      assert np.all(np.flatnonzero(mine) == begin + np.arange(mine.sum()))
      found[b, k] = rows.tokens[n][:begin].tolist()
      assert np.all(rows.seg[n][: begin + mine.sum()] == 0)
  assert found == wanted(r, FRAMES[frame], full)
  assert not np.any(rows.weight)
  assert np.sum(rows.sampled) == np.sum(own_rows(r, full).sampled)
  # A hint is no part of what was read.
  text = np.isin(rows.tokens, [60, 61, 62, 63, 70, 71, 72, 73])
  assert set(rows.span[text & (rows.seg >= 0)]) == {Span.OTHER}
  assert Span.INFORMATION in rows.span


@pytest.mark.parametrize('full', [False, True])
@pytest.mark.parametrize('frame', FRAMES)
def test_outputs_are_compared_by_index(frame, full):
  """Every sampled token finds itself, whatever stands before it."""
  r = record()
  own, there = own_rows(r, full), rows_of(r, FRAMES[frame], full)
  pairs = [
    (x.sampled, segment.TurnIndex(x.traj, x.turn, B, K)) for x in (there, own)
  ]
  at = jax.jit(lambda x: segment.align(x, *pairs))
  want = np.where(own.sampled, own.tokens, 0)
  np.testing.assert_array_equal(at(there.tokens), want)
  both = jnp.stack([there.tokens, -there.turn], axis=-1)
  turns = np.where(own.sampled, -own.turn, 0)
  np.testing.assert_array_equal(at(both), np.stack([want, turns], -1))


@pytest.mark.nightly
def test_no_hint_is_what_was_sampled():
  r, (hint, _) = record(), table()
  none, system = jnp.zeros(B, jnp.int32), FRAMES['system']
  own = own_rows(r, False)
  for frame in FRAMES.values():
    rows = hinted.hinted_rows(r, hint, none, frame, 7)
    t = own.tokens.shape[1]
    for name in ('tokens', 'seg', 'traj', 'turn', 'logp', 'span', 'sampled'):
      x, y = getattr(rows, name), getattr(own, name)
      np.testing.assert_array_equal(x[:, :t], y, err_msg=name)
    assert not np.any(rows.seg[:, t:] >= 0)
  assert (system.growth(3), HintFrame().growth(3)) == (4, 3)
  assert HintFrame((), (), 9).growth(3) == 0


def test_messages_as_text():
  r = record()
  ends = r.message.at[1, 0, 0].set(1)
  text, size = hinted.messages_as_text(
    r.replace(message=ends), jnp.array([1, -1, 0]), eot=1, line=8
  )
  for b, which in ((0, 1), (2, 0)):
    want = [x for k in range(TURNS[which]) for x in message(r, which, k)]
    if which == 1:
      want[0] = 8
    assert text[b, : size[b]].tolist() == want
  assert size[1] == 0
  assert text.shape == (B, K * M)


def test_the_shortest_other_solution_of_a_group():
  made = batches.lay(batches.story(seed=3, groups=1, members=7)).batch
  b, k = made.turns.valid.shape
  tokens = jnp.array([9.0, 4, 4, 2, 5, 6, 7, 1])[:, None] * jnp.eye(1, k)
  turns = made.turns.replace(
    terms={'tokens': tokens},
    valid=jnp.ones((b, k), bool),
    scored=jnp.ones((b, k), bool).at[3, 0].set(False),
  )
  batch = made.replace(
    ids={'group': jnp.array([0, 0, 0, 0, 0, 2, 2, 1])},
    outcome=jnp.array([1.0, 1.0, 1.0, 1.0, 0.4, 1.0, 0.0, 1.0]),
    turns=turns,
  )
  # The third is unscored; the first of two equal ones goes first.
  want = [1, 2, 1, 1, 1, -1, 5, -1]
  np.testing.assert_array_equal(hinted.solved_sibling(batch), want)
