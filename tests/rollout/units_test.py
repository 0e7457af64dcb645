"""Units: who plays what, what each role is told, and what faults cost."""

import collections
import itertools

import numpy as np
import pytest

from agentrl.env.proposals import Proposal
from agentrl.rollout import pack, units
from agentrl.rollout.engine.engine import Completion
from agentrl.task.base import make_attempts
from agentrl.types import Agent, Status

SIZE = 4


class Words:
  """Proposes what it was told: a number is a task, which it answers."""

  def seed(self, task):
    return {'seed': task['name']}

  def proposed(self, seed, messages, observations):
    text = messages[-1] if messages else ''
    if text == 'raise':
      raise RuntimeError('no')
    if text.isdecimal():
      return Proposal(text, {'number': text, 'of': seed['seed']})
    fault = text if text in ('leak', 'held_out') else 'format'
    return Proposal(text, fault=fault)

  def answer(self, task, message):
    return message.strip('?')


def turn(text, calls=0.0):
  message = Completion(0, [1], [0.0], [0.0], [0])
  return pack.TurnData(
    [], message, 0, 0.0, False, {'calls': calls}, observation=text
  )


def episode(text, score=1.0, calls=(0.0,), status=None):
  """What was said stands in the observations here."""
  status = (
    (Status.SOLVED if score else Status.FAILED) if status is None else (status)
  )
  return pack.Episode([turn(text, x) for x in calls], status, score)


class Session:
  """Plays what a table says: by place; remembers what it was asked."""

  def __init__(self, table):
    self.table, self.asked = table, []

  def __call__(self, tasks, attempts):
    self.asked.append((list(tasks), attempts))
    nothing = pack.Episode((), Status.SCHEDULE, 0.0)
    return [
      self.table[i] if limit else nothing
      for i, limit in enumerate(attempts.limit)
    ]


