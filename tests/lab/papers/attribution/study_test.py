"""Attribution study: its claims, its page, and one trained policy."""

import functools
import json
import pathlib

import numpy as np
import pytest

from agentrl.lab.papers.attribution import conversations as lib
from agentrl.lab.papers.attribution import study

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'attribution.json').read_text())


def test_claims_speak_of_what_is_run():
  for bounds in study.CLAIMS.values():
    for x in bounds:
      assert x.world in lib.WORLDS
      assert {x.method, x.other} <= set(study.METHODS)


@pytest.mark.parametrize(
  ('a', 'holds'), [([0.5, 0.6, 0.55], True), ([0.1, 0.9, 0.5], False)]
)
def test_a_claim_needs_its_whole_interval(monkeypatch, a, holds):
  bound = study.Bound('w', 'a', 'b', margin=0.1)
  monkeypatch.setattr(study, 'CLAIMS', {'x': (bound,)})
  cell = {'a': {'sentence': a}, 'b': {'sentence': [0.1, 0.1, 0.1]}}
  assert study.holds({'cells': {'w': cell}}, 'x') is holds


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'attribution.md').read_text()
  assert study.table(report()) in page


@pytest.mark.slow
@pytest.mark.nightly
def test_a_policy_that_learned_to_read_is_read():
  params, right = lib.train(0, lib.Training())
  assert right > 0.95
  x = lib.of_world('twice', 100, np.random.default_rng(0))
  found = study.hits(params, x)
  assert found['two stages']['sentence'] > 0.9
  assert found['leave one out']['sentence'] < 0.9
  assert found['attention rollout']['turn'] > 0.5
  rough, right = lib.train(0, lib.Training(steps=20))
  assert right < 0.9  # who has not learned cannot be read
  assert study.hits(rough, x)['two stages']['sentence'] < 0.5


@pytest.mark.slow
@pytest.mark.nightly
def test_a_small_report(tmp_path):
  small = study.measure(2, 40, lib.Training(steps=600))
  assert small == json.loads(json.dumps(small))
  assert 'two stages | 11 |' in study.table(small)
