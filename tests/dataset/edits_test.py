"""Edits against plain references: what stays keeps its tokens and log-probs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrl.dataset import edits
from agentrl.types import Span, Status
from tests import errors
from tests.dataset.stored_cases import (
  pieces,
  same,
  same_turn,
  stories,
  story,
)

often = settings(deadline=None, max_examples=60)
choices = st.lists(st.booleans(), min_size=6, max_size=6)


def chosen(flags):
  return lambda k, turn: flags[k]


NEVER = chosen([False] * 9)


@often
@given(stories(), st.integers(-2, 7))
def test_a_cut_leaves_the_first_turns(x, turn):
  cut = edits.cut_after(x, turn)
  n = min(max(turn + 1, 0), len(x.turns))
  assert cut.turns == x.turns[:n]
  if n == len(x.turns):
    assert cut is x
  else:
    assert (cut.status, cut.source) == (Status.SCHEDULE, 'edited')
    assert (cut.task, cut.outcome) == (x.task, x.outcome)


@often
@given(stories(), choices)
def test_a_cut_at_the_first_keeps_it(x, flags):
  cut = edits.cut_at_first(x, chosen(flags))
  want = []
  for k, turn in enumerate(x.turns):
    want.append(turn)
    if flags[k]:
      break
  assert same(cut, cut._replace(turns=tuple(want)))


@often
@given(stories(), choices)
def test_dropped_turns_have_no_weight_and_keep_the_rest(x, flags):
  out = edits.drop_turns(x, chosen(flags))
  assert pieces(out) == pieces(x)
  for k, (a, b) in enumerate(zip(out.turns, x.turns, strict=True)):
    if flags[k]:
      assert not a.weight.any()
      assert same_turn(a._replace(weight=b.weight), b)
    else:
      assert a is b


@often
@given(stories(), choices)
def test_a_removed_turn_leaves_with_its_answer(x, flags):
  """As plain lists of tokens: m_k and c_{k+1} go, the rest is in order."""
  out = edits.remove_turns(x, chosen(flags))
  row, read = [], None
  for k, turn in enumerate(x.turns):
    read = turn.context.tolist() if read is None else read
    if not flags[k]:
      row += [read, turn.message.tolist()]
      read = None
  got = [y for t in out.turns for y in (t.context.tolist(), t.message.tolist())]
  assert got == row
  left = [p for p, out_ in zip(pieces(x), flags, strict=False) if not out_]
  assert pieces(out) == left


@often
@given(stories(), choices)
def test_a_message_behind_a_removed_one_was_chosen_where_that_was(x, flags):
  """The context with its spans and weights, and the state, are c_k's."""
  want, first = [], None
  for k, turn in enumerate(x.turns):
    first = turn if first is None else first
    if not flags[k]:
      read = ('context', 'context_span', 'context_weight', 'state')
      want.append(turn._replace(**{n: getattr(first, n) for n in read}))
      first = None
  out = edits.remove_turns(x, chosen(flags))
  assert same(out, out._replace(turns=tuple(want)))


@often
@given(stories('turn'), choices)
def test_a_row_of_a_turn_is_removed_whole(x, flags):
  out = edits.remove_turns(x, chosen(flags))
  want = [t for k, t in enumerate(x.turns) if not flags[k]]
  assert same(out, out._replace(turns=tuple(want)))


def test_a_tree_cannot_lose_a_turn():
  x = story(1, turns=2, history='tree')
  with errors.raises(ValueError, 'tree'):
    edits.remove_turns(x, chosen([True, False]))
  with errors.raises(ValueError, 'tree'):
    edits.only_observations(x)


def test_an_unknown_history_cannot_lose_a_turn():
  x = story(1, turns=2, history='')
  with errors.raises(ValueError, 'full'):
    edits.remove_turns(x, chosen([True, False]))


@often
@given(stories(), st.sets(st.sampled_from([*Span])), choices)
def test_masks_are_of_spans(x, spans, flags):
  out = edits.mask(x, spans=spans, where=chosen(flags))
  inside = spans | ({Span.ARGUMENT} if Span.CALL in spans else set())
  for k, (a, b) in enumerate(zip(out.turns, x.turns, strict=True)):
    want = [
      0.0 if flags[k] and s in inside else w
      for s, w in zip(b.span.tolist(), b.weight.tolist(), strict=True)
    ]
    assert a.weight.tolist() == want
    assert same_turn(a._replace(weight=b.weight), b)