def played(table, count):
  attempts = make_attempts(np.arange(count * SIZE) // SIZE, SIZE, 3, 1.0)
  tasks = [{'name': f't{i}'} for i in range(count)]
  session = Session(table)
  said = lambda x: x.observation  # noqa: E731
  made = units.play(Words(), tasks, said, attempts, SIZE, session)
  return made, session


def info(episode, name):
  return [x.info.get(name, 0.0) for x in episode.turns]


def test_solvers_get_the_task_that_their_proposer_wrote():
  table = [episode(str(i)) for i in range(2 * SIZE)]
  made, session = played(table, 2)
  (seeds, first), (tasks, second) = session.asked
  proposes = np.arange(8) % SIZE == 0
  np.testing.assert_array_equal(first.limit, np.where(proposes, 3, 0))
  np.testing.assert_array_equal(second.limit, np.where(proposes, 0, 3))
  assert [seeds[first.task[i]] for i in (0, 4)] == [
    {'seed': 't0'},
    {'seed': 't1'},
  ]
  for i in range(8):
    want = {'number': str(i // SIZE * SIZE), 'of': f't{i // SIZE}'}
    assert tasks[second.task[i]] == want
  assert [x.turns[0].observation for x in made.episodes] == [*'01234567']
  np.testing.assert_array_equal(
    made.agent, np.where(proposes, Agent.PROPOSER, Agent.SOLVER)
  )
  np.testing.assert_array_equal(made.unit, np.arange(8) // SIZE)
  # Solvers of one task, and all proposers with each other.
  np.testing.assert_array_equal(made.attempts.group, [2, 0, 0, 0, 2, 1, 1, 1])
  np.testing.assert_array_equal(made.attempts.task, np.arange(8) // SIZE)
  assert made.scored.all()
  assert made.counts == {}


FAULTS = ['', 'rubbish', 'leak', 'raise', 'held_out']


def test_a_fault_costs_its_own_unit_only():
  """Each at each place, beside units that are as they are without it."""
  good = [episode(str(i), i % 3 > 0) for i in range(3 * SIZE)]
  whole, _ = played(good, 3)
  for fault, u in itertools.product(FAULTS, range(3)):
    table = list(good)
    table[u * SIZE] = episode(fault, 0.0)
    made, session = played(table, 3)
    here = np.arange(3 * SIZE) // SIZE == u
    first = np.arange(3 * SIZE) % SIZE == 0
    np.testing.assert_array_equal(
      made.attempts.limit, np.where(here & ~first, 0, 3)
    )
    np.testing.assert_array_equal(session.asked[1][1].limit > 0, ~here & ~first)
    unknown = fault in ('raise', 'held_out')
    np.testing.assert_array_equal(made.scored, ~(here & first & unknown))
    name = {'': 'format', 'rubbish': 'format', 'raise': 'raised'}
    assert made.counts == {f'proposals/{name.get(fault, fault)}': 1}
    for i in np.flatnonzero(~here):
      a, b = made.episodes[i], whole.episodes[i]
      assert a.status == b.status
      for x, y in zip(a.turns, b.turns, strict=True):
        alike = {'alike': 0.0}  # of the whole batch
        assert {**x.info, **alike} == {**y.info, **alike}
    assert not any(
      made.episodes[i].turns for i in np.flatnonzero(here & ~first)
    )
    assert info(made.episodes[u * SIZE], 'is_task') == [0.0]


def test_what_a_limit_cut_is_no_proposal():
  table = [episode(str(i)) for i in range(SIZE)]
  table[0] = episode('7', 0.0, status=Status.TURN_LIMIT)
  made, _ = played(table, 1)
  assert made.counts == {'proposals/format': 1}


def test_a_broken_environment_is_no_proposal_and_no_failure():
  table = [episode(str(i)) for i in range(2 * SIZE)]
  table[0] = pack.Episode((), Status.ENV_ERROR, 0.0, 'broke')
  table[5] = episode('4', 0.0, status=Status.ENV_ERROR)
  made, _ = played(table, 2)
  assert made.episodes[0] == table[0]
  assert made.episodes[5] == table[5]
  # Of the second unit two of three solvers are left.
  assert info(made.episodes[4], 'solved') == [1.0]
  for i in (5, 6, 7):
    table[i] = episode('4', 0.0, status=Status.ENV_ERROR)
  made, _ = played(table, 2)
  assert not made.scored[4]  # nobody has tried what it wrote


def test_terms_stand_on_last_turns():
  table = [
    episode('5', calls=(1.0, 0.0)),
    episode('x', 1.0, (1.0, 1.0, 0.0)),
    episode('y?', 0.0, (0.0,)),
    episode('x?', 0.5, (2.0, 0.0)),
  ]
  made, _ = played(table, 1)
  want = {
    'is_task': 1,
    'solved': 0.5,
    'agreement': 2 / 3,
    'solver_calls': 4 / 3,
  }
  for x in made.episodes:
    for name, value in want.items():
      got = info(x, name)
      assert got[-1] == pytest.approx(value)
      assert not any(got[:-1])
  assert [info(x, 'agrees')[-1] for x in made.episodes] == [0, 1, 0, 1]
  assert [info(x, 'alike')[-1] for x in made.episodes] == [1, 0, 0, 0]
  assert [info(x, 'calls') for x in made.episodes] == [
    info(x, 'calls') for x in table
  ]


def test_results_against_a_count_of_all_short_votes():
  for n in range(5):
    for answers in itertools.product(('', 'a', 'b'), repeat=n):
      terms, agrees = units.results(answers, [0.25] * n, [2.0] * n)
      votes = collections.Counter(answers)
      del votes['']
      most = max(votes.values(), default=0)
      assert terms['agreement'] == pytest.approx(most / n if n else 0)
      assert terms['solved'] == pytest.approx(0.25 * (n > 0))
      assert terms['solver_calls'] == pytest.approx(2.0 * (n > 0))
      assert sum(agrees) == most
      winners = {x for x, y in zip(answers, agrees, strict=True) if y}
      assert len(winners) == (most > 0)
      assert '' not in winners


def test_likeness_is_of_words():
  texts = ['24: 2 3 4', '24: 2 3 4', '24: 2 3 5', '90: 7 8 9', '']
  shares = units.alike(texts)
  np.testing.assert_allclose(shares, [0.6, 0.6, 0.6, 0.2, 0.2])
  np.testing.assert_allclose(units.alike(['x'] * 4), 1.0)
