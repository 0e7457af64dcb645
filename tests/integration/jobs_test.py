"""Runs whose batches are collected by jobs of their own."""

import contextlib
import os
import signal
import threading
import traceback

import numpy as np
import pytest

from agentrl import Run
from agentrl.configs import base, grpo
from agentrl.run import runner, sampler_job
from agentrl.runtime import publish, threads
from agentrl.runtime.lock import Lock, TakenError
from agentrl.runtime.preemption import Stopped
from tests.integration import same
from tests.integration.cut import after_row
from tests.integration.resume_test import SMALL
from tests.integration.staleness_test import stale
from tests.run import small_configs

pytestmark = pytest.mark.slow
BUT = (*same.CLOCK, 'samplers/')


@contextlib.contextmanager
def samplers(workdir, count):
  """Sampler jobs, each in a thread here."""
  done = threading.Event()

  def stopping():
    if done.is_set():
      raise Stopped('the end of the test')

  def live():
    return sampler_job.serve(
      workdir, stopping=stopping, patience=300, say=lambda line: None
    )

  def check(home):
    error = home.exception()
    if error and not isinstance(error, Stopped):  # the learner would wait
      traceback.print_exception(error)
      os.kill(os.getpid(), signal.SIGTERM)

  homes = [threads.start(live) for _ in range(count)]
  for home in homes:
    home.add_done_callback(check)
  try:
    yield homes
  finally:
    done.set()


def tiny(tmp_path, **staleness):
  c = grpo.get_config('tiny')
  c.update_from_flattened_dict(SMALL)
  return stale(c, tmp_path, **staleness)


@pytest.mark.parametrize(
  'bound', [pytest.param(0, marks=pytest.mark.nightly), 2]
)
def test_inside_jit(bound, tmp_path):
  """Cut between checkpoints, with the same samplers: the same bits."""
  anchor = 'behaviour' if bound else ''
  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(tiny(tmp_path, bound=bound, anchor=anchor, depth=0), whole)
  c = tiny(tmp_path, bound=bound, anchor=anchor, jobs=True)
  with samplers(cut, 2) as homes:
    with after_row(3):
      runner.run(c, cut)
    for version in range(4, 9):  # a kill leaves what a resumed run is yet to do
      left = tmp_path / 'cut' / 'samplers' / 'weights' / 'rl' / 'policy'
      publish.publish_arrays(left, version, {'of': np.zeros(2)}, kept=9)
    runner.run(c, cut)
    batches = [home.result(timeout=60) for home in homes]
  assert sum(batches) >= 6
  same.assert_same_run(whole, cut, steps=6, but=BUT)
  assert not (tmp_path / 'cut' / 'samplers').exists()
  assert all(
    row['samplers/lost'] == 0 for row in same.rows(cut) if row['phase'] == 'rl'
  )


def test_adapters_travel_without_their_base(tmp_path):
  c = tiny(tmp_path, bound=1)
  c.lora.rank = 2
  whole, apart = str(tmp_path / 'whole'), str(tmp_path / 'apart')
  runner.run(c, whole)
  c.staleness.jobs = True
  with samplers(apart, 1):
    runner.run(c, apart)
  same.assert_same_run(whole, apart, steps=6, but=BUT)


@pytest.mark.nightly
def test_stages_of_one_run_share_its_samplers(tmp_path):
  def config(**staleness):
    c = tiny(tmp_path, bound=1, **staleness)
    c.stages = ('one', 'two')
    base.stage(c, 'one', steps=3)
    base.stage(c, 'two', steps=3, changes={'rollout.temperature': 0.7})
    return base.finish(c)

  whole, apart = str(tmp_path / 'whole'), str(tmp_path / 'apart')
  runner.run(config(depth=0), whole)
  kept = []
  with samplers(apart, 2), Run(config(jobs=True), workdir=apart) as run:
    for _ in run:
      kept.append(os.listdir(f'{apart}/samplers/weights'))
  assert kept == [['one']] * 3 + [['two']] * 3
  same.assert_same_run(whole, apart, steps=6, but=BUT)


@pytest.mark.nightly
def test_samplers_wait_for_a_run_that_was_left_early(tmp_path):
  c, run = tiny(tmp_path, bound=0, anchor='', jobs=True), str(tmp_path / 'run')
  with samplers(run, 1) as [home]:
    with Run(c, workdir=run) as left:
      next(iter(left))
    assert not home.done()
    with Run(c, workdir=run) as left:
      assert [step for step, *_ in left] == [2, 3, 4, 5, 6]
    assert home.result(timeout=60) == 6


@pytest.mark.nightly
def test_on_hosts(tmp_path):
  def config(**staleness):
    c = small_configs.countdown(checkpoint__every=2)
    return stale(c, tmp_path, bound=1, **staleness)

  whole, apart = str(tmp_path / 'whole'), str(tmp_path / 'apart')
  runner.run(config(depth=0), whole)
  with samplers(apart, 2):
    runner.run(config(jobs=True), apart)
  same.assert_same_run(
    whole, apart, steps=6, but=(*BUT, *same.SLOTS, 'eval/engine/'), atol=1e-5
  )


@pytest.mark.nightly
def test_a_learner_on_a_mesh(tmp_path):
  whole, apart = str(tmp_path / 'whole'), str(tmp_path / 'apart')
  c = tiny(tmp_path, bound=1, depth=0)
  c.mesh.update(dict(data=2, fsdp=2))
  runner.run(c, whole)
  c = tiny(tmp_path, bound=1, jobs=True, devices=4)
  c.mesh.update(dict(data=2, fsdp=2))
  with samplers(apart, 1):
    runner.run(c, apart)
  same.assert_same_run(whole, apart, steps=6, but=BUT)


def test_a_second_learner_leaves_the_folder_of_the_first_alone(tmp_path):
  kept = tmp_path / 'run' / 'samplers' / 'learner.json'
  with Lock(tmp_path / 'run'):
    kept.parent.mkdir()
    kept.write_text('of the first')
    with pytest.raises(TakenError):
      runner.run(tiny(tmp_path, bound=0, jobs=True), str(tmp_path / 'run'))
  assert kept.read_text() == 'of the first'
