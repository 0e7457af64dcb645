"""Workflow study: a search that finds what was planted, and its page."""

import functools
import json
import pathlib

import pytest

from agentrl.lab import archive
from agentrl.lab.archive import Verdict
from agentrl.lab.papers.adas import scripted, study
from agentrl.lab.papers.adas import workflow as lib
from tests import errors

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'adas.json').read_text())


def solved(text):
  """A world without noise: revising what is closest is what helps."""
  made, wrong = lib.parsed(text)
  if wrong:
    return Verdict(0.0, 1, f'refused: {wrong}')
  kept, value = False, 0.1
  for x in made['steps']:
    kept |= x['do'] == 'keep' and x.get('by', 'closest') == 'closest'
    value += 0.03 * x.get('n', 0) * (x['do'] == 'revise') * kept
  return Verdict(value, lib.calls(made['steps']), '')


def searched(propose, seed, budget=60 * lib.CALLS):
  return archive.best(
    archive.search(
      [*study.FIRST.values()],
      lambda text, seed: solved(text),
      propose,
      budget=budget,
      most=lib.CALLS,
      seed=seed,
    )
  ).value


def test_changing_the_best_finds_a_planted_scaffold():
  """A proposer that does not see what is worth more does not, as often."""

  def anyhow(asked, *, seed):
    lines = [json.loads(x) | {'value': 0.0} for x in
             asked[1].content.split('\n')]  # fmt: skip
    text = '\n'.join(map(json.dumps, lines[::-1]))
    return scripted.change([asked[0], asked[1]._replace(content=text)],
                           seed=seed)  # fmt: skip

  own = [searched(scripted.change, seed) for seed in range(5)]
  blind = [searched(anyhow, seed) for seed in range(5)]
  assert sum(own) / 5 > 0.4
  assert sum(own) > sum(blind) + 0.5


def test_a_workflow_is_played_at_every_task():
  tasks = scripted.tasks(4, 12, 0)
  share, calls = study.success(
    study.HAND[study.CLOSEST], tasks, scripted.policy, 3
  )
  assert calls == 12 * lib.CALLS
  assert 0 <= share <= 1
  again = study.success(study.HAND[study.CLOSEST], tasks, scripted.policy, 3)
  assert again == (share, calls)
  with errors.raises(ValueError, 'text'):
    study.success('{}', tasks, scripted.policy, 3)


def test_a_search_that_was_cut_off_ends_the_same(tmp_path):
  path, most = tmp_path / 'archive.json', study.TRIED * lib.CALLS
  study.search(study.FOUND, 0, budget=4 * most, path=path)
  got = study.search(study.FOUND, 0, budget=6 * most, path=path)
  assert got == study.search(study.FOUND, 0, budget=6 * most)
  assert got.spent <= 6 * most
  with errors.raises(ValueError, 'archive.json name'):
    study.search(study.DRAWN, 0, budget=6 * most, path=path)


def test_tasks_of_a_search_are_not_those_of_its_test():
  for seed in range(1000, 1003):
    tried = scripted.tasks(study.NUMBERS, study.TRIED, seed)
    tested = scripted.tasks(study.NUMBERS, study.TESTED, 10**6 + seed)
    shared = set(tried) & set(tested)
    assert len(shared) < 0.02 * study.TESTED


@pytest.mark.nightly
def test_a_report_is_whole():
  most = study.TRIED * lib.CALLS
  small = study.measure(seeds=2, budget=4 * most)
  assert small == json.loads(json.dumps(small))
  assert tuple(small['cells']) == study.NAMES
  assert f'| {study.FOUND} |' in study.table(small)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'adas.md').read_text()
  assert study.table(report()) in page
  for text in report()['found']:
    assert not lib.parsed(text)[1]
