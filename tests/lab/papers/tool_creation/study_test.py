"""Tool study: its split, its placebo, its claims and its page."""

import functools
import json
import pathlib

import numpy as np
import pytest

from agentrl.lab.papers.tool_creation import library, scripted, study, world
from agentrl.lab.papers.tool_creation.library import Rules
from tests.lab.papers.tool_creation.in_process import InProcess

ROOT = pathlib.Path(__file__).parents[4]


@functools.cache
def report():
  return json.loads((ROOT / 'docs' / 'tool_creation.json').read_text())


def inputs(tasks):
  return {world.key(x.input) for task in tasks for x in world.pairs(task)}


def test_no_input_is_in_two_sets():
  split = study.draw(1000)
  train, test, unseen = map(inputs, (split.train, *split.tests.values()))
  assert not train & test
  assert not (train | test) & unseen
  assert len(split.train) == study.TRAINED
  assert not {x for _, x in split.kinds.train} & {
    x for _, x in split.kinds.unseen
  }


def test_a_library_is_built_on_training_tasks_alone():
  split, sandbox = study.draw(0), InProcess()
  where = study.benches(split, sandbox)
  library.grow(split.train, where.train, scripted.write, seed=0)
  assert len(sandbox.ran) > 5
  # Strings alone: three numbers may be one of another's digits.
  tested = {x for tasks in split.tests.values() for x in inputs(tasks)}
  for x in tested:
    if isinstance(x, str):
      assert not any(f'"{x}"' in code for code in sandbox.ran)
  # Nor do outputs reach a tool, but those that are one step from an input.
  far = {
    pair.output
    for task in split.train
    for pair in task.held
    if isinstance(pair.output, str)
  }
  assert not any(f'"{x}"' in code for x in far for code in sandbox.ran)


def test_a_placebo_has_as_many_tools_that_do_no_kind():
  split = study.draw(0)
  where = study.benches(split, InProcess())
  tools = study.placebo(split, where.train, 0)
  for task in split.train:
    for x in tools:
      if x.of == world.STRING == task.of:
        assert library.try_out(x.source, task, where.train).value < 1
  own = library.grow(split.train, where.train, scripted.write, seed=0)
  figures, state = study.run(study.PLACEBO, split, where, 0, own)
  assert sorted(x.of for x in state.tools) == sorted(x.of for x in own.tools)
  assert state.banks == own.banks
  assert len(figures['each']) == study.TRAINED // Rules().batch


def test_arms_meet_the_same_tasks_until_there_are_tools():
  split = study.draw(3)
  where, like, first = study.benches(split, InProcess()), None, []
  for arm in study.NAMES:
    figures, state = study.run(arm, split, where, 3, like)
    like = state if arm == study.LIBRARY else like
    first.append(state.done[: Rules().batch])
    assert len(state.tools) <= Rules().room
    assert 0 <= figures['held out'] <= 1
  assert len({*first}) == 1


@pytest.mark.nightly
def test_a_measurement_that_was_cut_off_ends_the_same(tmp_path):
  study.measure(1, tmp_path)
  kept = json.loads((tmp_path / f'{study.FIRST_SEED}.json').read_text())
  assert tuple(kept['state']) == study.NAMES
  small = study.measure(2, tmp_path)
  assert small == study.measure(2, tmp_path)
  assert f'| {study.PLACEBO} |' in study.table(small)


def test_the_page_has_the_table_of_the_report():
  page = (ROOT / 'docs' / 'results' / 'tool_creation.md').read_text()
  assert study.table(report()) in page
  for cell in report()['cells'].values():
    assert len(cell['held out']) == report()['seeds'] == study.SEEDS
    assert np.all(np.isfinite(cell['held out']))
