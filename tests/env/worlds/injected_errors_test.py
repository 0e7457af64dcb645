"""Injected errors: labels follow from what was changed, and answers earn."""

import functools
import re

import pytest

from agentrl.configs import aegis_errors
from agentrl.env import base
from agentrl.env.worlds import injected_errors as world
from agentrl.env.worlds.injected_errors import Error, InjectedErrors
from tests import errors
from tests.env.promises import replies

TASK = {'start': 6, 'plan': [['+', 5], ['*', 2], ['-', 3]], 'error': None}
HONEST = """\
6 +5 *2 -3
planner +5 *2 -3
solver 6+5=11
solver 11*2=22
solver 22-3=19
checker 19"""


@pytest.mark.parametrize(
  ('error', 'lines'),
  [
    (None, ''),
    (('planner', 'omit', 1, 0), '+5 -3|6+5=11|11-3=8|8'),
    (('planner', 'alter', 0, 4), '+4 *2 -3|6+4=10|10*2=20|20-3=17|17'),
    (('solver', 'omit', 2, 0), '+5 *2 -3|6+5=11|11*2=22|22'),
    (('solver', 'alter', 1, 3), '+5 *2 -3|6+5=11|11*3=33|33-3=30|30'),
    (('solver', 'slip', 0, 12), '+5 *2 -3|6+5=12|12*2=24|24-3=21|21'),
    (('checker', 'alter', 0, 18), '+5 *2 -3|6+5=11|11*2=22|22-3=19|18'),
  ],
)
def test_all_that_follows_an_error_is_played_again(error, lines):
  text = world.log(TASK | {'error': list(error) if error else None})
  if error is None:
    assert text == HONEST
    return
  plan, *steps, last = lines.split('|')
  solver = [f'solver {x}' for x in steps]
  said = ['6 +5 *2 -3', f'planner {plan}', *solver, f'checker {last}']
  assert text.split('\n') == said


def located(text: str) -> str:
  """Finds the error by reading: a plan, its steps, each result, the report."""
  asked, plan, *solver, checker = text.split('\n')
  start, *steps = asked.split()
  copied = plan.split()[1:]
  if copied != steps:
    return f'planner {"omit" if len(copied) < len(steps) else "alter"}'
  if len(solver) < len(steps):
    return 'solver omit'
  x = int(start)
  for line, step in zip(solver, steps, strict=True):
    a, sign, b, y = re.fullmatch(
      r'solver (-?\d+)([+*-])(\d+)=(-?\d+)', line
    ).groups()
    if f'{sign}{b}' != step:
      return 'solver alter'
    assert int(a) == x
    if world.apply(int(a), (sign, int(b))) != int(y):
      return 'solver slip'
    x = int(y)
  return 'none' if checker == f'checker {x}' else 'checker alter'


@functools.cache
def drawn(split='train', **settings):
  return list(InjectedErrors(**settings).tasks(split, 400, 0))


@pytest.mark.parametrize(
  'settings', [{}, {'steps': 2, 'largest': 2}, {'steps': 8}], ids=str
)
def test_a_label_is_what_a_reader_finds_and_the_team_fails_by_it(settings):
  """Without the injection the report is right, with it it is wrong."""
  seen = set()
  for task in drawn(**settings):
    x = task.task
    (label,) = task.demonstration
    assert located(world.log(x)) == label
    plan = [tuple(p) for p in x['plan']]
    truth = world.results(x['start'], plan)[-1]
    assert world.reported(x['start'], plan, None) == truth
    if x['error']:
      assert world.reported(x['start'], plan, Error(*x['error'])) != truth
    assert (label == 'none') == (x['error'] is None)
    seen.add(label)
  assert seen == {'none', *(' '.join(k) for k in world.KINDS)}


def test_kinds_that_are_held_out_are_in_the_test_set_alone():
  out = 'solver slip, checker alter'
  kinds = {'solver slip', 'checker alter'}

  def labels(split):
    return {x.demonstration[0] for x in drawn(split, held_out=out)}

  assert not kinds & labels('train')
  assert kinds <= labels('test')
  assert labels('train') | kinds == labels('test')


@pytest.mark.parametrize(
  ('said', 'reward', 'score', 'invalid'),
  [
    ('solver slip', 1.0, 1.0, False),
    (' Solver  SLIP ', 1.0, 1.0, False),
    ('solver omit', 0.5, 0.0, False),  # the agent alone
    ('solver', 0.0, 0.0, True),
    ('planner slip', 0.0, 0.0, True),  # none that can be
    ('none', 0.0, 0.0, False),
    ('checker alter', 0.0, 0.0, False),
    ('solver slip slip', 0.0, 0.0, True),
    ('', 0.0, 0.0, True),
  ],
)
def test_answers(said, reward, score, invalid):
  task = TASK | {'error': ['solver', 'slip', 0, 12]}
  (step,) = replies(InjectedErrors().env(), task, [said])
  assert (step.reward, step.score, step.invalid) == (reward, score, invalid)
  assert step.done


def test_the_mistake_alone_is_worth_as_much_as_the_agent_alone():
  task = TASK | {'error': ['solver', 'alter', 1, 3]}
  env = InjectedErrors(partial=0.25, held_out='solver alter').env()
  (step,) = replies(env, task, ['planner alter'])
  assert (step.reward, step.score) == (0.25, 0.0)
  assert step.info == {'agent_right': 0, 'mode_right': 1, 'unseen': 1}
  (step,) = replies(env, TASK, ['none'])
  assert (step.reward, step.score) == (1.0, 1.0)
  assert step.info == {'agent_right': 1, 'mode_right': 1, 'unseen': 0}


@pytest.mark.parametrize(
  'held_out',
  ['slip', 'checker slip', ', '.join(' '.join(x) for x in world.KINDS)],
)
def test_kinds_that_cannot_be_held_out(held_out):
  with errors.raises(ValueError, 'held_out'):
    InjectedErrors(held_out=held_out)


def test_the_config_trains_on_failures_whose_label_is_known():
  """Without injections every report would be right and every label none."""
  c = aegis_errors.get_config()
  family, failed = base.of(c.env), 0
  for made in family.tasks('train', 100, 0):
    task, (label,) = made.task, made.demonstration
    plan = [tuple(x) for x in task['plan']]
    truth = world.results(task['start'], plan)[-1]
    wrong = not world.log(task).endswith(f'checker {truth}')
    assert wrong == (label != 'none')
    failed += wrong
    (step,) = replies(family.env(), task, [label.split()[0] + ' alter'])
    graded = 1.0 if label.endswith('alter') else 0.5
    assert step.reward == (graded if wrong else 0.0)
  assert failed > 50
