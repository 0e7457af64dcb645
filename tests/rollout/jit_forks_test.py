"""Forks inside jit: a tree is what separate rollouts would have been."""

import functools

import jax
import numpy as np
import pytest

from agentrl.env.jit.games import family
from agentrl.model import microbatch
from agentrl.rollout import actor, forks, jit_forks
from agentrl.rollout import jit as jit_rollout
from agentrl.rollout.forks import Ask
from agentrl.types import Status
from tests import errors
from tests.rollout import jit_test as rollouts


def sizes(history):
  return jit_rollout.RolloutSizes(slots=4, turns=4, message=2, history=history)


def opened(history, name='sokoban', places=40, params=None):
  def speaker(params):
    return actor.model(
      rollouts.SHAPE, params, message=2, eot=rollouts.WORDS.eot
    )

  return jit_forks.JitForks(
    rollouts.world(name),
    sizes(history),
    speaker,
    params or rollouts.params(),
    jax.random.key(3),
    places=places,
  )


@functools.cache
def grown(history):
  """Two trees, two levels of three and two turns, and a chain to the end."""
  made = opened(history)
  roots = made.begin([0, 1])
  first = made.play([Ask(r, t, i) for t, r in enumerate(roots) for i in (0, 1)])
  asks = [
    Ask(x.place, t, 10 + 2 * i + j)
    for i, (t, x) in enumerate(zip((0, 0, 1, 1), first, strict=True))
    for j in (0, 1)
    if not x.ended
  ]
  second = made.play(asks)
  leaves = [x for x in second if not x.ended]
  third = made.play([Ask(x.place, 0, 50 + i) for i, x in enumerate(leaves)])
  return made, asks, [*first, *second, *third], dict(made.counts)


@pytest.mark.parametrize(
  'history', [pytest.param('turn', marks=pytest.mark.slow), 'full']
)
def test_log_probs_of_branches_are_the_learners(history):
  made, _, played, _ = grown(history)
  record = made.record([x.place for x in played])
  rows = rollouts.rows_of('sokoban', sizes(history), record)
  score = functools.partial(microbatch.forward, rollouts.MODULE.apply)
  forward = jax.jit(score, static_argnums=(2, 3))
  out = forward(rollouts.params(), rows, ('logp',), rows.tokens.shape[0])
  assert int(rows.sampled.sum()) == int(record.message_len.sum()) > 30
  np.testing.assert_allclose(out.logp, rows.logp, atol=1e-5, rtol=0)
  last = record.valid.sum(axis=1) - 1
  of_last = record.logp[np.arange(len(last)), last].sum(axis=1)
  np.testing.assert_allclose([x.logp for x in played], of_last, atol=1e-6)


def test_branches_share_their_past_and_leave_it_alone():
  made, asks, played, _ = grown('full')
  before = made.record([x.place for x in asks])
  after = made.record([x.place for x in played[4 : 4 + len(asks)]])
  for name in ('context', 'message', 'logp', 'state'):
    a, b = getattr(before, name), getattr(after, name)
    np.testing.assert_array_equal(a[:, 0], b[:, 0])
  assert before.valid.sum(axis=1).tolist() == [1] * len(asks)
  assert after.valid.sum(axis=1).tolist() == [2] * len(asks)
  again = made.play([asks[0], asks[0]._replace(call=99)])
  assert again[0].message == played[4].message
  assert again[0].state == played[4].state
  assert made.record([asks[0].place]).valid.sum() == 1


def test_a_message_depends_on_its_task_and_call_alone():
  made = opened('full')
  (root,) = made.begin([2])
  together = made.play([Ask(root, 2, i) for i in range(6)])
  *_, root = made.begin([0, 1, 2])
  apart = [made.play([Ask(root, 2, i)])[0] for i in range(6)]
  assert [x.message for x in together] == [x.message for x in apart]
  assert len({x.message for x in together}) > 1


def test_messages_are_read_as_actions():
  made = opened('full', params=rollouts.acting('sokoban'))
  (root,) = made.begin([0])
  played = made.play([Ask(root, 0, i) for i in range(12)])
  action = made.record([x.place for x in played]).action[:, 0]
  want = [None if x < 0 else str(x) for x in action]
  assert [x.parsed for x in played] == want
  assert len({*want, None}) > 2


def test_reused_tokens_are_those_that_a_replay_reads_again():
  made, _, played, counts = grown('full')
  record = made.record([x.place for x in played])
  length = np.where(record.valid, record.context_len + record.message_len, 0)
  last = record.valid.sum(axis=1) - 1
  at = np.arange(len(last)), last
  whole = length.sum(axis=1) - record.message_len[at]  # read by a replay
  assert counts['read'] + counts['reused'] == whole.sum()
  past = length.sum(axis=1) - length[at]
  assert counts['reused'] == np.maximum(past - 1, 0).sum() > 0
  assert counts['tokens'] == record.message_len[at].sum()
  assert counts['calls'] == counts['env_steps'] == len(played)
  assert counts['replayed'] == 0


@pytest.mark.slow
def test_a_rebuilt_context_has_nothing_to_reuse():
  made, _, played, counts = grown('turn')
  record = made.record([x.place for x in played])
  last = record.valid.sum(axis=1) - 1
  read = record.context_len[np.arange(len(last)), last]
  assert (counts['read'], counts['reused']) == (read.sum(), 0)


def test_ends_are_known_and_valued():
  _, _, played, _ = grown('full')
  assert all(x.value is not None and 0 <= x.value <= 1 for x in played)
  assert all(x.ended for x in played if x.score == 1)


def test_turns_run_out():
  made, _, played, _ = grown('full')
  x = played[-1]
  while not x.ended:
    (x,) = made.play([Ask(x.place, 0, 70)])
  record = made.record([x.place])
  assert record.valid.sum() <= 4
  assert record.status[0] in (Status.SOLVED, Status.TURN_LIMIT)


def test_what_cannot_be_searched_is_refused():
  w = rollouts.world().replace(env=family.TicTacToe().env())
  with errors.raises(ValueError, 'search forks Match'):
    jit_forks.JitForks(
      w, sizes('turn'), lambda p: None, {}, jax.random.key(0), places=1
    )
  made = opened('full', places=1)
  (root,) = made.begin([0])
  with errors.raises(ValueError, 'places 2 got 1'):
    made.play([Ask(root, 0, 0)])
  assert set(made.counts) == set(forks.COUNTS)
