"""Instruction study: its world, its claims at a small size, its page."""

import functools
import json
import pathlib

import numpy as np
import pytest

from agentrl.lab import population
from agentrl.lab.papers.instructions import study

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'instructions.json').read_text())


@pytest.fixture(scope='module')
def small():
  return study.measure(seeds=6, budget=800)


def test_a_report_is_whole(small):
  assert small == json.loads(json.dumps(small))
  for cell in small['cells'].values():
    assert tuple(cell) == study.NAMES
  assert 'population, upper bound |' in study.table(small)


def test_what_a_population_gains(small):
  gap = lambda *x: study.gap(small, study.Bound(*x)).mean  # noqa: E731
  assert gap('steady', 'final', study.FORGETTING, study.STATIC) > 0.3
  assert gap('steady', 'mean', study.FORGETTING, study.RANDOM) > 0.1
  assert gap('drift', 'final', study.FORGETTING, study.PLANTED) > 0.1
  nothing = small['cells']['nothing']
  for arm in study.NAMES:  # where words weigh nothing none is better
    np.testing.assert_allclose(nothing[arm]['final'], study.BASE)
    np.testing.assert_allclose(nothing[arm]['mean'], study.BASE)


@pytest.mark.parametrize('kind', study.WORLDS)
def test_a_policy_follows_its_planted_words(kind):
  world = study.World(kind, 100, seed=4)
  help_ = 0 if kind == 'nothing' else sum(study.WEIGHTS[:2])
  assert world.success(study.FIRST) == pytest.approx(study.BASE)
  assert world.success(world.planted) == pytest.approx(study.BASE + help_)
  twice = f'{world.planted} {world.planted}'  # a word counts once
  assert world.success(twice) == world.success(world.planted)
  rewards = world(world.planted, 50, 7)
  assert rewards == study.World(kind, 100, seed=4)(world.planted, 50, 7)
  assert world.total == pytest.approx(50 * (study.BASE + help_))
  after = study.BASE + (help_ if kind == 'steady' else 0)
  assert world.success(world.planted) == pytest.approx(after)  # halfway
  many = np.mean(study.World(kind, 10**6, 4)(world.planted, 4000, 1))
  assert many == pytest.approx(study.BASE + help_, abs=0.03)


def test_proposals_exchange_one_word_and_random_ones_read_nothing():
  known = [
    population.Candidate('w0 w1 w2 w3', 0.1, 1),
    population.Candidate('w4 w5 w6 w7', 0.9, 1),
  ]
  near = 0
  for seed in range(60):
    text = study.exchange(population.messages(known), seed=seed)
    changed = [
      sum(a != b for a, b in zip(x.text.split(), text.split(), strict=True))
      for x in known
    ]
    assert min(changed) <= 1
    near += changed[1] <= 1
  assert 0.6 * 60 < near < 60  # mostly of the best
  assert study.rewrite([], seed=3) == study.rewrite(
    population.messages(known), seed=3
  )


def test_claims_speak_of_what_is_run():
  for bounds in study.CLAIMS.values():
    for x in bounds:
      assert x.world in study.WORLDS
      assert x.measure in study.MEASURES
      assert {x.a, x.b} <= set(study.NAMES)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'instructions.md').read_text()
  assert study.table(report()) in page
