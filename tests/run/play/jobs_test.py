"""Where a learner says that it listens."""

import shutil
import stat
import threading

import jax
import jax.numpy as jnp
import pytest

from agentrl.configs import grpo
from agentrl.rollout.jobs import Collected
from agentrl.run.check import fields
from agentrl.run.play import jobs
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


def test_a_folder_that_was_emptied_is_filled_again(tmp_path, monkeypatch):
  place = jobs.folder(tmp_path)
  state = TrainState(
    step=jnp.int32(3),
    params={'policy': jnp.ones(2)},
    opt={},
    signal={},
    memory=(),
    key=jax.random.key(0),
  )
  with learner(tmp_path) as opened:
    monkeypatch.setattr(
      opened, '_wait', lambda order, *_: Collected('batch', {}, 0.0)
    )
    collect = opened.collector('rl', (), threading.Event())
    collect(state, {}, 3)
    own = jobs.read_address(place)
    shutil.rmtree(place)
    collect(state.replace(step=jnp.int32(4)), {}, 4)
    assert jobs.read_address(place) == own is not None
    assert (place / 'weights' / 'rl' / 'v000004').is_dir()
