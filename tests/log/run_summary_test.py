"""The picture shows what the rows hold; the summary fits one screen."""

import math
import shlex

import numpy as np
import pytest
from matplotlib import image

from agentrl.log import run_summary
from agentrl.stats import intervals

HEADER = {
  'method': 'gigpo',
  'task': 'sokoban',
  'model': 'tiny',
  'parameters': 342_112,
  'seed': 3,
  'device': 'cpu x 8',
  'workdir': 'runs/one',
  'command': shlex.join(['python', '-m', 'experiments.train', '--name=a b']),
}


def evaluation(step: int, solved: int, episodes: int = 200, **more):
  return {
    'step': step,
    'phase': 'eval',
    'eval/success': solved / episodes,
    'eval/episodes': episodes,
    'eval/solved': solved,
  } | {f'eval/{k}': v for k, v in more.items()}


def rl(step: int, success: float, **more):
  row = {'step': step, 'phase': 'rl', 'rollout/success': success}
  return row | {f'rollout/{k}': v for k, v in more.items()}


def run() -> list[dict]:
  rows = [
    {'step': s, 'phase': 'sft', 'loss/total': 1 / s, 'time/seconds': 2.0 * s}
    for s in range(1, 11)
  ]
  rows.append(evaluation(10, 60, turns=9.0) | {'time/seconds': 25.0})
  for s in range(11, 51):
    more = {'return': s / 5, 'turns': 8.0, 'tokens': 1000.0}
    rows.append(rl(s, s / 60, **more) | {'time/seconds': 25.0 + 10 * (s - 10)})
    if s == 30:
      rows.append(evaluation(30, 90))
  rows.append(evaluation(50, 140, turns=6.5) | {'time/seconds': 440.0})
  return rows


def drawn(tmp_path, rows, **more) -> np.ndarray:
  """The picture as f32[height, width, 3]."""
  path = tmp_path / 'curve.png'
  run_summary.learning_curve(rows, path, title='a title', **more)
  return image.imread(path)[:, :, :3]


def pixels(picture: np.ndarray, color: str) -> int:
  rgb = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
  return int((np.abs(picture - np.float32(rgb)).max(-1) < 0.02).sum())


def test_picture_shows_training_and_held_out(tmp_path):
  both = drawn(tmp_path, run())
  no_eval = drawn(tmp_path, [r for r in run() if r['phase'] != 'eval'])
  only_eval = drawn(tmp_path, [r for r in run() if r['phase'] == 'eval'])
  assert pixels(both, run_summary._TRAIN) > 500
  assert pixels(both, run_summary._HELD_OUT) > 500
  assert pixels(no_eval, run_summary._HELD_OUT) == 0
  assert pixels(only_eval, run_summary._TRAIN) == 0


