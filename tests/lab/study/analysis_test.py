"""Comparisons are right where the truth is known."""

import dataclasses
import json

import numpy as np
import pytest

from agentrl.lab.study import analysis, execute
from agentrl.lab.study.execute import RunResult
from agentrl.lab.study.spec import Claim, Env
from agentrl.stats import paired
from tests.lab.study import made_up_study


def test_a_known_difference_is_measured_at_tuned_and_at_common_rates():
  s = made_up_study.make_study(widen=4)
  report = analysis.report(
    s, made_up_study.make_runner({'b': 0.1}, made_up_study.BEST)
  )
  tuned, common = (_row(report, x, 'b', 'final') for x in ('tuned', 'common'))
  assert tuned['low'] < 0.1 < tuned['high']
  assert (tuned['n'], tuned['failed']) == (10, [0, 0])
  # b is three doublings from its best rate there.
  assert common['low'] < 0.1 - 0.15 < common['high']
  assert tuned['sd'] < 0.05  # what the pair shares is taken out
  rows = report['envs']['lake']['settings']['tuned']['comparisons']
  for measure in {r['measure'] for r in rows}:
    family = [r for r in rows if r['measure'] == measure]
    want = paired.holm({(r['arm'], r['baseline']): r['p'] for r in family})
    assert [r['holm'] for r in family] == list(want.values())
  claim = next(c for c in report['claims'] if c['setting'] == 'tuned')
  assert claim['verdict'] == 'confirmed'
  assert json.loads(json.dumps(report)) == report


def test_a_claim_is_one_of_the_family_of_all_claims_on_all_worlds():
  claims = [
    Claim(f'{a} over {b} in {m}', a, b, m, 0.1)
    for a, b in (('b', 'a'), ('c', 'a'))
    for m in ('area', 'final')
  ]
  s = made_up_study.make_study(
    claims=tuple(claims), envs={x: Env(x, {}) for x in ('lake', 'pond')}
  )
  made = made_up_study.make_runner({'b': 0.02}, made_up_study.BEST)
  report = analysis.report(s, made)
  for setting in ('tuned', 'common'):
    rows = [x for x in report['claims'] if x['setting'] == setting]
    assert len(rows) == 8
    p = np.array([x['found']['p'] for x in rows])
    want = [_holm(p, i) for i in range(8)]
    assert [x['found']['holm'] for x in rows] == pytest.approx(want)


def _holm(p, i):
  """By its definition: over all smaller ones, how many are not smaller."""
  return max(min(1, np.sum(p >= q) * q) for q in p if q <= p[i])


def _row(report, setting, arm, measure):
  rows = report['envs']['lake']['settings'][setting]['comparisons']
  return next(r for r in rows if (r['arm'], r['measure']) == (arm, measure))


def test_curves_are_read_up_to_the_budget_and_no_further():
  s = made_up_study.make_study()
  x = np.array([0.0, 400.0, 1600.0])
  ran = RunResult(x, 3 * x, np.array([0.0, 0.4, 1.0]), np.full(3, 2.0), 1.0, {})
  got = analysis.measures(s, ran, 0.2)
  assert got['final'] == pytest.approx(0.7)
  assert got['area'] == pytest.approx(0.4 * 0.2 + 0.6 * 0.55)
  assert got['speed'] == pytest.approx(np.log2(5))
  # 2000 tokens are 667 steps.
  end = 0.4 + 0.6 * (2000 / 3 - 400) / 1200
  whole = 400 * 0.2 + (2000 / 3 - 400) * (0.4 + end) / 2
  assert got['area_tokens'] == pytest.approx(whole / (2000 / 3))
  # Never there counts as the whole budget; a short curve stays where it was.
  assert analysis.measures(s, ran, 2.0)['speed'] == 0
  short = ran._replace(env_steps=x / 4)
  assert analysis.measures(s, short, 2.0)['final'] == 1


def test_unstable_is_who_ends_clearly_below_its_start():
  s = made_up_study.make_study()
  x = np.array([0.0, made_up_study.STEPS])
  runs = {
    i: RunResult(
      x, 2 * x, np.array([0.5, 0.5 - drop]), np.full(2, 2.0), 1.0, {}
    )
    for i, drop in enumerate(s.unstable * np.array([-1, 0, 0.5, 1.5]))
  }
  values = {i: analysis.measures(s, ran, 0.9) for i, ran in runs.items()}
  told = analysis.arm_summary(s, s.arms[0], 1.0, runs, values)
  assert [x['unstable'] for x in told['each']] == [False, False, False, True]
  assert told['unstable'] == 1


def test_failed_and_unstable_runs_are_counted_and_leave_the_means():
  s = made_up_study.make_study()
  whole = made_up_study.make_runner({}, dict.fromkeys('abc', 2.0))

  def run(asks):
    found = whole(asks)
    for a in asks:
      if not a.tuning and a.arm == 'b' and a.seed == 3:
        del found[a]
      if not a.tuning and a.arm == 'c' and a.seed == 4:
        found[a] = found[a]._replace(success=-found[a].success)
    return found

  report = analysis.report(s, run)
  arms = report['envs']['lake']['settings']['common']['arms']
  assert [arms[x]['failed'] for x in 'abc'] == [0, 1, 0]
  assert [arms[x]['unstable'] for x in 'abc'] == [0, 0, 1]
  assert arms['b']['measures']['area']['n'] == 9
  assert _row(report, 'common', 'b', 'area')['failed'] == [1, 0]
  assert report['spent']['failed'] == 1


def test_a_method_and_itself_are_told_apart_no_more_often_than_by_chance():
  """20 pairs, 200 comparisons of two arms with equal curves but for noise."""
  s = dataclasses.replace(made_up_study.make_study(), pairs=20)
  p = [_row_of(s, seed, 0.0)['p'] for seed in range(200)]
  assert 2 <= np.sum(np.array(p) < 0.05) <= 20  # 10 expected
  assert 0.4 < np.mean(p) < 0.6


def _row_of(s, seed, effect):
  run = made_up_study.make_runner(
    {'b': effect}, dict.fromkeys('abc', 2.0), seed=seed
  )
  asks = execute.pairs(s, {'lake': dict.fromkeys('abc', 2.0)}, 'tuned')
  found = run(asks)
  values = {
    arm: {
      a.seed: analysis.measures(s, found[a], 0.3) for a in asks if a.arm == arm
    }
    for arm in 'ab'
  }
  return analysis.pair(values, 'b', 'a', 'final', s.level)._asdict()


def test_a_planted_difference_is_found_as_often_as_the_power_table_says():
  s, sd, n = made_up_study.make_study(), 0.02 * np.sqrt(2), 10
  effect = paired.smallest(sd, n)
  found = [_row_of(s, seed, effect)['p'] < 0.05 for seed in range(200)]
  assert 0.72 <= np.mean(found) <= 0.88  # 0.8 expected, three deviations


def test_the_power_table_is_of_the_measured_spread():
  report = analysis.report(
    made_up_study.make_study(),
    made_up_study.make_runner({}, dict.fromkeys('abc', 2.0)),
  )
  power = report['power']
  row = next(r for r in power['rows'] if r['pairs'] == 10)
  assert row['smallest'] == pytest.approx(
    paired.smallest(power['sd'], 10, row['alpha'])
  )
  # Area counts half of what the end has.
  assert 0.005 < power['sd'] < 0.03
