"""Tool graph study: its worlds, its claims at a small size, its page."""

import functools
import json
import pathlib

import numpy as np
import pytest

from agentrl.lab.papers.tool_graph import study

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'tool_graph.json').read_text())


@pytest.fixture(scope='module')
def small():
  return study.measure(seeds=4)


def test_states_matter_where_intents_do(small):
  assert small == json.loads(json.dumps(small))
  gap = lambda *x: study.gap(small, study.Claim(*x)).mean  # noqa: E731
  assert gap('switching', study.BOTH, study.STATELESS) > 0.1
  assert gap('switching', study.BOTH, study.WHOLE) > 0.2
  assert gap('stateless', study.BOTH, study.STATELESS) == 0
  cells = small['cells']['switching']
  reads = np.mean(cells[study.BOTH]['recalls'])
  assert 0.1 < reads < 0.9  # recall alone reads at every call
  assert set(cells[study.RECALL]['recalls']) == {1.0}
  assert cells[study.ALONE_ARM]['right'] == [study.ALONE] * 4
  assert cells[study.ALONE_ARM]['success'] == pytest.approx(
    [study.ALONE**study.LENGTH] * 4, abs=1e-4
  )
  assert 'routine and recall |' in study.table(small)


@pytest.mark.parametrize('kind', study.WORLDS)
def test_an_expert_follows_tools_and_intents(kind):
  world = study.World(kind, 0)
  alike = (world.next == world.next[:, :1]).all(axis=1)
  assert alike.sum() >= study.TOOLS / 2
  assert alike.all() == (kind == 'stateless')
  world._noise = 0.0  # states say what is wanted
  slips = changes = 0
  for _ in range(50):
    calls, right = world.conversation(study.SLIPS)
    before, intents = study.START, []
    for call, wanted in zip(calls, right, strict=True):
      intents.append(int(np.argmax(world._meaning @ call.state)))
      assert wanted == world.next[before, intents[-1]]
      slips += call.tool != wanted
      before = call.tool
    changes += len(set(intents)) > 1
  assert 0 < slips < 50 * study.LENGTH * 0.1
  assert (changes > 0) == (kind != 'steady')


def test_the_whole_conversation_is_the_one_that_began_alike():
  recorded = [
    [study.Call(3, np.array([1.0, 0])), study.Call(4, np.array([0, 1.0]))],
    [study.Call(5, np.array([0, 1.0])), study.Call(6, np.array([1.0, 0]))],
  ]
  now = [study.Call(0, np.array([0.1, 1])), study.Call(0, np.array([1.0, 0]))]
  got = [study._whole(None, recorded, now, i).tool for i in (0, 1)]
  assert got == [5, 6]


def test_claims_speak_of_what_is_run():
  for x in study.CLAIMS.values():
    assert x.world in study.WORLDS
    assert {x.a, x.b} <= set(study.ARMS)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'tool_graph.md').read_text()
  assert study.table(report()) in page
