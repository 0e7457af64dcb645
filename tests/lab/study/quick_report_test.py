"""Reports of quick comparisons: numbers by hand, arms by config, one page."""

import json

import numpy as np
import pytest
from scipy import stats

from agentrl.configs import gigpo, grpo
from agentrl.lab.study import quick_report, run
from agentrl.log import metrics
from agentrl.report.dashboard.curves import RunCurves
from agentrl.report.study import page, tables
from agentrl.run import workdir
from tests import errors
from tests.report.study import parsed_page

STEPS = 4  # RL steps, of 100 environment steps and 200 tokens each


def make_run(seed, end, method=grpo, steps=STEPS, **changes) -> RunCurves:
  """A run that rises from 0 to `end`, evaluated after every step."""
  c = method.get_config('tiny')
  c.update_from_flattened_dict(
    {'seed': seed, 'steps': STEPS, 'sft.steps': 0}
    | {k.replace('__', '.'): v for k, v in changes.items()}
  )
  rows = [{'step': 0, 'phase': 'eval', 'eval/success': 0.0, 'time/seconds': 0}]
  for step in range(1, steps + 1):
    here = {'step': step, 'time/seconds': float(step)}
    sampled = {'rollout/env_steps': 100.0, 'rollout/tokens': 200.0}
    rows.append({**here, 'phase': 'rl', **sampled})
    success = {'eval/success': end * step / STEPS}
    rows.append({**here, 'phase': 'eval', **success})
  return RunCurves(f'{c.method}/{seed}', rows, c, {'task': 'a made-up task'})


@pytest.fixture(scope='module')
def compared():
  """GiGPO - GRPO at the end: 10, 5 and 10 points."""
  ends = {grpo: (0.4, 0.55, 0.6), gigpo: (0.5, 0.6, 0.7)}
  return [
    make_run(seed, end, method)
    for method, each in ends.items()
    for seed, end in enumerate(each)
  ]


@pytest.fixture(scope='module')
def report(compared):
  made = quick_report.make(compared)
  return run.sign(made, '--methods=grpo,gigpo')


def row_of(report, measure):
  rows = report['envs']['env']['settings']['default']['comparisons']
  return next(row for row in rows if row['measure'] == measure)


def test_a_paired_difference_by_hand(report):
  """d = 0.1, 0.05, 0.1: sd √(1/1200), t 4.302653 for two degrees."""
  row = row_of(report, 'final')
  half = 4.302653 * np.sqrt(1 / 1200 / 3)
  assert (row['arm'], row['baseline'], row['n']) == ('gigpo', 'grpo', 3)
  assert row['how'] == quick_report.PAIRED
  assert row['mean'] == pytest.approx(0.25 / 3)
  assert row['low'] == pytest.approx(0.25 / 3 - half, abs=1e-6)
  assert row['high'] == pytest.approx(0.25 / 3 + half, abs=1e-6)
  # Straight lines from 0: the mean over the budget is half of the end.
  assert row_of(report, 'area')['mean'] == pytest.approx(0.125 / 3)


def test_seeds_that_do_not_match_are_not_paired():
  a, b = {0: 1.0, 1: 2.0, 2: 3.0}, {5: 2.0, 6: 4.0, 7: 6.0}
  got = quick_report.difference(a, b)
  freedom = (5 / 3) ** 2 / ((1 / 3) ** 2 / 2 + (4 / 3) ** 2 / 2)
  half = stats.t.ppf(0.975, freedom) * np.sqrt(5 / 3)
  assert got['how'] == quick_report.UNPAIRED
  assert got['mean'] == -2
  assert (got['low'], got['high']) == pytest.approx((-2 - half, -2 + half))
  # A subset of the seeds is paired; a seed of its own ends that.
  assert quick_report.difference(a, {1: 0.0, 2: 0.0})['n'] == 2
  assert quick_report.difference(a, {1: 0.0, 9: 0.0})['how'] == got['how']


def test_one_seed_has_a_difference_and_no_interval():
  got = quick_report.difference({3: 0.5}, {3: 0.2, 4: 0.9})
  assert got == {'how': quick_report.PAIRED, 'n': 1, 'mean': 0.3}
  assert 'low' not in quick_report.difference({3: 0.5}, {4: 0.9})
  assert quick_report.difference({3: 0.5}, {3: np.nan}) == {}
  made = quick_report.make([make_run(0, 0.4), make_run(0, 0.6, gigpo)])
  assert any('one seed has no interval' in x for x in made['warnings'])
  assert '+20.0' in tables.plain(made)
  assert '[' not in tables.plain(made).replace('[95% intervals]', '')
  parsed_page.Page(page.page(made))


def test_arms_are_named_by_what_differs():
  runs = [
    make_run(0, 0.4),
    make_run(1, 0.4, log__every=7),
    make_run(0, 0.4, role__policy__lr=1e-3),
    make_run(0, 0.4, gigpo),
  ]
  rate = runs[0].config.role.policy.lr
  arms = quick_report.arms(runs)
  assert {name: len(x) for name, x in arms.items()} == {
    f'grpo, role.policy.lr={rate:g}': 2,
    'grpo, role.policy.lr=0.001': 1,
    'gigpo': 1,
  }
  with errors.raises(ValueError, '0'):
    quick_report.arms([*runs, make_run(0, 0.5)])


