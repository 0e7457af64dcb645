"""Episodes as arrays, against the lists that they were made of."""

import numpy as np

from agentrl.rollout import pack
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Completion
from agentrl.task.base import make_attempts
from agentrl.types import Span, Status


def turn(context, ids, reward, *, invalid=False, **info):
  n = len(ids)
  message = Completion(0, ids, [-0.5] * n, [0.25] * n, [7] * n)
  return pack.TurnData(context, message, 11, reward, invalid, info)


def test_a_record_holds_what_lists_held_and_nothing_behind_it():
  episodes = [
    pack.Episode(
      [turn([1, 2, 3], [4, 5], 0.5, progress=0.1), turn([6], [7], 0.0)],
      Status.SOLVED,
      1.0,
    ),
    pack.Episode([turn([8], [9], 0.25, invalid=True)], Status.TURN_LIMIT, 0.25),
    pack.Episode([], Status.ENV_ERROR, 0.0),
  ]
  r = pack.record(episodes, 3, 4, 2, ['progress'])
  np.testing.assert_array_equal(r.valid.sum(1), [2, 1, 0])
  np.testing.assert_array_equal(r.context[0, 0], [1, 2, 3, 0])
  np.testing.assert_array_equal(r.context_len, [[3, 1, 0], [1, 0, 0], [0] * 3])
  np.testing.assert_array_equal(r.message_len, [[2, 1, 0], [1, 0, 0], [0] * 3])
  np.testing.assert_array_equal(r.message[0, 1], [7, 0])
  np.testing.assert_array_equal(r.logp[0, :2], [[-0.5, -0.5], [-0.5, 0]])
  np.testing.assert_array_equal(r.version[0, 1], [7, 0])
  np.testing.assert_allclose(r.entropy[0], [0.5, 0.25, 0])
  np.testing.assert_array_equal(r.action[:, 0], [0, -1, -1])
  # A fact that a turn does not tell is 0.
  np.testing.assert_allclose(r.columns['progress'][0], [0.1, 0, 0], rtol=1e-6)
  np.testing.assert_array_equal(r.outcome, [1.0, 0.25, 0.0])
  assert r.status.tolist() == [e.status for e in episodes]


def test_without_a_prefix_no_message_is_given():
  message = pack.given(make_attempts(np.arange(2), 1, 3, 1.0), 3, 2)
  assert message(0, 0, 11) is None


def test_spans_of_what_is_read_and_written_are_where_the_tokens_are():
  spans = dict(span=[Span.CALL, Span.OTHER], context_span=[Span.INFORMATION])
  marked = turn([1], [4, 5], 0.0)._replace(**spans)
  r = pack.record(
    [pack.Episode([turn([2], [3], 0.0), marked], Status.SOLVED, 1.0)],
    2,
    2,
    3,
    (),
  )
  assert r.span.tolist() == [[[0] * 3, [Span.CALL, 0, 0]]]
  assert r.context_span.tolist() == [[[0, 0], [Span.INFORMATION, 0]]]


def test_branches_are_segments_one_behind_the_other():
  """Whose context is all that they read, and answers no turn before."""
  whole = turn([1, 2], [3], 0.0)
  branch = turn([1, 2, 3, 4], [5], 0.0)._replace(branch=True)
  more = turn([6], [7], 1.0)
  r = pack.record(
    [
      # That the first turn begins a segment says nothing.
      pack.Episode([branch, more], Status.SOLVED, 1.0),
      pack.Episode([whole, branch, more], Status.SOLVED, 1.0),
    ],
    3,
    4,
    1,
    (),
    branches=True,
  )
  np.testing.assert_array_equal(r.seg, [[0, 0, 0], [0, 1, 1]])
  layout = record_lib.full_history(r, 12)
  rows = record_lib.rows(r, layout, 0)
  tokens, none = [1, 2, 3, 1, 2, 3, 4, 5, 6, 7], [-1, -1]
  np.testing.assert_array_equal(rows.tokens[1], [*tokens, 0, 0])
  np.testing.assert_array_equal(rows.seg[1], [0] * 3 + [1] * 7 + none)
  np.testing.assert_array_equal(
    rows.turn[1], [-1, -1, 0, -1, -1, -1, -1, 1, 1, 2, *none]
  )
  np.testing.assert_array_equal(
    rows.weight[1], [0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0]
  )
  np.testing.assert_array_equal(rows.seg[0], [0] * 7 + [-1] * 5)
  plain = pack.record([pack.Episode([whole], 0, 0.0)], 3, 4, 1, ())
  assert plain.seg is None
