"""Comparisons: fair by construction, and right where the truth is known."""

import dataclasses
import json

import numpy as np
import pytest

from agentrl.stats import paired
from agentrl.study import analysis, execute, spec
from agentrl.study import run as study_run
from agentrl.study.execute import Ran
from agentrl.study.spec import Arm, Claim, Env, Study

CONFIG = 'configs/grpo.py:tiny,env=frozen_lake'
STEPS = 1000


def study(**changes) -> Study:
  arms = tuple(Arm(name, name.upper(), CONFIG) for name in 'abc')
  fields = {
    'name': 'made-up',
    'title': 'Made up',
    'question': 'Is b better than a?',
    'by': 'train',
    'arms': arms,
    'envs': {'lake': Env('a lake', {})},
    'claims': (Claim('b is better', 'b', 'a', 'area', 0.1),),
    'env_steps': STEPS,
    'tokens': 2 * STEPS,
    'threshold': 'a',
    'grid': (1.0, 2.0, 4.0),
    'rate': 2.0,
    'reference': 'a',
    'warm': CONFIG,
  }
  return Study(**{**fields, **changes})


def made(effect, best, sd=0.02, shared=0.05, seed=0):
  """A runner whose arms gain `effect`, most of it at their best rates.

  Every seed moves all arms alike by `shared`, each arm by `sd` for itself.
  """

  def one(ask):
    r = np.random.default_rng([seed, ask.seed, ord(ask.arm), int(ask.rate * 9)])
    pair = np.random.default_rng([seed, ask.seed]).normal() * shared
    off = abs(np.log2(ask.rate / best[ask.arm]))
    gain = 0.3 + effect.get(ask.arm, 0.0) - 0.05 * off
    x = np.linspace(0, 1.2 * STEPS, 7)
    y = 0.2 + pair + (gain + r.normal() * sd) * np.minimum(x / STEPS, 1)
    return Ran(x, 2 * x, y, 4 - y, 1.0, {'entropy': 0.5})

  return lambda asks: {ask: one(ask) for ask in asks}


BEST = {'a': 2.0, 'b': 16.0, 'c': 0.25}


def test_every_arm_is_tuned_and_the_grid_widened_while_the_best_is_at_an_edge():
  s = study(widen=4)
  found = execute.tune(s, made({}, BEST, sd=0))['lake']
  assert {arm: x['best'] for arm, x in found.items()} == BEST
  assert {arm: x['widened'] for arm, x in found.items()} == {
    'a': 0, 'b': 3, 'c': 3,
  }  # fmt: skip
  assert not any(x['edge'] for x in found.values())
  few = execute.tune(study(widen=1), made({}, BEST, sd=0))['lake']
  assert (few['b']['edge'], few['b']['best']) == (True, 8.0)
  # One more rate than the grid when the best is inside at once.
  assert [rate for rate, _ in few['a']['grid']] == [1.0, 2.0, 4.0]


def test_a_known_difference_is_measured_at_tuned_and_at_common_rates():
  s = study(widen=4)
  report = analysis.report(s, made({'b': 0.1}, BEST))
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


def _row(report, setting, arm, measure):
  rows = report['envs']['lake']['settings'][setting]['comparisons']
  return next(r for r in rows if (r['arm'], r['measure']) == (arm, measure))


def test_curves_are_read_up_to_the_budget_and_no_further():
  s = study()
  x = np.array([0.0, 400.0, 1600.0])
  ran = Ran(x, 3 * x, np.array([0.0, 0.4, 1.0]), np.full(3, 2.0), 1.0, {})
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


def test_a_point_at_the_budget_counts_once():
  x, y = execute.upto(
    np.array([0.0, 500, 1000, 1500]), np.array([0.0, 0.2, 0.4, 1.0]), 1000
  )
  assert x.tolist() == [0, 500, 1000]
  assert y.tolist() == [0, 0.2, 0.4]


def test_a_rate_whose_runs_do_not_end_is_worth_nothing():
  whole = made({}, dict.fromkeys('abc', 2.0), sd=0)

  def run(asks):
    return {a: ran for a, ran in whole(asks).items() if a.rate != 2.0}

  s = study()
  found = execute.tune(s, run)['lake']['a']
  assert dict(found['grid'])[2.0] == [0.0] * s.tuning
  assert found['best'] != 2.0


def test_a_curve_adds_up_what_was_sampled(tmp_path):
  """Of the RL steps alone, up to each evaluation."""
  sampled = ((10.0, 30.0, 2.0), (12.0, 40.0, 4.0), (5.0, 20.0, 6.0))
  rows = [
    {'step': 0, 'phase': 'eval', 'eval/success': 0.1, 'time/seconds': 1.0},
    {'step': 1, 'phase': 'sft', 'loss': 9.0, 'time/seconds': 2.0},
  ]
  for i, (steps, tokens, entropy) in enumerate(sampled):
    here = {'step': 2 + i, 'time/seconds': 3.0 + i}
    told = {'rollout/env_steps': steps, 'rollout/tokens': tokens}
    rows.append(here | told | {'phase': 'rl', 'entropy': entropy})
    if i:
      held_out = {'eval/success': 0.2 * i, 'eval/turns_solved': 4.0 - i}
      rows.append(here | held_out | {'phase': 'eval'})
  text = ''.join(json.dumps(row) + '\n' for row in rows)
  (tmp_path / 'metrics.jsonl').write_text(text)
  ran = execute.read(str(tmp_path))
  assert ran.env_steps.tolist() == [0, 22, 27]
  assert ran.tokens.tolist() == [0, 70, 90]
  assert ran.success.tolist() == [0.1, 0.2, 0.4]
  assert np.isnan(ran.moves[0])
  assert ran.moves[1:].tolist() == [3, 2]
  assert ran.seconds == 5
  assert ran.told['entropy'] == 4
  assert 'loss' not in ran.told


