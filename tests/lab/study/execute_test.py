"""Runs of a study: tuned rates, curves up to the budget, what is refused."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from agentrl.configs import base
from agentrl.lab.study import analysis, execute, spec
from agentrl.lab.study.spec import Arm
from agentrl.lab.sweep import runs
from agentrl.run.play import collect as collect_lib
from tests import errors
from tests.lab.study import made_up_study


@pytest.mark.parametrize('method', ['dapo', 'grpo_roc'])
def test_what_a_study_sets_is_what_is_trained_on(method, tmp_path):
  """And the method's own oversampling multiplies it."""
  s = made_up_study.make_study(
    arms=(Arm('a', 'A', f'configs/{method}.py:tiny'),),
    changes={'rollout.batch': 16, 'rollout.group_size': 2},
  )
  ask = execute.RunRequest('lake', 'a', 1.0, 0)
  c = execute._run(s, s.arms[0], str(tmp_path), ask).config
  assert (c.rollout.batch, c.rollout.group_size) == (16, 2)
  assert collect_lib.num_attempts(base.wiring(c), 16) == 32
  deeper = 2 if method == 'grpo_roc' else 1
  assert collect_lib.num_attempts_of_group(base.wiring(c), 2) == 2 * deeper


def test_every_arm_is_tuned_and_the_grid_widened_while_the_best_is_at_an_edge():
  s = made_up_study.make_study(widen=4)
  found = execute.tune(
    s, made_up_study.make_runner({}, made_up_study.BEST, sd=0)
  )['lake']
  assert {arm: x['best'] for arm, x in found.items()} == made_up_study.BEST
  assert {arm: x['widened'] for arm, x in found.items()} == {
    'a': 0,
    'b': 3,
    'c': 3,
  }
  assert not any(x['edge'] for x in found.values())
  few = execute.tune(
    made_up_study.make_study(widen=1),
    made_up_study.make_runner({}, made_up_study.BEST, sd=0),
  )['lake']
  assert (few['b']['edge'], few['b']['best']) == (True, 8.0)
  # One more rate than the grid when the best is inside at once.
  assert [rate for rate, _ in few['a']['grid']] == [1.0, 2.0, 4.0]


def test_a_point_at_the_budget_counts_once():
  x, y = execute.upto(
    np.array([0.0, 500, 1000, 1500]), np.array([0.0, 0.2, 0.4, 1.0]), 1000
  )
  assert x.tolist() == [0, 500, 1000]
  assert y.tolist() == [0, 0.2, 0.4]


def test_a_rate_whose_runs_do_not_end_is_worth_nothing():
  whole = made_up_study.make_runner({}, dict.fromkeys('abc', 2.0), sd=0)

  def run(asks):
    return {a: ran for a, ran in whole(asks).items() if a.rate != 2.0}

  s = made_up_study.make_study()
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
  assert ran.metrics['entropy'] == 4
  assert 'loss' not in ran.metrics


def write(run) -> None:
  """What a run leaves that is finished; its curve is of its config alone."""
  folder, c = pathlib.Path(run.workdir), run.config
  assert not c.init or (pathlib.Path(c.init) / runs.DONE).exists()
  r = np.random.default_rng([c.seed, int(c.role['policy'].lr * 1e4)])
  rows = []
  for step, success in enumerate(r.uniform(size=3)):
    at = {'step': step + 1, 'time/seconds': step + 1.0}
    sampled = {'rollout/env_steps': 600.0, 'rollout/tokens': 900.0}
    rows.append(at | sampled | {'phase': 'rl'})
    held_out = {'phase': 'eval', 'eval/success': success}
    rows.append(at | held_out)
  folder.mkdir(parents=True)
  (folder / 'metrics.jsonl').write_text('\n'.join(map(json.dumps, rows)) + '\n')
  (folder / runs.DONE).write_text('')


