"""Messages in three parts: how they are read, and how they are shown."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.rollout import hierarchical, record
from agentrl.types import Span

KEEP, SWITCH, TAG, LEFT, END = 7, 8, 9, 5, 1
SAID = {
  (0, 0): [SWITCH, LEFT, LEFT, TAG, LEFT, END],
  (0, 1): [KEEP, LEFT, TAG, LEFT, END],
  (0, 2): [KEEP, TAG, TAG, END],  # the first tag counts
  (1, 0): [LEFT, LEFT],  # no tag: a failed action
  (1, 1): [TAG, LEFT, END],  # a tag that stands where the decision should
  (1, 2): [SWITCH],
}
SPANS = {
  (0, 0): 'SWITCH SUBGOAL SUBGOAL CALL CALL CALL',
  (0, 1): 'SWITCH SUBGOAL CALL CALL CALL',
  (0, 2): 'SWITCH CALL CALL CALL',
  (1, 0): 'SWITCH CALL',
  (1, 1): 'SWITCH CALL CALL',
  (1, 2): 'SWITCH',
}


def _record():
  """One token of context; what follows a message is a tag, and not read."""
  made = record.empty(2, 4, 2, 6, ())
  message = np.full(made.message.shape, TAG)
  length = np.zeros((2, 4), np.int32)
  for at, said in SAID.items():
    message[at][: len(said)], length[at] = said, len(said)
  message[0, 3, 0] = SWITCH  # a turn that did not happen
  return made.replace(
    message=jnp.asarray(message),
    message_len=jnp.asarray(length),
    context_len=jnp.ones((2, 4), jnp.int32),
    valid=jnp.asarray(length > 0),
  )


@pytest.mark.parametrize('layout', ['per_turn', 'full_history'])
def test_spans_of_rows(layout):
  r = jax.jit(hierarchical.mark, static_argnums=(1, 2))(_record(), SWITCH, TAG)
  np.testing.assert_array_equal(
    r.columns['switch'], [[1, 0, 0, 0], [0, 0, 1, 0]]
  )

  @jax.jit
  def rows_of(r):
    if layout == 'per_turn':
      return record.rows(r, record.per_turn(r), 0)
    return record.rows(r, record.full_history(r, 40), 0)

  rows = jax.device_get(rows_of(r))
  for (b, k), said in SAID.items():
    here = (rows.traj == b) & (rows.turn == k) & rows.sampled
    np.testing.assert_array_equal(rows.tokens[here], said)
    want = [int(Span[name]) for name in SPANS[b, k].split()]
    np.testing.assert_array_equal(rows.span[here], want)
  assert not np.any(rows.span[~rows.sampled])


def test_a_record_that_nobody_marked_has_no_spans():
  r = _record()
  assert not np.any(record.rows(r, record.per_turn(r), 0).span)


def test_new_subgoals():
  got = hierarchical.new_subgoals(
    np.array([[2, 2, 0, 0, 2, -1], [1, -1, -1, -1, -1, -1]])
  )
  want = [[1, 0, 1, 0, 1, 0], [1, 0, 0, 0, 0, 0]]
  np.testing.assert_array_equal(got, want)