def test_unstable_is_who_ends_clearly_below_its_start():
  s = study()
  x = np.array([0.0, STEPS])
  runs = {
    i: Ran(x, 2 * x, np.array([0.5, 0.5 - drop]), np.full(2, 2.0), 1.0, {})
    for i, drop in enumerate(s.unstable * np.array([-1, 0, 0.5, 1.5]))
  }
  values = {i: analysis.measures(s, ran, 0.9) for i, ran in runs.items()}
  told = analysis.told(s, s.arms[0], 1.0, runs, values)
  assert [x['unstable'] for x in told['each']] == [False, False, False, True]
  assert told['unstable'] == 1


def test_failed_and_unstable_runs_are_counted_and_leave_the_means():
  s = study()
  whole = made({}, dict.fromkeys('abc', 2.0))

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
  s = dataclasses.replace(study(), pairs=20)
  p = [_row_of(s, seed, 0.0)['p'] for seed in range(200)]
  assert 2 <= np.sum(np.array(p) < 0.05) <= 20  # 10 expected
  assert 0.4 < np.mean(p) < 0.6


def _row_of(s, seed, effect):
  run = made({'b': effect}, dict.fromkeys('abc', 2.0), seed=seed)
  asks = execute.pairs(s, {'lake': dict.fromkeys('abc', 2.0)})
  found = run(asks)
  values = {
    arm: {a.seed: analysis.measures(s, found[a], 0.3)
          for a in asks if a.arm == arm}
    for arm in 'ab'
  }  # fmt: skip
  return analysis.pair(values, 'b', 'a', 'final', s.level)._asdict()


def test_a_planted_difference_is_found_as_often_as_the_power_table_says():
  s, sd, n = study(), 0.02 * np.sqrt(2), 10
  effect = paired.smallest(sd, n)
  found = [_row_of(s, seed, effect)['p'] < 0.05 for seed in range(200)]
  assert 0.72 <= np.mean(found) <= 0.88  # 0.8 expected, three deviations


def test_the_power_table_is_of_the_measured_spread():
  report = analysis.report(study(), made({}, dict.fromkeys('abc', 2.0)))
  power = report['power']
  row = next(r for r in power['rows'] if r['pairs'] == 10)
  assert row['smallest'] == pytest.approx(
    paired.smallest(power['sd'], 10, row['alpha'])
  )
  # Area counts half of what the end has.
  assert 0.005 < power['sd'] < 0.03


@pytest.mark.parametrize(
  ('changes', 'words'),
  [
    ({'reference': 'd'}, "'d' is no arm"),
    ({'pairs': 4}, 'fewest'),
    ({'grid': (1.0, 2.0, 3.0)}, 'one ratio'),
    ({'grid': (1.0,)}, 'one ratio'),
    ({'by': 'magic'}, "by='magic'"),
    ({'env_steps': 0}, 'above 0'),
    ({'claims': (Claim('x', 'a', 'b', 'area', 0.0),)}, 'other than 0'),
    ({'claims': (Claim('x', 'a', 'b', 'speeed', 1.0),)}, 'speeed'),
    ({'arms': (Arm('a', 'A', CONFIG), Arm('a', 'B', CONFIG))}, 'two arms'),
    ({'arms': tuple(Arm(x, x, CONFIG, part='x') for x in 'ab')}, "part='x'"),
  ],
)
def test_a_study_that_does_not_fit_is_refused(changes, words):
  with pytest.raises(ValueError, match=words):
    spec.check(study(**changes))


def test_what_an_arm_cannot_be_is_told_before_any_run(tmp_path):
  wrong = study(arms=(Arm('a', 'A', CONFIG, {'coef.polcy': 1.0}),))
  with pytest.raises(ValueError, match='no field'):
    execute.check_all(wrong, str(tmp_path))
  other = study(arms=(Arm('a', 'A', 'configs/grpo.py:env=frozen_lake'),))
  with pytest.raises(ValueError, match='another model'):
    execute.check_all(other, str(tmp_path))
  assert not list(tmp_path.iterdir())


def test_the_protocol_is_fixed_before_the_first_run(tmp_path):
  s = study()
  execute.keep_protocol(s, str(tmp_path))
  execute.keep_protocol(s, str(tmp_path))
  with pytest.raises(ValueError, match="'unstable'"):
    execute.keep_protocol(dataclasses.replace(s, unstable=0.5), str(tmp_path))


def test_the_studies_that_come_along_fit_together(tmp_path):
  for name in ('oprl',):
    s = study_run.load(f'configs/studies/{name}.py')
    execute.check_all(s, str(tmp_path))
