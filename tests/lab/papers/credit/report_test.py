"""The table and the picture of a measurement of credit."""

import numpy as np

from agentrl.lab.papers.credit import report as credit_report


def test_table_and_picture(measured, tmp_path):
  report, credits, played = measured
  text = credit_report.table(report)
  lines = text.splitlines()
  assert lines[1].startswith('gigpo_no_std')
  assert 'left out: oprl: there is no prm here' in lines
  path = tmp_path / 'x.png'
  credit_report.picture(credits, played, path, 'title')
  assert path.stat().st_size > 10_000
  seed, chosen = credit_report.chosen(played)
  assert len(chosen) == 16
  assert played.solved[seed, chosen[0]]


def test_methods_that_differ_are_picked_and_copies_are_not():
  rng = np.random.default_rng(0)
  valid = rng.random((2, 3, 4)) < 0.8
  base = rng.normal(size=(2, 3, 4))
  apart = {f'm{i}': rng.normal(size=(2, 3, 4)) for i in range(3)}
  copies = {'twice': 2 * base, 'once': base, 'elsewhere': base + 9 * ~valid}
  credits = {**copies, **apart, 'against': -base}
  picked = credit_report.most_different(credits, valid, 5)
  assert set(picked) == {'against', 'elsewhere', 'm0', 'm1', 'm2'}
  # The furthest pair comes first, of equals the first by name.
  assert credit_report.most_different(credits, valid, 2) == [
    'against',
    'elsewhere',
  ]
  assert credit_report.most_different(apart, valid, 3) == ['m0', 'm1', 'm2']
