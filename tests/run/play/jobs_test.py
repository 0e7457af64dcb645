"""Where a learner says that it listens."""

import shutil
import stat
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.learner.algorithm import Algorithm
from agentrl.optimizer import OptimizerConfig
from agentrl.registry import MethodSpec
from agentrl.rollout.jobs import Collected, Order
from agentrl.run import sampler_job
from agentrl.run.check import fields
from agentrl.run.play import jobs
from agentrl.runtime import publish
from agentrl.signal.base import Context
from agentrl.types import TrainState
from tests import errors


def test_an_address_is_for_its_user_alone(tmp_path):
  place, address = tmp_path / 'in', (('10.0.0.1', 80), b'key')
  assert jobs.read_address(place) is None
  for _ in range(2):
    jobs.write_address(place, *address)
    assert jobs.read_address(place) == address
    file = place / jobs.ADDRESS
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(place.iterdir()) == [file]


@pytest.mark.parametrize(
  'text', ['', '{', '[]', '{"host": "h"}', '{"host":"h","port":1,"key":"x"}']
)
def test_a_damaged_address_is_none(tmp_path, text):
  (tmp_path / jobs.ADDRESS).write_text(text)
  assert jobs.read_address(tmp_path) is None


@pytest.mark.parametrize(
  ('name', 'host'),
  [
    ('127.0.0.1', '127.0.0.1'),
    ('::1', '::1'),
    ('localhost', '127.0.0.1'),
    ('node1', '10.0.0.1'),
    ('node1', 'fe80::1%eth0'),
  ],
)
def test_an_address_that_others_reach(name, host):
  jobs.check_reached(name, host)


@pytest.mark.parametrize('host', ['127.0.1.1', '::1'])
def test_a_name_that_is_a_loopback_here_is_refused(host):
  with errors.raises(ValueError, f'staleness.address node1 {host}'):
    jobs.check_reached('node1', host)


def learner(workdir):
  return jobs.SamplerJobs(fields.read(grpo.get_config('tiny')), str(workdir))


def test_the_address_of_the_learner_that_took_over_stays(tmp_path):
  place = jobs.folder(tmp_path)
  with learner(tmp_path) as lost, learner(tmp_path):
    newer = jobs.read_address(place)
    lost.__exit__()
    assert jobs.read_address(place) == newer is not None
  assert not place.exists()


def published(step, *roles):
  return TrainState(
    step=jnp.int32(step),
    params=dict.fromkeys(roles, jnp.full(2, 1.0 * step)),
    opt={},
    signal={},
    memory=(),
    key=jax.random.key(0),
  )


def algorithm(*players, **settings):
  """An algorithm of players, all of which learn but 'frozen'."""
  rules = {x: OptimizerConfig() for x in players if x != 'frozen'}
  context = Context({}, rules, 1)
  return Algorithm.from_spec(MethodSpec(), context, players=players, **settings)


@pytest.fixture
def opened(tmp_path, monkeypatch):
  with learner(tmp_path) as opened:
    monkeypatch.setattr(
      opened, '_wait', lambda order, *_: Collected('batch', {}, 0.0)
    )
    yield opened


def test_a_folder_that_was_emptied_is_filled_again(tmp_path, opened):
  place = jobs.folder(tmp_path)
  collect = opened.collector('rl', (), threading.Event())(algorithm('policy'))
  collect(published(3, 'policy'), {}, 3)
  own = jobs.read_address(place)
  shutil.rmtree(place)
  collect(published(4, 'policy'), {}, 4)
  assert jobs.read_address(place) == own is not None
  assert (place / 'weights' / 'rl' / 'policy' / 'v000004').is_dir()


def test_a_policy_is_published_once_for_each_version_of_its_own(
  tmp_path, opened
):
  """One that waits its turn, or is frozen, has no new version."""
  place = jobs.folder(tmp_path)
  players = 'policy', 'other', 'frozen'
  alg = algorithm(*players, learn_in_turn=2)
  collect = opened.collector('rl', ('frozen',), threading.Event())(alg)
  times = {}
  for step in range(5):
    collect(published(step, *players), {}, step)
    for x in (place / 'weights' / 'rl').glob('*/v*'):
      made = (x / publish.COMPLETE).stat().st_mtime_ns
      times.setdefault((x.parent.name, x.name), set()).add(made)
  assert set(times) == {
    *(('policy', f'v{n:06d}') for n in (0, 1, 2)),
    *(('other', f'v{n:06d}') for n in (0, 1, 2)),
  }
  assert all(len(x) == 1 for x in times.values())
  assert (place / 'base' / 'rl' / 'v000000').is_dir()


def test_what_is_held_is_not_read_again(tmp_path, opened, monkeypatch):
  players = 'policy', 'other'
  alg, read = algorithm(*players, learn_in_turn=1), []
  collect = opened.collector('rl', (), threading.Event())(alg)
  fetch = publish.fetch_arrays

  def watched(folder, version, like):
    read.append((folder.name, version))
    return fetch(folder, version, like)

  monkeypatch.setattr(publish, 'fetch_arrays', watched)
  weights = sampler_job.Weights(
    jobs.folder(tmp_path), 'rl', published(0, *players), ()
  )
  for step in range(3):
    state = published(step, *players)
    collect(state, {}, step)
    order = Order(
      'rl', step, step, {}, versions=jobs.streams(alg, state, still=())
    )
    got = weights.at(order)
    assert int(got.step) == step
  assert read == [
    ('rl', 0),
    *(('policy', 0), ('other', 0)),
    ('policy', 1),
    ('other', 1),
  ]
  np.testing.assert_array_equal(got.params['policy'], [1, 1])
  np.testing.assert_array_equal(got.params['other'], [2, 2])