def test_error_bars_are_longer_with_fewer_episodes(tmp_path):
  few, many = (
    drawn(tmp_path, [evaluation(1, n // 2, n), rl(2, 0.5)])
    for n in (10, 10_000)
  )
  tall_few, tall_many = (
    np.ptp(
      np.nonzero(np.abs(p - [200 / 255, 80 / 255, 30 / 255]).max(-1) < 0.02)[0]
    )
    for p in (few[90:], many[90:])  # below the legend
  )
  assert tall_few > tall_many + 50


def test_picture_may_run_over_environment_steps(tmp_path):
  rows = [r | {'env_steps': r['step'] * 64.0} for r in run()]
  for r in rows:
    if r['phase'] == 'eval':
      del r['env_steps']
  picture = drawn(tmp_path, rows, x='env_steps', x_label='environment steps')
  assert pixels(picture, run_summary._HELD_OUT) > 500


@pytest.mark.parametrize(
  'rows',
  [
    [],
    [{'step': 1, 'phase': 'sft'}],
    [rl(1, 0.5)],
    [rl(1, math.nan), rl(2, math.inf), {'phase': 'rl'}],
    [evaluation(1, 0)],
    [{'step': 1, 'phase': 'eval', 'eval/success': 0.5}],
    [evaluation(1, 3, turns=math.nan), rl(2, 0.1, turns=4.0)],
  ],
)
def test_missing_numbers_never_crash(tmp_path, rows):
  assert drawn(tmp_path, rows).shape == (700, 1200, 3)
  assert run_summary.summary(rows, {}).endswith('\n')
  assert 'nan' not in run_summary.summary(rows, HEADER)


def test_running_mean_by_hand():
  got = run_summary.running_mean(np.array([2.0, 4.0, 6.0, 0.0]), 2)
  np.testing.assert_array_equal(got, [2.0, 3.0, 5.0, 3.0])


def test_judge_takes_the_last_before_and_the_last_since():
  rows = [evaluation(0, 1), {'step': 5, 'phase': 'sft'}, evaluation(5, 2)]
  assert run_summary.judge(rows)[1:] == (None, 'warm start')
  rows += [rl(6, 0.1), evaluation(6, 3), rl(7, 0.1), evaluation(7, 4)]
  before, after, start = run_summary.judge(rows)
  assert (before.solved, after.solved, start) == (2, 4, 'warm start')
  assert run_summary.judge([rl(1, 0.1)]) == (None, None, 'before RL')


def test_an_evaluation_inside_a_training_row_counts():
  rows = [rl(1, 0.1), rl(2, 0.2) | evaluation(2, 50) | {'phase': 'rl'}]
  before, after, _ = run_summary.judge(rows)
  assert before is None
  assert (after.step, after.solved) == (2, 50)


def test_intervals_given_by_the_run_are_used_and_else_computed():
  (given,) = [
    run_summary.judge([evaluation(1, 50, ci_low=0.1, ci_high=0.9)]).before
  ]
  assert given[2:4] == (0.1, 0.9)
  (computed,) = [run_summary.judge([evaluation(1, 50)]).before]
  assert computed[2:4] == intervals.wilson(50, 200)


def test_summary_counts_the_steps_whose_updates_were_skipped():
  """Of several minibatches some may have been."""
  rows = [
    rl(s, 0.1)
    | {'policy/nonfinite_skips': x, 'critic/nonfinite_skips': float(s == 1)}
    for s, x in enumerate([1.0, 0.5, 0.0, 0.0], 1)
  ]
  line = (
    'skipped        steps with no finite gradient: 1 of 4 (critic), 2 of 4 '
  )
  assert line + '(policy)\n' in run_summary.summary(rows, HEADER)
  fine = [
    r | {'policy/nonfinite_skips': 0.0, 'critic/nonfinite_skips': 0.0}
    for r in rows
  ]
  assert 'skipped' not in run_summary.summary(fine, HEADER)
  assert 'skipped' not in run_summary.summary(run(), HEADER)


def test_summary_says_what_was_measured():
  text = run_summary.summary(run(), HEADER)
  low, high = intervals.wilson(140, 200)
  down, up = intervals.difference(140, 200, 60, 200)
  for said in (
    'gigpo on sokoban\n',
    'tiny, 342k parameters',
    'seed           3',
    'cpu x 8',
    f'warm start    30.0%  [{intervals.wilson(60, 200)[0]:.1%}, ',
    f'after RL      70.0%  [{low:.1%}, {high:.1%}]  140/200 episodes',
    f'difference   +40.0   [{100 * down:+.1f}, {100 * up:+.1f}] points',
    'turns/episode  9.0 warm start, 6.5 after RL',
    'steps          10 sft, 40 rl',
    'tokens         40k sampled',
    'wall time      7.3 min (sft 20 s, eval 20 s, rl 6.7 min)',
    'files          runs/one',
    "  python -m experiments.train '--name=a b'",
  ):
    assert said in text, (said, text)


def test_summary_without_numbers_lacks_their_lines():
  text = run_summary.summary([rl(1, 0.5)], {'method': 'grpo'})
  assert text.splitlines()[0] == 'grpo'
  for absent in ('held-out', 'difference', 'tokens', 'wall', 'files', 'repeat'):
    assert absent not in text


def test_summary_fits_the_screen_whatever_it_is_told():
  words = [f'--config.hp.stream.piece.name{i}=0.{i}' for i in range(25)]
  header = HEADER | {
    'task': 'long ' * 40,
    'device': 'gpu ' * 40,
    'workdir': '/deep' * 40 + '/last',
    'command': shlex.join(['python', 'train.py', *words]),
  }
  lines = run_summary.summary(run(), header).splitlines()
  assert len(lines) <= 24
  assert max(map(len, lines)) <= 80
  assert any(line.endswith('/deep/last') for line in lines)
  assert lines[-1] == 'repeat         the command in header.json'


def test_a_command_with_an_endless_word_is_left_to_the_header_file():
  text = run_summary.summary([], {'command': 'train.py --a=' + 'x' * 100})
  assert text == 'repeat         the command in header.json\n'


def test_several_processes_are_repeated_by_what_started_them():
  header = {'command': 'python -m experiments.train', 'processes': 2}
  text = run_summary.summary([], header)
  assert 'experiments.train' not in text
  assert '2 processes' in text
  alone = run_summary.summary([], header | {'processes': 1})
  assert 'experiments.train' in alone


def test_the_command_is_what_was_run():
  words = ['python', 'train.py', "--a=it's", '--b=x y', *(['--c=12345'] * 12)]
  text = run_summary.summary([], {'command': shlex.join(words)})
  first, *rest = text.splitlines()
  assert first == 'repeat with'
  assert len(rest) > 1
  assert max(map(len, rest)) <= 80
  pasted = '\n'.join(rest).replace('\\\n', ' ')
  assert shlex.split(pasted) == words


def test_wall_time_survives_a_clock_that_starts_again():
  rows = [
    rl(1, 0.1) | {'time/seconds': 50.0},
    rl(2, 0.1) | {'time/seconds': 10.0},
    rl(3, 0.1) | {'time/seconds': 30.0},
  ]
  assert run_summary._seconds_by_phase(rows) == {'rl': 80.0}


def judged_rows(scores, solved):
  """Rows of a run with a judge: its mean score by step, success at the ends."""

  def evaluation(step, count):
    counts = {'eval/episodes': 1000, 'eval/solved': count}
    return {'step': step, 'eval/success': count / 1000} | counts

  rows = [{'phase': 'eval'} | evaluation(0, solved[0])]
  for i, x in enumerate(scores, 1):
    place = 'rollout/judge/number'
    counts = {'score': x, 'items': 600, 'questions': 500, 'unscored': 2}
    rows.append({'phase': 'rl', 'step': i})
    rows[-1] |= {f'{place}/{name}': y for name, y in counts.items()}
  return [*rows, {'phase': 'eval'} | evaluation(len(scores), solved[1])]


RISING = [0.3 + 0.02 * i + 0.01 * (i % 2) for i in range(20)]


def test_what_a_judge_was_asked_is_told():
  text = run_summary.summary(judged_rows(RISING, (500, 600)), {})
  assert 'number: 12k items, 10k questions, 40 without a score' in text
  assert 'mean score 0.335, then 0.655' in text
  assert 'DIVERGES' not in text


@pytest.mark.parametrize(
  ('scores', 'solved', 'diverges'),
  [
    (RISING, (500, 400), True),
    (RISING, (500, 505), True),  # no gain that can be told
    (RISING, (500, 600), False),
    (RISING[::-1], (500, 400), False),
    ([0.5, 0.4] * 10, (500, 400), False),  # it goes up and down
    ([0.3, 0.9], (500, 400), False),  # two steps show no spread
  ],
)
def test_a_judge_that_parts_from_the_truth_is_named(scores, solved, diverges):
  text = run_summary.summary(judged_rows(scores, solved), {})
  assert ('DIVERGES from held-out success' in text) == diverges


def game(**last):
  """Self-play: success is what one seat takes from the other."""
  numbers = {'eval/success': 0.5, 'eval/episodes': 64, 'eval/solved': 32}
  return [
    {'step': 0, 'phase': 'eval', 'eval/exploitability': 0.458} | numbers | last,
    {'step': 1, 'phase': 'rl', 'league/rating': 12.0},
    {'step': 2, 'phase': 'rl', 'league/rating': 87.6},
    {'step': 2, 'phase': 'eval', 'eval/exploitability': 0.0912}
    | numbers
    | last,
  ]


def test_a_game_with_oneself_is_told_by_how_exploitable_the_policy_is():
  text = run_summary.summary(game(**{'eval/seats': 2}), {})
  assert '0.458 before RL, 0.0912 after RL' in text
  assert '+88 Elo' in text
  assert 'held-out success' not in text
  against = run_summary.summary(game(), {})  # somebody else has the other seat
  assert 'held-out success' in against
  assert 'Elo' not in against
