"""Forks of host environments: a tree is what separate episodes would be."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from agentrl.env.worlds.household import Household
from agentrl.model import microbatch
from agentrl.rollout import forks, host_forks
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Engine, Sizes
from agentrl.rollout.forks import Ask
from agentrl.rollout.workers.replies import InProcessEnv
from agentrl.text import chat_format
from tests import errors
from tests.rollout import chatty
from tests.rollout import host_test as hosts

FAMILY = chatty.Chatty()
TASKS = [x.task for x in FAMILY.tasks('train', 3, 0)]


def opened(history='full', slots=6, workers=3, family=FAMILY, tasks=TASKS):
  limits = dataclasses.replace(hosts.LIMITS, history=history, turns=4)
  world = hosts.stage(family, tasks, limits)
  sizes = Sizes(slots=slots, capacity=300, burst=3, chunk=32, lanes=2)
  engine = Engine(hosts.SHAPE, sizes, eot=hosts.WORDS.eot)
  engine.update_weights(hosts.params(), 5)
  return host_forks.HostForks(
    world,
    engine,
    lambda: InProcessEnv(family, 10_000),
    jax.random.key(3),
    workers=workers,
  )


@functools.cache
def grown(history):
  """Three trees of two turns and two branches each, and a chain."""
  made = opened(history)
  roots = made.begin([0, 1, 2])
  first = made.play([Ask(r, t, i) for t, r in enumerate(roots) for i in (0, 1)])
  live = [(i // 2, x) for i, x in enumerate(first) if not x.ended]
  asks = [Ask(x.place, t, 10 + i) for i, (t, x) in enumerate(live * 2)]
  second = made.play(asks)
  third = [Ask(x.place, 0, 40 + i) for i, x in enumerate(second) if not x.ended]
  played = [*first, *second, *made.play(third)]
  return made, asks, played, dict(made.counts)


@pytest.mark.parametrize(
  'history', ['full', pytest.param('turn', marks=pytest.mark.slow)]
)
def test_log_probs_of_branches_are_the_learners(history):
  made, _, played, _ = grown(history)
  record = made.record([x.place for x in played])
  limits = made._world.limits

  @jax.jit
  def rows(record):
    layout = record_lib.per_turn(record)
    if history == 'full':
      layout = record_lib.full_history(record, limits.context)
    return record_lib.rows(record, layout, 5)

  made_rows = rows(jax.tree.map(np.asarray, record))
  score = functools.partial(microbatch.forward, hosts.MODULE.apply)
  forward = jax.jit(score, static_argnums=(2, 3))
  micro = made_rows.tokens.shape[0]
  out = forward(hosts.params(), made_rows, ('logp',), micro)
  assert int(made_rows.sampled.sum()) > 30
  np.testing.assert_allclose(out.logp, made_rows.logp, atol=1e-5, rtol=0)


def test_what_branches_share_is_read_once():
  made, _, played, counts = grown('full')
  record = made.record([x.place for x in played])
  length = np.where(record.valid, record.context_len + record.message_len, 0)
  last = record.valid.sum(axis=1) - 1
  at = np.arange(len(last)), last
  whole = length.sum(axis=1) - record.message_len[at]  # read by a replay
  assert counts['read'] + counts['reused'] == whole.sum()
  past = length.sum(axis=1) - length[at]
  # The first of two that ask at once reads what both need.
  assert counts['reused'] >= np.maximum(past - 1, 0).sum() > 0


def test_turns_that_are_repeated_are_counted():
  _, asks, played, counts = grown('full')
  assert counts['env_steps'] == counts['calls'] == len(played)
  # Two branches at each place of one turn: one environment stands there.
  assert counts['replayed'] == len(asks) // 2


def test_branches_share_their_past():
  made, asks, played, _ = grown('full')
  before = made.record([x.place for x in asks])
  after = made.record([x.place for x in played[6 : 6 + len(asks)]])
  for name in ('context', 'message', 'logp', 'state', 'reward'):
    a, b = getattr(before, name), getattr(after, name)
    np.testing.assert_array_equal(a[:, 0], b[:, 0])
  assert after.valid.sum(axis=1).tolist() == [2] * len(asks)
  again = made.play([asks[0]])[0]
  assert (again.message, again.score) == (played[6].message, played[6].score)


def test_a_message_depends_on_its_task_and_call_alone():
  made = opened()
  (root,) = made.begin([2])
  together = made.play([Ask(root, 2, i) for i in range(5)])
  *_, root = made.begin([0, 1, 2])
  apart = [made.play([Ask(root, 2, i)])[0] for i in range(5)]
  assert [x.message for x in together] == [x.message for x in apart]
  assert len({x.message for x in together}) > 1
  made.close()


def test_messages_are_read_as_environments_get_them():
  _, _, played, _ = grown('full')
  decode = functools.partial(chat_format.content, hosts.WORDS)
  want = [' '.join(decode(x.message).split()) for x in played]
  assert [x.parsed for x in played] == want
  assert len(set(want)) > 1


def test_malformed_messages_and_thoughts_say_nothing():
  family = Household()
  made = opened(
    family=family, tasks=[x.task for x in family.tasks('train', 2, 0)]
  )
  roots = made.begin([0, 1])
  played = made.play([Ask(x, i % 2, i) for i, x in enumerate(roots * 4)])
  action = made.record([x.place for x in played]).action[:, 0]
  assert (action == -1).any()  # an untrained policy
  for x, a in zip(played, action, strict=True):
    assert (x.parsed is None) == (a == -1)
  text = '<think>the door is shut</think> mug  den\n'
  turn = made._places[played[0].place].episode.turns[0]
  for invalid, want in ((False, 'mug den'), (True, None)):
    ids = hosts.WORDS.encode(text, specials=True)
    turn = turn._replace(spoken=turn.spoken._replace(ids=ids), invalid=invalid)
    assert made._parsed([turn]) == want
  assert made._parsed([]) is None
  made.close()


def test_counts_do_not_depend_on_what_was_played_before():
  made, counts = opened(), []
  for _ in range(2):
    (root,) = made.begin([2])
    made.play([Ask(root, 2, i) for i in range(3)])
    counts.append(dict(made.counts))
  assert counts[0] == counts[1]
  assert counts[0]['read'] > 0
  made.close()


def test_turns_run_out():
  made = opened()
  (place,) = made.begin([1])
  ended = []
  while not any(ended):
    (x,) = made.play([Ask(place, 0, len(ended))])
    place = x.place
    ended.append(x.ended)
  assert len(ended) <= 4
  assert set(made.counts) >= set(forks.COUNTS)


def test_what_cannot_be_replayed_is_refused():
  with errors.raises(ValueError, 'search rollout.history compact'):
    opened('compact')