def test_everyone_is_read_up_to_the_shortest_run():
  short = make_run(0, 0.8, gigpo, steps=STEPS // 2)
  made = quick_report.make([make_run(0, 0.8), short])
  env = made['envs']['env']
  assert env['budget'] == {'env_steps': 200, 'tokens': 400}
  ends = [x['measures']['final']['mean'] for x in _arms(made)]
  assert ends == pytest.approx([0.4, 0.4])
  (warning,) = [x for x in made['warnings'] if 'not finished' in x]
  assert 'gigpo/0 (2 of 4 steps)' in warning


def _arms(made):
  return made['envs']['env']['settings']['default']['arms'].values()


def test_other_task_counts_and_lost_runs_are_reported():
  other = make_run(0, 0.4, gigpo, env__train=3)
  made = quick_report.make([make_run(0, 0.4), other], ['gigpo/1'])
  told = ' '.join(made['warnings'])
  assert 'env.train' in told
  assert 'gigpo/1' in told
  assert made['spent'] == {'run_seconds': 8.0, 'runs': 3, 'failed': 1}


@pytest.mark.parametrize(
  ('field', 'value'),
  [('reward', 'sparse'), ('invalid', 0.3), ('question_cost', 0.3)],
)
def test_rewards_of_the_environment_may_differ(field, value):
  """They are what is compared: success does not read them."""
  changed = make_run(0, 0.6, gigpo, **{f'env__{field}': value})
  runs = [make_run(0, 0.4), changed]
  made = quick_report.make(runs)
  assert row_of(made, 'final')['mean'] == pytest.approx(0.2)
  assert f'env.{field}' in ' '.join(made['warnings'])


@pytest.mark.parametrize('field', ['max_moves', 'seed', 'height', 'name'])
def test_runs_of_different_environments_are_refused(field):
  """Even where their seeds would pair them; the first cause is the name."""
  values = {'max_moves': 3, 'seed': 5, 'height': 7, 'name': 'countdown'}
  changes = {f'env__{field}': values[field], 'env__width': 7}
  runs = [make_run(0, 0.4), make_run(0, 0.4, gigpo, **changes)]
  with errors.raises(ValueError, f'env.{field} {values[field]}'):
    quick_report.make(runs)


def without_evaluations(run: RunCurves, keep) -> RunCurves:
  """The run, evaluated at these steps only."""
  rows = [r for r in run.rows if r['phase'] != 'eval' or r['step'] in keep]
  return run._replace(rows=rows)


@pytest.mark.parametrize(
  ('keep', 'steps', 'measured'),
  [
    ((0, 1, 2, 3, 4), 4, {'final', 'area'}),
    ((0, 2, 4), 4, {'final', 'area'}),  # every place has one within a quarter
    ((0, 4), 4, {'final'}),  # a straight line is no curve
    ((0, 4), 2, set()),  # nothing near the end of the shorter run
    ((0, 1, 3, 4), 4, {'final', 'area'}),
    ((0, 1, 3, 4), 2, set()),
    ((0, 2), 2, {'final'}),
  ],
)
def test_a_line_between_distant_evaluations_is_no_measurement(
  keep, steps, measured
):
  sparse = without_evaluations(make_run(0, 0.8), keep)
  short = make_run(0, 0.8, gigpo, steps=steps)
  made = quick_report.make([sparse, short])
  of_grpo, of_gigpo = _arms(made)
  for measure in ('final', 'area'):
    there = of_grpo['measures'][measure] is not None
    assert there == (measure in measured), measure
    assert of_gigpo['measures'][measure] is not None
  missing = [x for x in made['warnings'] if 'grpo, seed 0' in x]
  assert len(missing) == 2 - len(measured)
  tables.plain(made)
  parsed_page.Page(page.page(made))


def test_the_page_says_that_it_is_exploratory(report):
  """And has what the table has, once for each axis that differs."""
  found = parsed_page.Page(page.page(report))
  assert report['exploratory'] in found.text
  assert 'learning rates are not tuned, 3 seeds' in found.text
  assert 'Claims' not in [v for _, _, v in found.attributes]
  assert 'Holm' not in found.text
  assert 'Fixed before the first run' not in found.text
  (body,) = found.lines('arm', 'mean', 'learning rate')
  assert [line[0] for line in body] == ['grpo', 'gigpo']
  rows = found.lines('arm − baseline', 'how')
  assert '+8.3' in rows[0][0]
  assert rows[0][0][-1] == quick_report.PAIRED
  drawn = [v for t, k, v in found.attributes if t == 'svg' and v == 'chart']
  assert len(drawn) == 1  # tokens are twice the steps: one picture
  assert '51.7' in tables.plain(report)
  assert '+8.3 [+1.2, +15.5]' in tables.plain(report)


def test_folders_that_cannot_be_compared_are_told(tmp_path):
  paths = [str(tmp_path / name) for name in 'ab']
  with pytest.raises(ValueError):
    quick_report.read(paths[:1])
  with pytest.raises(ValueError):
    quick_report.read(paths)
  for seed, path in enumerate(paths):
    workdir.keep_config(make_run(seed, 0.5).config, path)
  with pytest.raises(ValueError):
    quick_report.read(paths)
  for seed in range(2):
    rows = make_run(seed, 0.5).rows
    text = ''.join(json.dumps(row) + '\n' for row in rows[: 2 if seed else 9])
    (tmp_path / 'ab'[seed] / metrics.FILE).write_text(text)
  with errors.raises(ValueError, 'RL'):
    quick_report.read(paths)
