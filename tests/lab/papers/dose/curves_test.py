"""Curves of dose and response, what they predict, and their picture."""

import pytest
from PIL import Image

from agentrl.lab.papers.dose import curves as dose
from agentrl.lab.study import execute, tabular_runner
from agentrl.lab.study import run as study_run

PLANTED = {dose.arm_name(e, x) for e in dose.KINDS for x in dose.CORRELATIONS}


def report(learned=(), label=dose.CORRELATION):
  """Gains that are ρ² of a fresh error, ρ − 1 of a lasting one of both."""
  gains = {'white': lambda x: x**2, 'state_action': lambda x: x - 1}
  arms = {'grpo': {'label': 'grpo', 'told': {}}}
  rows = []

  def put(name, correlation, persistence, gain):
    metrics = {label: correlation, dose.PERSISTENCE: persistence}
    arms[name] = {'label': name, 'told': metrics}
    # What another arm is compared with comes first, and is not the gain.
    for baseline, x in (('other', 99.0), ('grpo', gain)):
      rows.append(
        dict(arm=name, baseline=baseline, measure='area', mean=x)
        | dict(low=x - 0.1, high=x + 0.1)
      )

  put('advantage', 1.0, 0.0, 1.0)
  for error in dose.KINDS:
    gain = gains.get(error, lambda x: x)
    for x in dose.CORRELATIONS:
      lasting = float(error == 'state_action')
      put(dose.arm_name(error, x), x, lasting, gain(x))
  for name, *point in learned:
    put(name, *point)
  setting = {'arms': arms, 'comparisons': rows}
  env = {'label': 'A world: small', 'settings': {'tuned': setting}}
  return {'envs': {'world': env}}


def test_the_two_truths_are_not_mixed_in_a_panel():
  exact, progress = (dose.CORRELATION, dose.PROGRESS)
  for label in (exact, progress):
    made = report(label=label)
    assert dose.correlation_label(made, 'world', 'tuned') == label
    assert dose.points(made, 'world', 'tuned')['white_40'].correlation == 0.4
  both = report()
  arms = both['envs']['world']['settings']['tuned']['arms']
  for arm in arms.values():
    if exact in arm['told']:
      arm['told'] |= {progress: 0.9}
  arms['advantage']['told'] = {progress: 0.9}  # it is not a point
  of = dose.points(both, 'world', 'tuned')
  assert of['white_70'].correlation == 0.7
  assert 'advantage' not in of


@pytest.mark.parametrize(
  ('correlation', 'persistence', 'want'),
  [
    (0.4, 0.0, 0.16),
    (0.4, 1.0, -0.6),
    (0.4, 0.5, 0.5 * 0.16 - 0.5 * 0.6),
    (0.55, 0.0, (0.16 + 0.49) / 2),  # by a line between two points
    (0.4, 1.7, -0.6),
    (0.4, -0.3, 0.16),
    (-0.5, 0.0, 0.0),  # beyond the curve: its end
  ],
)
def test_predictions_lie_between_the_two_curves(correlation, persistence, want):
  made = report([('learned', correlation, persistence, 0.3)])
  of = dose.points(made, 'world', 'tuned')
  assert dose.learned(of).keys() == {'learned'}
  assert dose.predict(of, of['learned']) == pytest.approx(want)
  assert of['learned'].gain == 0.3


def test_planted_rewards_of_these_kinds_predict_themselves():
  of = dose.points(report(), 'world', 'tuned')
  for error in ('white', 'state_action'):
    for x in dose.curve(of, error):
      assert dose.predict(of, x) == pytest.approx(x.gain)


def test_the_table_has_a_line_for_each_reward():
  lines = dose.table(report([('learned', 0.4, 0.0, 0.3)])).splitlines()
  assert len(lines) == 2 + 1 + 25 + 1
  assert lines[-1] == (
    '| world | learned | 0.40 | 0.00 | +16.0 | +30.0 [+20.0, +40.0] |'
  )
  assert not any('grpo' in x for x in lines)


def test_what_lasts_may_not_have_been_measured():
  made = report()
  arms = made['envs']['world']['settings']['tuned']['arms']
  for x in arms.values():
    x['told'].pop(dose.PERSISTENCE, None)
  line = dose.table(made).splitlines()[2]
  assert line == '| world | advantage | 1.00 |  |  | +100.0 [+90.0, +110.0] |'


def test_the_picture_has_a_panel_more_where_a_reward_was_learned(tmp_path):
  for name, learned in (('a', []), ('b', [('learned', 0.4, 0.0, 0.3)])):
    dose.picture(report(learned), tmp_path / f'{name}.png')
  a, b = (Image.open(tmp_path / f'{x}.png').size for x in 'ab')
  assert b[0] > a[0]
  assert b[1] == a[1]


def test_a_world_with_one_kind_of_error_has_one_curve(tmp_path):
  made = report()
  arms = made['envs']['world']['settings']['tuned']['arms']
  for name in [x for x in PLANTED if not x.startswith('white')]:
    del arms[name]
  assert dose.kinds(dose.points(made, 'world', 'tuned')) == ['white']
  dose.picture(made, tmp_path / 'one.png')
  assert Image.open(tmp_path / 'one.png').size[0] > 0


@pytest.mark.slow
def test_a_study_with_a_language_model_has_the_same_curves():
  made = study_run.load('configs/studies/dose_language.py')
  execute.check_all(made, 'nowhere')
  names = {x.name for x in made.arms}
  assert names == PLANTED | {dose.EXACT, dose.REFERENCE}
  assert made.reference == dose.REFERENCE


def test_the_study_names_the_arms_that_are_drawn():
  made = study_run.load('configs/studies/dose.py')
  tabular_runner.check_all(made)
  names = {x.name for x in made.arms}
  assert PLANTED | {dose.EXACT, dose.REFERENCE} <= names
  assert made.reference == dose.REFERENCE
  assert made.extra_metrics == dose.METRICS
