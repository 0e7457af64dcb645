"""Knapsack study: its inventories, its claims at a small size, its page."""

import functools
import json
import pathlib

import numpy as np
import pytest

from agentrl.lab.papers.knapsack import study

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'knapsack.json').read_text())


@pytest.fixture(scope='module')
def small():
  return study.measure(12)


def test_a_report_is_whole(small):
  assert small == json.loads(json.dumps(small))
  for budget, cell in small['rivals'].items():
    assert tuple(cell) == study.BUYERS
    for x in cell.values():
      assert max(x['spent']) <= int(budget)
  assert 'knapsack, 30 probes |' in study.table(small)


def test_probes_and_a_threshold_buy_more_than_descriptions(small):
  probed, retrieval = f'knapsack, {study.PROBES[1]} probes', study.BUYERS[0]
  greedy = f'greedy, {study.PROBES[1]} probes'
  assert study.gain(small, probed, retrieval, 40).mean > 0.03
  assert study.gain(small, probed, greedy, 40).mean > 0.05
  # Who has the truth and waits has more than everybody.
  for name in study.BUYERS[:-1]:
    assert study.gain(small, study.OPTIMUM, name, 40).low >= 0


def test_ratios_are_within_the_bound_that_greedy_breaks(small):
  for order in study.ORDERS:
    assert max(small['ratios'][order]['knapsack']) <= small['bound']
    assert min(small['ratios'][order]['greedy']) >= 1
  assert min(small['ratios']['rising']['greedy']) > small['bound']


def test_values_per_cost_are_within_the_bounds():
  for order in study.ORDERS:
    x = study.single(order, np.random.default_rng(0))
    density = x.success / x.cost
    assert study.BOUNDS.low <= density.min()
    assert density.max() <= study.BOUNDS.high


def test_inventories_differ_in_descriptions_alone():
  few, many = (study.rivals(r, np.random.default_rng(3)) for r in (0.5, 0.9))
  for a, b in zip(few[:3], many[:3], strict=True):
    np.testing.assert_array_equal(a, b)
  logit = np.log(few.success / (1 - few.success))
  told = [np.corrcoef(logit, x.described)[0, 1] for x in (few, many)]
  np.testing.assert_allclose(told, (0.5, 0.9), atol=0.15)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'knapsack.md').read_text()
  assert study.table(report()) in page
