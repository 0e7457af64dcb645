"""Steps without a gradient: what is said of them, and of which."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.log import no_gradient, run_summary
from agentrl.log.no_gradient import STEPS

NOTHING = {
  'policy/grad_norm': 0.0,
  'policy/nonfinite_skips': 0.0,
  'advantage/episode/zero_variance_frac': 1.0,
  'rollout/invalid': 0.75,
}


def said(steps):
  lines = []
  watch = no_gradient.NoGradient(lines.append)
  for x in steps:
    watch.see(x)
  return lines


def test_it_is_said_after_a_few_steps_in_a_row_and_once():
  assert not said([NOTHING] * (STEPS - 1))
  learns = {'policy/grad_norm': 1.0, 'rollout/invalid': 0.0}
  (line,) = said([NOTHING | learns] * STEPS + [NOTHING] * 9 * STEPS)
  assert '100% of groups' in line
  assert '75% of messages' in line
  for field in ('sft.steps', 'group_size', 'temperature', 'view'):
    assert field in line


def test_steps_in_which_all_groups_wait_say_nothing():
  waits = {'policy/grad_norm': 0.0, 'rollout/attempts': 8.0}
  waits['rollout/return'] = None
  counts = NOTHING | {'rollout/attempts': 8.0, 'rollout/return': 0.0}
  assert not said([waits] * 2 * STEPS)
  assert len(said([counts, waits] * STEPS)) == 1
  rows = [{'phase': 'rl', **x} for x in [waits] * 9 + [counts] * STEPS]
  assert next(no_gradient.lines(rows)).startswith(f'{STEPS} of {STEPS}')
  assert not list(no_gradient.lines(rows[:9]))


@given(st.lists(st.booleans(), max_size=40))
def test_it_is_said_as_often_as_there_are_such_rows_of_steps(flat):
  learns = NOTHING | {'policy/grad_norm': 1e-9}
  runs = ''.join('x' if x else ' ' for x in flat).split()
  want = sum(len(x) >= STEPS for x in runs)
  assert len(said([NOTHING if x else learns for x in flat])) == want


@pytest.mark.parametrize(
  'more',
  [
    {'policy/grad_norm': 1e-12},  # of a divergence, say
    {'critic/grad_norm': 0.1},
    {'prm/grad_norm': 0.1},
    {'policy/grad_norm': math.nan, 'policy/nonfinite_skips': 1.0},
    {'policy/grad_norm': math.inf},
  ],
)
def test_nothing_is_said_where_something_else_is_the_case(more):
  assert not said([NOTHING | more] * 2 * STEPS)


def test_methods_without_gradients_are_left_alone():
  assert not said([{'rollout/invalid': 1.0}] * 2 * STEPS)


def test_a_step_on_no_token_has_no_gradient():
  """Its norm is of nothing."""
  assert said([NOTHING | {'policy/grad_norm': math.nan}] * STEPS)


def test_what_is_not_known_is_left_out():
  (line,) = said([{'policy/grad_norm': 0.0}] * STEPS)
  assert '%' not in line
  unknown = {'advantage/x/zero_variance_frac': math.nan, 'rollout/invalid': 1.0}
  (line,) = said([NOTHING | unknown] * STEPS)
  assert '100% of groups' in line
  (line,) = said([{'policy/grad_norm': 0.0} | unknown] * STEPS)
  assert 'groups' not in line
  assert '100% of messages' in line


def test_one_of_several_seeds_is_enough():
  both = {'policy/grad_norm': np.array([0.0, 1.0]), 'rollout/invalid': None}
  assert len(said([both] * 2 * STEPS)) == 1
  lacking = {'policy/grad_norm': [0.0, None]}
  assert len(said([lacking] * 2 * STEPS)) == 1
  turns = [{'policy/grad_norm': np.array(x)} for x in ([0.0, 1.0], [1.0, 0.0])]
  assert not said(turns * STEPS)


def rows(*norms):
  return [
    NOTHING | {'policy/grad_norm': x, 'step': i + 1, 'phase': 'rl'}
    for i, x in enumerate(norms)
  ]


@pytest.mark.parametrize(
  ('norms', 'told'),
  [
    ([0.0] * 40, '40 of 40 RL steps'),
    ([1.0] * 40 + [0.0] * STEPS, f'{STEPS} of {40 + STEPS} RL steps'),
    ([0.0, 0.0], '2 of 2 RL steps'),
    ([1.0, 0.0], None),
    (([0.0] * (STEPS - 1) + [1.0]) * 9, None),
    ([], None),
  ],
)
def test_the_summary_says_so(norms, told):
  text = run_summary.summary(rows(*norms), {})
  assert ('no gradient' in text) == (told is not None)
  if told:
    for words in (told, '100% of groups', '75% of messages', 'sft.steps'):
      assert words in text
    assert max(map(len, text.splitlines())) <= run_summary.COLUMNS
    assert '…' not in text


def test_supervised_steps_are_none_of_rl():
  warm = [x | {'phase': 'sft'} for x in rows(*[0.0] * 20)]
  assert 'no gradient' not in run_summary.summary(warm, {})
