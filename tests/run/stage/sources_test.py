"""Sources of supervised stages: demonstrations, stores, what a run found."""

import itertools
import types

import numpy as np
import pytest

from agentrl.configs import base, grpo
from agentrl.dataset import trajectory_store
from agentrl.run.stage import sources
from tests import errors
from tests.dataset import stored_cases


def setup(folder, **fields):
  """As much of an experiment as sources look at, of a row a trajectory."""
  c = grpo.get_config('tiny')
  c.data = str(folder)
  base.source(c, 'one', **fields)
  base.source(c, 'other', weight=3.0)
  c.sft.mix = ('one', 'other')
  room = types.SimpleNamespace(turns=9, message=9, history='full')
  size = types.SimpleNamespace(context=99, row=999)
  shape = types.SimpleNamespace(vocab=99)
  return types.SimpleNamespace(
    config=base.fill(c), plan=room, capacity=size, shape=shape
  )


def scored(seed, **fields):
  x = stored_cases.story(seed, turns=3, **fields)
  return x._replace(turns=tuple(t._replace(scored=True) for t in x.turns))


XS = [scored(i, outcome=float(i % 2)) for i in range(8)]


def ids(source):
  return [x.id for x in source.take(np.arange(len(source.heads)))]


def test_weights_are_numbers_or_schedules(tmp_path):
  s = setup(tmp_path)
  assert sources.weights(s, 3).tolist() == [[1.0, 3.0]] * 3
  s.config.schedule.mix = {
    'one': {'weight': ('linear', 1.0, 0.0, 0)},
    'other': {'weight': ('linear', 0.0, 1.0, 2)},
  }
  want = [[1, 0], [0.75, 0.5], [0.5, 1], [0.25, 1]]
  np.testing.assert_allclose(sources.weights(s, 4), want)


def test_a_store_is_read_or_edited(tmp_path):
  trajectory_store.build(XS, tmp_path, 'xs')
  s = setup(tmp_path, kind='store', store='xs')
  assert ids(sources.stored(s, 'one')) == [x.id for x in XS]
  s = setup(tmp_path, kind='store', store='xs', edits=('keep_solved',))
  assert ids(sources.stored(s, 'one')) == [x.id for x in XS[1::2]]
  s = setup(
    tmp_path, kind='store', store='xs', edits=('keep_solved', 'keep_unsolved')
  )
  with errors.raises(ValueError, 'mix.one xs'):
    sources.stored(s, 'one')
  s.plan.turns = 2
  s.config.mix.one.edits = ()
  with errors.raises(ValueError, 'mix.one 3 2'):
    sources.stored(s, 'one')


@pytest.fixture
def log(monkeypatch):
  """What the run has logged: {step: trajectories}."""
  logged = {}

  def read(run, *, phase, steps):
    assert phase == 'rl'
    first, last = steps
    return itertools.chain.from_iterable(
      logged[step] for step in range(first, last + 1)
    )

  monkeypatch.setattr(sources.run_log, 'read', read)
  return logged


def find(s, tmp_path, begins):
  return sources.found_by_run(
    s, 'one', str(tmp_path), [(1, 2), (5, 5)], stage='fit', begins=begins
  )


def test_what_was_found_is_read_once(tmp_path, log):
  log |= {1: XS[:3], 2: XS[3:4], 3: XS[4:6], 5: XS[6:]}
  s = setup(tmp_path, kind='found', edits=('keep_solved',))
  want = [XS[i].id for i in (1, 3, 7)]
  assert ids(find(s, tmp_path, True)) == want
  # In the middle of the stage the log is not asked again.
  log[1] = []
  assert ids(find(s, tmp_path, False)) == want
  # At its beginning it is; what was made before is kept under another name.
  assert ids(find(s, tmp_path, True)) == want[1:]
  place = trajectory_store.location(tmp_path, 'fit.one').parent
  aside = [x.name for x in place.parent.iterdir() if x != place]
  assert len(aside) == 1
  assert aside[0].startswith('fit.one.')
  assert ids(find(s, tmp_path, True)) == want[1:]
  assert len([*place.parent.iterdir()]) == 2


def test_nothing_found_is_a_sentence_with_the_way_out(tmp_path, log):
  log |= {1: XS[:1], 2: [], 5: []}
  s = setup(tmp_path, kind='found', edits=('keep_solved',))
  with errors.raises(ValueError, 'keep_solved'):
    find(s, tmp_path, True)
  broken = XS[1]._replace(
    turns=tuple(t._replace(scored=False) for t in XS[1].turns)
  )
  log[2] = [broken]
  with pytest.raises(ValueError):
    find(s, tmp_path, True)
  assert not trajectory_store.location(tmp_path, 'fit.one').exists()
