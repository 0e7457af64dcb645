"""Latency study: its claims at a small size, and its page."""

import functools
import json
import pathlib

import numpy as np
import pytest

from agentrl.lab.papers.latency_bandit import study

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'latency_bandit.json').read_text())


@functools.cache
def ends(order, method, world='better', rate=4.0, updates=300):
  """Final probability of the slow arm, of three seeds."""
  course = study.courses(
    study.ORDERS[order],
    study.method(method),
    seeds=range(3),
    updates=updates,
    rates=(rate,),
    worlds={world: study.WORLDS[world]},
  )
  return course.probability[0, 0, :, -1, 1]


@pytest.mark.slow
def test_fast_arms_win_as_finished_unless_weighted():
  assert np.all(ends('as finished', 'raw') < 0.1)
  assert np.all(ends('as finished', 'raw weighted') > 0.9)


@pytest.mark.slow
def test_in_order_fast_arms_do_not_win_for_being_fast():
  assert np.all(ends('in order', 'raw', updates=60) > 0.9)
  assert np.all(ends('in order', 'raw', 'worse', updates=60) < 0.1)


@pytest.mark.nightly
def test_weights_choose_what_is_slow_where_nothing_is_to_undo():
  """Unless a baseline tells better from worse."""
  end = functools.partial(ends, 'in order', world='worse', updates=60)
  assert np.all(end('raw weighted') > 0.9)
  assert np.all(end('centred weighted') < 0.1)


@pytest.mark.slow
def test_what_is_cut_stays_unseen():
  assert np.all(ends('cut', 'raw', updates=100) < 0.1)
  assert np.all(ends('cut', 'raw weighted', updates=100) > 0.9)


def test_claims_speak_of_what_is_run():
  bounds = [b for bounds in study.CLAIMS.values() for b in bounds]
  for order, method, rate, world in [
    x for b in bounds for x in (b.cell, b.less) if x
  ]:
    assert method in study.ORDERS[order].methods
    assert rate in study.RATES
    assert world in study.WORLDS


@pytest.mark.parametrize(('side', 'want'), [(1, False), (-1, True)])
def test_a_claim_needs_its_whole_interval(monkeypatch, side, want):
  cell = ('a', 'b', 1.0, 'c')
  low = {'cells': {'a': {'b': {'c': {'1.0': {'final': [0.1, 0.2, 0.15]}}}}}}
  monkeypatch.setattr(study, 'CLAIMS', {'x': (study.Bound(cell, side),)})
  assert study.holds(low, 'x') is want
  both = {'cells': {'a': {'b': {'c': {'1.0': {'final': [0.1, 0.9, 0.4]}}}}}}
  assert not study.holds(both, 'x')  # its interval spans the bound


def test_a_small_report_has_its_table_and_picture(tmp_path, monkeypatch):
  orders = {k: study.ORDERS[k] for k in ('as finished', 'in order')}
  monkeypatch.setattr(study, 'ORDERS', orders)
  monkeypatch.setattr(study, 'CLAIMS', {})
  monkeypatch.setattr(
    study,
    'courses',
    lambda order, spec, seeds, updates: _constant(len(seeds), updates),
  )
  small = study.measure(seeds=2, updates=3)
  assert small == json.loads(json.dumps(small))
  assert '| in order | centred | 0.25 [0.25, 0.25]' in study.table(small)
  study.picture(small, tmp_path / 'a.png')
  assert (tmp_path / 'a.png').read_bytes()[:4] == b'\x89PNG'


def _constant(seeds, updates):
  shape = len(study.WORLDS), len(study.RATES), seeds, updates
  p = np.broadcast_to([0.75, 0.25], (*shape, 2))
  return study.bandit_lib.Course(np.ones(shape), p, p)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'latency_bandit.md').read_text()
  assert study.table(report()) in page