@often
@given(stories())
def test_weights_are_a_function(x):
  out = edits.weighted(x, lambda k, t: (k + 1) * t.weight)
  for k, (a, b) in enumerate(zip(out.turns, x.turns, strict=True)):
    np.testing.assert_array_equal(a.weight, np.float32(k + 1) * b.weight)
  flat = edits.weighted(x, lambda k, t: 0.5)
  assert all(np.all(t.weight == 0.5) for t in flat.turns)
  assert pieces(flat) == pieces(out) == pieces(x)


def test_wrong_weights_are_refused():
  x = story(1, turns=2)
  with errors.raises(ValueError, '0 9'):
    edits.weighted(x, lambda k, t: np.ones(9))
  with errors.raises(ValueError, '0'):
    edits.weighted(x, lambda k, t: -1.0)


@often
@given(stories())
def test_only_answers_are_trained_on(x):
  out = edits.only_observations(x)
  assert pieces(out) == pieces(x)
  for k, (a, b) in enumerate(zip(out.turns, x.turns, strict=True)):
    assert not a.weight.any()
    marked = b.context_span.any()
    want = [
      float(k > 0 and (not marked or s != Span.OTHER)) for s in b.context_span
    ]
    assert a.context_weight.tolist() == want
    np.testing.assert_array_equal(a.context, b.context)


def test_answers_stand_behind_messages_only_in_a_whole_history():
  with errors.raises(ValueError, 'history turn full'):
    edits.only_observations(story(1, turns=2, history='turn'))


@often
@given(stories(), stories(), st.data())
def test_a_splice_is_bad_turns_then_good_ones(bad, good, data):
  k = data.draw(st.integers(0, len(bad.turns)))
  shared = data.draw(st.integers(0, min(k, len(good.turns))))
  between = story(5, turns=1).turns
  out = edits.splice(bad, k, good, shared=shared, correction=between)
  want = [*bad.turns[:k], *between, *good.turns[shared:]]
  assert len(out.turns) == len(want)
  for i, (a, b) in enumerate(zip(out.turns, want, strict=True)):
    if shared <= i < k:
      assert not a.weight.any()
      assert same_turn(a._replace(weight=b.weight), b)
    else:
      assert same_turn(a, b)
  assert (out.outcome, out.status, out.task) == good[3:5] + good[1:2]
  assert out.source == 'edited'


def test_what_cannot_be_spliced_is_refused():
  a, b = story(1, turns=2), story(2, turns=1)
  with errors.raises(ValueError, 'k 3 shared 2 1'):
    edits.splice(a, 3, b)
  with pytest.raises(ValueError):
    edits.splice(a, 1, b._replace(history='turn'))


@often
@given(stories())
def test_hindsight_labels(x):
  assert edits.hindsight(x, lambda x: None) is x
  assert edits.hindsight(x, lambda x: (x.task, x.outcome)) is x
  out = edits.hindsight(x, lambda x: ('reached', 1.0))
  assert (out.task, out.outcome, out.status) == ('reached', 1.0, Status.SOLVED)
  assert out.turns == x.turns


@often
@given(stories())
def test_an_empty_edit_is_the_identity(x):
  for same_one in (
    edits.cut_after(x, len(x.turns)),
    edits.cut_at_first(x, NEVER),
    edits.drop_turns(x, NEVER),
    edits.remove_turns(x, NEVER),
    edits.mask(x),
    edits.mask(x, spans=[*Span], where=NEVER),
    edits.weighted(x, lambda k, t: t.weight),
  ):
    assert same_one is x


@often
@given(stories(), choices, choices, st.integers(-1, 5))
def test_edits_of_weights_commute_with_each_other_and_with_cuts(x, f, g, n):
  def drop(y):
    return edits.drop_turns(y, chosen(f))

  def mask(y):
    return edits.mask(y, spans=[Span.CALL, Span.THOUGHT], where=chosen(g))

  def cut(y):
    return edits.cut_after(y, n)

  for a, b in ((drop, mask), (drop, cut), (mask, cut)):
    assert same(a(b(x)), b(a(x)))
  assert same(drop(drop(x)), drop(x))
  assert same(cut(cut(x)), cut(x))
