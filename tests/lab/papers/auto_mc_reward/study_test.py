"""Reward program study: what refining gains, its claims and its page."""

import functools
import json
import pathlib

import numpy as np
import pytest

from agentrl.lab.archive import Archive, Entry
from agentrl.lab.papers.auto_mc_reward import programs, study
from agentrl.lab.papers.auto_mc_reward.world import World
from agentrl.tool.sandbox.sandbox import Sandbox

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'auto_mc_reward.json').read_text())


@pytest.fixture(scope='module')
def sandbox():
  return Sandbox(programs.LIMITS._replace(seconds=10.0))  # on a busy machine


@pytest.mark.slow
def test_refining_finds_the_door_that_is_not_found_without(sandbox):
  for seed in range(2):
    refined = study.run(study.REFINED, sandbox, seed)
    assert refined['final'] > 0.9
    assert refined['each'] == sorted(refined['each'])
    for arm in (study.SPARSE, study.FIXED):
      assert study.run(arm, sandbox, seed)['final'] < 0.1


@pytest.mark.slow
def test_without_what_was_seen_nothing_is_refined(sandbox):
  """A designer that reads no analysis writes about the key for ever."""

  def blinded(asked, *, seed):
    lines = [json.loads(x) | {'said': ''} for x in asked[1].content.split('\n')]
    text = '\n'.join(map(json.dumps, lines))
    return programs.refine(
      [asked[0], asked[1]._replace(content=text)], seed=seed
    )

  found = study.design(blinded, World(2), sandbox, 2)
  assert not any('door' in x.text for x in found.entries)


def test_a_search_that_was_cut_off_ends_the_same(sandbox, tmp_path):
  how = dict(path=tmp_path / 'archive.json', name=study.REFINED)
  study.design(programs.refine, World(0), sandbox, 0, rounds=2, **how)
  got = study.design(programs.refine, World(0), sandbox, 0, rounds=4, **how)
  assert got == study.design(programs.refine, World(0), sandbox, 0, rounds=4)
  assert got.spent <= 4 * study.EPISODES


def test_success_by_round_is_the_best_so_far():
  values = ((0.2, 60), (0.0, 1), (0.5, 60), (0.4, 60))
  some = Archive(tuple(Entry('', v, c, '') for v, c in values))
  assert study.by_round(some, 5) == [0.2, 0.2, 0.5, 0.5, 0.5]


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'auto_mc_reward.md').read_text()
  assert study.table(report()) in page
  for cell in report()['cells'].values():
    assert len(cell['final']) == report()['seeds']
    assert np.all(np.isfinite(cell['final']))
