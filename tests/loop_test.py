"""The loop with stages that only write down what is asked of them."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop
from agentrl.preemption import Stopped
from tests import batches
from tests import counting_cases as cases
from tests.counting_cases import B, off

STAGES = (('sft', 0, 3), ('rl', 3, 7))


class State(NamedTuple):
  step: np.ndarray


class Book:
  """Everything that a loop writes to, in the order of writing."""

  def __init__(self):
    self.lines = []

  def write(self, step, scalars, *, phase):
    assert 'time/seconds' in scalars
    self.lines.append(('row', step, phase))

  def save(self, step, state, meta):
    assert state.step == step
    self.lines.append(('save', step))

  def push(self, step, phase, kept):
    self.lines.append(('kept', step, phase))

  def update(self, step, scalars):
    pass

  drain = flush = lambda self: None

  def only(self, kind):
    return [x[1:] for x in self.lines if x[0] == kind]


def run(
  first=0, *, stages=STAGES, due=(), every=100, stop=None, skipped=lambda s: 0
) -> Book:
  book = Book()

  def begin(name, state):
    book.lines.append(('begin', name))
    return state

  def update(name, state, batch):
    step = int(state.step)
    assert batch == ('batch', ('tasks', step), step)
    book.lines.append(('update', name, step))
    told = {'policy/skipped': np.float32(skipped(step))}
    return State(state.step + 1), told, None

  def stopping():
    if len(book.only('update')) + first == stop:
      raise Stopped('SIGTERM')

  def evaluate(state, step):
    assert state.step == step
    book.lines.append(('evaluate', step))
    return {}

  made = [
    loop.Stage(
      name, start, end,
      begin=functools.partial(begin, name),
      tasks=lambda step: ('tasks', step),
      sample=lambda state, tasks, step: ('batch', tasks, step),
      observe=lambda batch: {'rollout/seen': np.float32(1)},
      update=functools.partial(update, name),
    )
    for name, start, end in stages
  ]  # fmt: skip
  watch = loop.Watch(evaluate, lambda done: done in due, every, stopping)
  try:
    loop.run(
      made, State(np.array(first)), watch, book, book, book, book, lambda: 0.0
    )
  except (Stopped, loop.NotFiniteError) as error:
    book.lines.append(('raised', str(error)))
  return book


def test_stages_follow_each_other_on_one_counter():
  book = run()
  steps = [('sft', i) for i in range(3)] + [('rl', i) for i in range(3, 7)]
  assert book.only('update') == steps
  assert book.only('begin') == [('sft',), ('rl',)]
  at = [x for x in book.lines if x[0] in ('begin', 'update')]
  assert at.index(('begin', 'rl')) == at.index(('update', 'rl', 3)) - 1
  rows = [(step + 1, name) for name, step in steps]
  assert book.only('row') == rows
  assert book.only('kept') == rows
  assert book.only('save') == [(7,)]


@pytest.mark.parametrize('first', range(1, 7))
def test_a_resumed_run_does_what_is_left(first):
  """A stage begins again only where it begins."""
  book, whole = run(first), run()
  left = [x for x in whole.only('update') if x[1] >= first]
  assert book.only('update') == left
  assert book.only('begin') == ([('rl',)] if first <= 3 else [])
  assert book.only('row') == [(step + 1, name) for name, step in left]


def test_what_is_saved_has_its_rows():
  """A resumed run must find the row of every step that it does not repeat."""
  book = run(every=2)
  assert book.only('save') == [(2,), (4,), (6,), (7,)]
  for at, line in enumerate(book.lines):
    if line[0] == 'save':
      before = [x[1] for x in book.lines[:at] if x[0] == 'row']
      assert before == list(range(1, line[1] + 1))


def test_evaluations_see_the_state_after_the_step():
  book = run(due=(0, 3, 7))
  assert book.only('evaluate') == [(0,), (3,), (7,)]
  evaluated = [(step, 'eval') for step in (0, 3, 7)]
  assert [x for x in book.only('row') if x[1] == 'eval'] == evaluated
  assert run(4, due=(0, 4, 7)).only('evaluate') == [(7,)]


@pytest.mark.parametrize('stop', [0, 2, 5])
def test_a_stopped_run_is_saved_once_where_it_stopped(stop):
  book = run(every=2, stop=stop)
  assert len(book.only('update')) == stop
  assert book.lines[-1][0] == 'raised'
  assert f'stopped by SIGTERM after step {stop}' in book.lines[-1][1]
  saved = [(x,) for x in range(1, stop + 1) if x % 2 == 0 or x == stop]
  assert book.only('save') == saved


def test_updates_without_a_finite_gradient_end_the_run_if_in_a_row():
  longest = ('rl', 0, 4 * loop.PATIENCE)
  last = lambda skip: run(stages=[longest], skipped=skip).lines[-1]  # noqa: E731
  often = last(lambda step: step % loop.PATIENCE > 0)
  assert often == ('save', longest[2])
  kind, text = last(lambda step: step >= 5)
  done = 5 + loop.PATIENCE + 1  # the last row is read a step late
  assert kind == 'raised'
  assert f'no finite gradient at step {done};' in text
  book = run(stages=[longest], skipped=lambda step: step >= 5)
  assert book.only('save') == [(done,)]


def test_what_is_observed_in_plain_loops():
  s = batches.story(7)
  batch = batches.lay(s, padding=2).batch
  valid = batch.turns.valid
  r = np.random.default_rng(0)
  terms = {
    name: np.where(valid, r.uniform(1, 5, valid.shape), 0)
    for name in ('tokens', 'entropy', 'invalid')
  }
  # What did not happen holds noise in all that is masked.
  terms['progress'] = r.normal(size=valid.shape)
  took = {'attempts': 9, 'tokens': 70, 'env_steps': 30}
  batch = batch.replace(
    turns=batch.turns.replace(terms=terms),
    sampled={name: jnp.int32(x) for name, x in took.items()},
  )
  told = loop.observe(batch)
  told = {k: float(s) / float(w) for k, (s, w) in told.items()}
  n = len(s.group)
  turns = [len(x) for x in s.size]
  assert sum(x > 0.5 for x in s.outcome) not in (0, n)
  want = {
    'success': sum(x > 0.5 for x in s.outcome) / n,
    'return': sum(map(sum, s.reward)) / n,
    'turns': sum(turns) / n,
    **took,
    'unscored': 2,  # what has no turns is as what broke at its beginning
    'entropy': terms['entropy'].sum() / terms['tokens'].sum(),
    'invalid': terms['invalid'].sum() / sum(turns),
    'progress': terms['progress'][valid].sum() / sum(turns),
  }
  assert told.keys() >= {f'rollout/{k}' for k in want}
  for name, x in want.items():
    np.testing.assert_allclose(told[f'rollout/{name}'], x, rtol=1e-5)


def _told(kind, **changes):
  case = cases.make(kind)
  sampled = {'attempts': 40, 'tokens': 999, 'env_steps': 123}
  sampled = {name: jnp.int32(x) for name, x in sampled.items()}
  told = loop.observe(case.batch.replace(sampled=sampled, **changes))
  return case.batch, {k: (float(x), float(w)) for k, (x, w) in told.items()}


def test_means_are_over_what_counts_and_the_rest_stands_beside():
  batch, got = _told('left_out')
  _, want = _told('without')
  assert got == want
  assert got.pop('rollout/unscored') == (len(cases.OFF), 1)
  solved = np.asarray(batch.outcome)[~off] > 0.5
  assert got['rollout/success'] == (solved.sum(), B - len(cases.OFF))
  turns = np.asarray(batch.turns.valid)[~off].sum()
  assert got['rollout/turns'] == (turns, B - len(cases.OFF))
  assert got['rollout/progress'][1] == got['rollout/invalid'][1] == turns
  assert max(abs(x) for x, _ in got.values()) < 1000


def test_a_budget_is_what_was_sampled_and_not_what_is_left():
  _, got = _told('left_out')
  for name, x in (('attempts', 40), ('tokens', 999), ('env_steps', 123)):
    assert got[f'rollout/{name}'] == (x, 1)