@pytest.mark.slow
def test_one_worker_and_two_that_were_killed_report_the_same(
  tmp_path, monkeypatch
):
  begun: list[str] = []
  ends = []  # after so many runs more, a process is killed

  def run(plan, places, together):
    left = [x for x in plan if not runs.finished(x)]
    for x in left if places == 1 else left[::-1]:  # in whichever order
      if ends and len(begun) == ends[0]:
        raise KeyboardInterrupt
      begun.append(x.name)
      write(x)

  def report(folder, *at_once):
    return analysis.report(s, execute.trained(s, str(folder), *at_once))

  monkeypatch.setattr(runs, 'run', run)
  s = made_up_study.make_study(grid=(1e-3, 2e-3, 4e-3), rate=2e-3, pairs=2)
  one = report(tmp_path / 'one', 1, 1)
  every = sorted(begun)
  begun.clear()
  for killed in (3, 11, len(every) - 1):  # warm starts, tuning, pairs
    ends[:] = [killed]
    with pytest.raises(KeyboardInterrupt):
      report(tmp_path / 'two', 2, 5)
  ends.clear()
  assert report(tmp_path / 'two', 2, 5) == one
  assert report(tmp_path / 'two', 1, 1) == one
  assert sorted(begun) == every
  assert one['spent'] == {
    'run_seconds': one['spent']['runs'] * 3.0,
    'runs': one['spent']['runs'],
    'failed': 0,
  }


def test_what_an_arm_cannot_be_is_told_before_any_run(tmp_path):
  wrong = made_up_study.make_study(
    arms=(Arm('a', 'A', made_up_study.CONFIG, {'coef.polcy': 1.0}),)
  )
  with pytest.raises(ValueError):
    execute.check_all(wrong, str(tmp_path))
  other = made_up_study.make_study(
    arms=(Arm('a', 'A', made_up_study.CONFIG, {'model.width': 32}),)
  )
  with pytest.raises(ValueError):
    execute.check_all(other, str(tmp_path))
  assert not list(tmp_path.iterdir())


def test_fewer_pairs_at_the_common_rate_are_the_first_ones():
  s = made_up_study.make_study(common_pairs=5)
  s = dataclasses.replace(s, arms=(*s.arms[:2], s.arms[2]._replace(pairs=7)))
  rates = {'lake': dict.fromkeys('abc', 1.0)}
  of = {x: execute.pairs(s, rates, x) for x in spec.SETTINGS}
  assert [len(of[x]) for x in spec.SETTINGS] == [27, 15]
  assert set(of['common']) == {a for a in of['tuned'] if a.seed < 5}
  assert dict(spec.protocol(s))['Common rate'].endswith('; the first 5 pairs')
  with errors.raises(ValueError, 'common_pairs 11'):
    spec.check(dataclasses.replace(s, common_pairs=11))


def test_the_protocol_is_fixed_before_the_first_run(tmp_path):
  s = made_up_study.make_study()
  execute.keep_protocol(s, str(tmp_path))
  execute.keep_protocol(s, str(tmp_path))
  with errors.raises(ValueError, 'unstable'):
    execute.keep_protocol(dataclasses.replace(s, unstable=0.5), str(tmp_path))


def test_pairs_have_the_seeds_that_the_study_names(tmp_path):
  """And a folder from before they could be named is still that study's."""
  s = made_up_study.make_study(first_seed=64, pairs=5)
  rates = {'lake': dict.fromkeys('abc', 1.0)}
  asks = execute.pairs(s, rates, 'tuned')
  assert sorted({a.seed for a in asks}) == [64, 65, 66, 67, 68]
  assert 'seeds 64 to 68' in dict(spec.protocol(s))['Pairs']
  execute.keep_protocol(s, str(tmp_path / 'named'))
  other = dataclasses.replace(s, first_seed=70)
  with errors.raises(ValueError, 'first_seed'):
    execute.keep_protocol(other, str(tmp_path / 'named'))
  old = made_up_study.make_study()
  execute.keep_protocol(old, str(tmp_path / 'old'))
  text = (tmp_path / 'old' / 'protocol.json').read_text()
  assert not {'first_seed', 'common_pairs'} & json.loads(text).keys()
