"""Training with stages that only write down what is asked of them."""

import collections
import dataclasses
import itertools
import types

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import hooks, loop, optimizer, registry
from agentrl.configs import grpo
from agentrl.log.sample import TrajectoryLogger
from agentrl.run import training
from agentrl.runtime.preemption import Stopped

STAGES = (('sft', 0, 3), ('rl', 3, 7))


class Book:
  """Everything that a loop writes to, in the order of writing."""

  def __init__(self, evaluated=()):
    self.lines = []
    self.evaluated = evaluated.__contains__  # before it was resumed

  def write(self, step, scalars, *, phase):
    assert 'time/seconds' in scalars
    self.lines.append(('row', step, phase))

  def save(self, step, state, meta):
    assert state.step == step
    self.lines.append(('save', step))

  def only(self, kind):
    return [x[1:] for x in self.lines if x[0] == kind]


@dataclasses.dataclass
class Stage:
  name: str
  start: int
  end: int
  book: Book
  skipped: object
  algorithm: object = None
  collectors: tuple = ()
  in_jobs: bool = False
  experiment: object = dataclasses.field(
    default_factory=lambda: types.SimpleNamespace(
      config=grpo.get_config('tiny')
    )
  )

  @property
  def kind(self):
    return self.name

  def open(self, step):
    self.book.lines.append(('open', self.name, step))

  def begin(self, state):
    self.book.lines.append(('begin', self.name))
    return state

  def task(self, state, step):
    return 'tasks', step

  def collect(self, state, attempts, step):
    return ('batch', attempts, step), {'rollout/seen': np.float32(1)}

  def update(self, alg, state, batch):
    step = int(state.step)
    assert batch == ('batch', ('tasks', step), step)
    self.book.lines.append(('update', self.name, step))
    metrics = {'policy/nonfinite_skips': np.float32(self.skipped(step))}
    return state_at(step + 1), metrics, {'x': jnp.zeros(())}


def state_at(step: int):
  return types.SimpleNamespace(step=np.array(step))


@pytest.fixture(autouse=True)
def _not_compiled(monkeypatch):
  """Stages write down every update, not only that it is traced."""

  def as_it_is(alg, update):
    return lambda state, batch: update(alg, state, batch)

  monkeypatch.setattr(loop, 'jit_update', as_it_is)


def run(
  first=0,
  *,
  stages=STAGES,
  due=(),
  every=100,
  stop=None,
  skipped=lambda s: 0,
  evaluated=(),
  cut=None,
  left_after=None,
  kind=Stage,
) -> Book:
  book = Book(evaluated)

  def stopping():
    if len(book.only('update')) + first == stop:
      raise Stopped('SIGTERM')

  def evaluate(state, step):
    assert state.step == step
    if step == cut:
      raise Stopped('SIGTERM')
    book.lines.append(('evaluate', step))
    return {}

  def log(step, phase, sample):
    book.lines.append(('kept', step, phase))

  steps = training.train_stages(
    [kind(*x, book, skipped) for x in stages],
    state_at(first),
    book,
    TrajectoryLogger(log, lambda: None),
    evaluate=evaluate,
    due=lambda done: done in due,
    save_every=every,
    stopping=stopping,
  )
  try:
    collections.deque(itertools.islice(steps, left_after), maxlen=0)
    steps.close()
  except (Stopped, hooks.NotFiniteError) as error:
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
  resumed = run(4, due=(0, 4, 7), evaluated=(0, 4))
  assert resumed.only('evaluate') == [(7,)]


