"""Curves against plain Python."""

import math

import numpy as np
import pytest

from agentrl.report.dashboard import curves as curves_lib
from agentrl.report.dashboard.curves import Piece


def test_pieces_end_where_a_stage_does(runs):
  run = runs[0]
  sft, rl = curves_lib.pieces(run, 'loss/total')
  assert (sft.phase, rl.phase) == ('sft', 'rl')
  assert sft.x.tolist() == list(range(1, 161))
  assert rl.x.tolist() == list(range(161, 221))
  assert math.isnan(rl.y[4])
  assert curves_lib.begin_of_rl(run) == 161
  (clock,) = curves_lib.pieces(run, 'eval/success', 'time/seconds')
  told = [r['time/seconds'] / 60 for r in run.rows if r['phase'] == 'eval']
  np.testing.assert_allclose(clock.x, told)
  assert curves_lib.pieces(run, 'no/such') == []


def test_means_against_plain_python():
  rng = np.random.default_rng(0)
  y = rng.normal(size=40)
  y[[3, 17]] = math.nan
  got = curves_lib.smooth(Piece('rl', np.arange(40.0), y), 6)
  kept = [v for v in y if not math.isnan(v)]
  want = [np.mean(kept[max(0, i - 5) : i + 1]) for i in range(len(kept))]
  np.testing.assert_allclose(got.y, want, atol=1e-12)
  assert len(got.x) == 38
  assert 3.0 not in got.x


def test_lines_stop_at_gaps():
  y = np.array([math.nan, 1, 2, math.nan, math.nan, 3, math.nan])
  found = list(curves_lib.strokes(Piece('rl', np.arange(7.0), y)))
  assert [x.tolist() for x in found] == [[[1, 1], [2, 2]], [[5, 3]]]


def test_thinning_keeps_every_extreme():
  rng = np.random.default_rng(1)
  points = np.stack([np.arange(5000.0), rng.normal(size=5000)], axis=1)
  got = curves_lib.thin(points, 50)
  assert len(got) <= 100
  assert np.all(np.diff(got[:, 0]) > 0)
  for part in np.split(points, 50):
    here = got[(got[:, 0] >= part[0, 0]) & (got[:, 0] <= part[-1, 0])]
    assert here[:, 1].min() == part[:, 1].min()
    assert here[:, 1].max() == part[:, 1].max()
  np.testing.assert_array_equal(curves_lib.thin(points[:100], 50), points[:100])


@pytest.mark.parametrize(
  ('paths', 'found'),
  [
    (['/r/a'], ['a']),
    (['/r/a', '/r/b'], ['a', 'b']),
    (['/r/x/0', '/r/y/0'], ['x/0', 'y/0']),
    (['/r/x/0', '/s/x/0'], ['r/x/0', 's/x/0']),
    (['/x/0', '/s/x/0'], ['x/0', 's/x/0']),
  ],
)
def test_names_tell_runs_apart(paths, found):
  assert curves_lib.names(paths) == found


def test_a_mean_is_of_the_rows_that_all_runs_have(runs):
  """Of a run and itself: the same numbers, without a width."""
  first = runs[0]
  other = first._replace(rows=first.rows[:40])
  got = curves_lib.mean('both', [first, other])
  assert len(got.rows) == 40
  np.testing.assert_equal(got.rows[5], first.rows[5])
  rows = [
    {'step': 3, 'phase': 'eval', 'eval/success': x, 'eval/turns': x}
    for x in (0.2, 0.4)
  ]
  del rows[0]['eval/turns']
  (row,) = curves_lib.mean('x', [first._replace(rows=[r]) for r in rows]).rows
  half = 12.706205 * 0.1  # t of one degree, over sd / sqrt 2
  assert row['eval/success'] == pytest.approx(0.3)
  ends = row['eval/ci_low'], row['eval/ci_high']
  assert ends == pytest.approx((0.3 - half, 0.3 + half))
  assert 'eval/turns' not in row  # one of them has none
