"""Runs whose batches are collected beside the updates, cut and not."""

import pytest

from agentrl.configs import grpo
from agentrl.run import runner
from tests.integration import same
from tests.integration.cut import after_row
from tests.integration.resume_test import SMALL
from tests.run import small_configs

pytestmark = pytest.mark.slow


def stale(c, tmp_path, **staleness):
  c.data, c.steps, c.sft.steps = str(tmp_path / 'data'), 6, 0
  c.checkpoint.every = 2
  c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
  c.curate, c.hp.curate = (), {}
  c.staleness.update(dict(anchor='behaviour') | staleness)
  return c


@pytest.mark.parametrize('depth', [0, 3])
def test_inside_jit(depth, tmp_path):
  """Cut between checkpoints: the run without threads, to the bit."""

  def config(**staleness):
    c = grpo.get_config('tiny')
    c.update_from_flattened_dict(SMALL)
    return stale(c, tmp_path, **staleness)

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  runner.run(config(bound=2, depth=3 - depth), whole)
  with after_row(3):
    runner.run(config(bound=2, depth=depth), cut)
  runner.run(config(bound=2, depth=depth), cut)
  same.assert_same_run(whole, cut, steps=6)
  ages = [r['rollout/age'] for r in same.rows(cut) if r['phase'] == 'rl']
  assert ages == [0, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(('order', 'depth'), [('fixed', 2), ('latest', 2)])
def test_on_hosts(order, depth, tmp_path):
  def config(**staleness):
    c = small_configs.countdown(checkpoint__every=2)
    return stale(c, tmp_path, bound=1, **staleness)

  whole, cut = str(tmp_path / 'whole'), str(tmp_path / 'cut')
  with after_row(3):
    runner.run(config(depth=depth, order=order), cut)
  runner.run(config(depth=depth, order=order), cut)
  ages = [r['rollout/age_max'] for r in same.rows(cut) if r['phase'] == 'rl']
  assert len(ages) == 6
  assert max(ages) <= 1
  if order == 'fixed':
    runner.run(config(depth=0), whole)
    same.assert_same_run(
      whole, cut, steps=6, but=(*same.SLOTS, 'eval/engine/'), atol=1e-5
    )


def test_on_devices_of_their_own(tmp_path):
  """Two meshes of four devices: the numbers of one, to the bit."""

  def config(**staleness):
    c = grpo.get_config('tiny')
    c.update_from_flattened_dict(SMALL)
    c.mesh.update(dict(data=2, fsdp=2))
    return stale(c, tmp_path, bound=1, **staleness)

  whole, apart = str(tmp_path / 'whole'), str(tmp_path / 'apart')
  runner.run(config(depth=0), whole)
  runner.run(config(devices=4), apart)
  same.assert_same_run(whole, apart, steps=6)