@pytest.mark.parametrize('cut', [0, 2, 3, 5, 7])
@pytest.mark.parametrize('every', [1, 100])
def test_an_evaluation_that_a_stop_cuts_is_repeated(cut, every):
  """Its step is saved, and it has no row before the run goes on."""
  due = (0, 2, 3, 5, 7)
  book = run(due=due, cut=cut, every=every)
  assert f'stopped by SIGTERM after step {cut}' in book.lines[-1][1]
  assert book.only('save')[-1:] == ([(cut,)] if cut else [])
  before = [x for x in due if x < cut]
  assert book.only('evaluate') == [(x,) for x in before]
  assert (cut, 'eval') not in book.only('row')
  rest = run(cut, due=due, evaluated=before)
  assert rest.only('evaluate') == [(x,) for x in due if x >= cut]
  assert rest.only('update') == run().only('update')[cut:]
  rows = [*book.only('row'), *rest.only('row')]
  whole = run(due=due).only('row')
  assert rows == whole


def test_data_that_a_stop_cuts_are_opened_again():
  """A stop may also come while a stage opens what it is trained on."""

  @dataclasses.dataclass
  class Slow(Stage):
    def open(self, step):
      raise Stopped('SIGINT')

  for first in (0, 2):
    book = run(first, stages=[('rl', 0, 4)], kind=Slow)
    assert f'after step {first},' in book.lines[-1][1]
    assert not book.only('save')


@pytest.mark.parametrize('stop', [0, 2, 5])
def test_a_stopped_run_is_saved_once_where_it_stopped(stop):
  book = run(every=2, stop=stop)
  assert len(book.only('update')) == stop
  assert book.lines[-1][0] == 'raised'
  assert f'stopped by SIGTERM after step {stop}' in book.lines[-1][1]
  saved = [(x,) for x in range(1, stop + 1) if x % 2 == 0 or x == stop]
  assert book.only('save') == saved
  # So does one whose caller leaves it.
  assert run(every=2, left_after=stop).only('save') == saved


def test_updates_without_a_finite_gradient_end_the_run():
  longest = ('rl', 0, 4 * hooks.MAX_NONFINITE_UPDATES)
  book = run(stages=[longest], skipped=lambda step: step >= 5)
  done = 5 + hooks.MAX_NONFINITE_UPDATES + 1  # the last row is read a step late
  assert f'no finite gradient at step {done};' in book.lines[-1][1]
  assert book.only('save') == [(done,)]


def stale(loss='ppo', **changes):
  """An experiment whose batches are 4 updates old, as far as it is read."""
  c = grpo.get_config('tiny')
  c.staleness.update({'bound': 4, 'anchor': 'behaviour'} | changes)
  spec = registry.MethodSpec(loss=('entropy', loss), hp={loss: {loss: HP}})
  rules = {'policy': optimizer.OptimizerConfig(lr=0.5)}
  context = types.SimpleNamespace(rules=rules)
  return types.SimpleNamespace(
    config=c, algorithm=types.SimpleNamespace(spec=spec, context=context)
  )


HP = {'clip_low': 0.2, 'clip_high': 0.1}


def test_a_stale_run_watches_the_clip_of_its_loss():
  got = training.drift_limits(stale())
  assert got == (4, 'ppo', pytest.approx(np.log(1.1)), 0.5)
  assert training.drift_limits(stale(bound=0)) is None
  # The ratio of the loss does not see the age.
  assert training.drift_limits(stale(anchor='update')) is None
  free = stale()
  free.algorithm.spec = registry.MethodSpec(loss=('sapo',))
  assert training.drift_limits(free) is None


def test_a_run_says_once_that_it_is_too_fast():
  said = []
  reporter = types.SimpleNamespace(say=said.append, update=lambda *args: None)
  stages = [Stage(*x, Book(), None) for x in STAGES]
  stages[1].experiment = stale()
  line = training.ProgressLine(stages, reporter)
  row = {'ppo/approx_kl': 0.5, 'rollout/age': 4.0, 'loss/total': 0.0}
  for step in range(40):
    line(step, row, phase='sft')
  assert not said
  for step in range(40):
    line(step, row, phase='rl')
  (text,) = said
  assert 'role.policy.lr' in text
