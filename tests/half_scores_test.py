"""A score of exactly one half is no success, wherever successes are counted."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import evaluate, loop
from agentrl.collect import retry
from agentrl.curate import select
from agentrl.dataset import trajectory
from agentrl.gateway import programs
from agentrl.memory import skills, task_statistics
from agentrl.prefix import lengths
from agentrl.rollout import hinted
from agentrl.run.play import readings
from agentrl.types import SAMPLED, Batch, Status

HALF = 0.5
OVER = float(np.nextafter(np.float32(0.5), np.float32(1)))
SCORES = [HALF, OVER, HALF, 1.0, HALF, 0.0]  # three groups of two
SOLVED = [False, True, False, True, False, False]


def batch(scores=SCORES):
  n = len(scores)
  return Batch.from_turns(
    [[[3, 4]]] * n,
    [[[-1.0, -1.0]]] * n,
    reward=[[0.0]] * n,
    group=[i // 2 for i in range(n)],
    outcome=scores,
  )


def observed(made):
  terms = {'tokens': jnp.full((6, 1), 2.0), 'entropy': jnp.zeros((6, 1))}
  taken = {name: jnp.int32(6) for name in SAMPLED}
  return made.replace(turns=made.turns.replace(terms=terms), sampled=taken)


def test_in_training():
  won, count = loop.observe(observed(batch()))['rollout/success']
  assert (float(won), float(count)) == (2, 6)
  status = np.asarray(batch().status)
  np.testing.assert_array_equal(status == Status.SOLVED, SOLVED)


def test_of_attempts_that_began_alone():
  made = observed(batch())
  zero = jnp.zeros(6, jnp.int32)
  made = made.replace(ids=made.ids | {'prefix': zero, 'prefix_cut': zero})
  won, count = loop.observe_components(made, (lengths.measure,))[
    'rollout/success_alone'
  ]
  assert (float(won), float(count)) == (2, 6)


def test_in_evaluations():
  scores = np.float32(SCORES)
  turns, status = np.arange(6) ** 2, np.full(6, Status.FAILED)
  ended = evaluate.Ended(scores, turns, status, {}, np.zeros(6))
  told = evaluate.measure([ended], 6, 3)
  assert told['eval/solved'] == 2
  assert told['eval/success'] == pytest.approx(1 / 3)
  assert told['eval/turns_solved'] == (1 + 9) / 2


def test_in_what_is_known_of_tasks():
  attempted = {
    'task': jnp.arange(6) // 2,
    'outcome': jnp.float32(SCORES),
    'counts': jnp.ones(6, bool),
  }
  made = types.SimpleNamespace(attempted=attempted)
  memory = task_statistics.task_statistics()
  state = memory.init(made, 3)
  after = memory.write(state, made, None, jnp.int32(0))
  np.testing.assert_array_equal(after.solved, [1, 1, 0])
  np.testing.assert_array_equal(after.unsolved, [0, 0, 1])


def test_in_the_curve_of_a_skill():
  attempted = {
    'task': jnp.arange(6) // 2,
    'outcome': jnp.float32(SCORES),
    'counts': jnp.ones(6, bool),
  }
  none, count = jnp.zeros(3, bool), jnp.int32(0)
  practice = skills.Practice(jnp.arange(3), none, none, count, count)
  made = types.SimpleNamespace(attempted=attempted, practice=practice)
  memory = skills.skills(capacity=3)
  after = memory.write(memory.init(made, 3), made, None, jnp.int32(0))
  np.testing.assert_array_equal(after.won[:, -1], [1, 1, 0])


def test_where_a_group_is_attempted_again():
  failed = retry.failed_groups(batch())
  np.testing.assert_array_equal(failed, [False] * 4 + [True] * 2)


def test_of_a_sibling_that_is_a_hint():
  found = hinted.solved_sibling(observed(batch()))
  np.testing.assert_array_equal(found, [1, -1, 3, -1, -1, -1])


def test_of_an_attempt_that_is_told_how_it_ended():
  hint = types.SimpleNamespace(source='outcome')
  told = readings._rows_of_table(hint, batch())
  np.testing.assert_array_equal(np.asarray(told) == 1, SOLVED)


def test_of_solutions_that_are_kept():
  """Groups with a solution and a failure are varied; the last is not."""
  made = batch()
  kept = select._on_correct(made, jnp.zeros(6), 1.0)
  some = np.asarray(kept.turns.scored & made.turns.valid).any(1)
  np.testing.assert_array_equal(some, [True] * 4 + [False] * 2)


@pytest.mark.parametrize(('score', 'solved'), [(HALF, False), (OVER, True)])
def test_of_programs_and_stored_trajectories(score, solved):
  assert (programs._status(score, None) == Status.SOLVED) == solved
  limit = programs._status(score, Status.TIME_LIMIT)
  assert limit == (Status.SOLVED if solved else Status.TIME_LIMIT)
  assert (trajectory.status_of(score) == Status.SOLVED) == solved
