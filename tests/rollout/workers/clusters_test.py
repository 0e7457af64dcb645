"""Rollouts in clusters: the tokens of threads, whatever is killed."""

import concurrent.futures
import contextlib
import dataclasses
import importlib.util
import multiprocessing
import os
import pathlib
import signal

import jax
import numpy as np
import pytest

from agentrl.env import base
from agentrl.rollout import host
from agentrl.rollout.workers import executors
from agentrl.rollout.workers.pool import cluster_workers, env_workers
from agentrl.run.check import validate
from agentrl.run.play import host_env
from agentrl.task.base import make_attempts
from agentrl.text import tokenizer
from agentrl.types import Status
from tests import errors
from tests.rollout import host_test, hosted
from tests.rollout.workers import naughty, rooms, traced
from tests.run import small_configs

TURNS = host_test.LIMITS.turns
ATTEMPTS = make_attempts(np.repeat(np.arange(8), 2), 2, 5, 1.0)


class Acting:
  """An engine, and something that happens after a number of its messages.

  `act` says whether it happened; if not, it is asked again.
  """

  def __init__(self, engine, act, after):
    self._engine, self._act, self._left = engine, act, after
    self._acted = False

  def __getattr__(self, name):
    return getattr(self._engine, name)

  def collect(self):
    done = self._engine.collect()
    self._left -= len(done)
    if self._left <= 0 and not self._acted:
      self._acted = self._act()
    return done


def play(workers, family, act=lambda: True):
  """Plays all attempts: their record, each once."""
  stage = host_test.stage(family, [{'n': n} for n in range(8)])
  engine = host_test.engine(6)
  engine.update_weights(host_test.params(), 0)
  seen = []
  with workers:
    ended, counts = host.run_episodes(
      stage,
      Acting(engine, act, 12),
      workers,
      ATTEMPTS,
      jax.random.key(7),
      ended=lambda attempt, _: seen.append(attempt),
    )
    lost = workers.taken().get('resubmitted', 0)
  assert sorted(seen) == list(range(16))
  assert not [name for name in counts if name.startswith('fault')]
  return hosted.record(stage, ended), lost


def check_same(record, expected):
  """All but the last bits of log-probabilities, which slots may change."""
  assert not np.any(record.status == Status.ENV_ERROR)
  for name, x in vars(expected).items():
    for one, two in zip(
      jax.tree.leaves(getattr(record, name)), jax.tree.leaves(x), strict=True
    ):
      if name in ('logp', 'entropy'):
        np.testing.assert_allclose(one, two, atol=1e-5)
      else:
        np.testing.assert_array_equal(one, two, err_msg=name)


def processes():
  """Three fresh interpreters, as a pool of them."""
  context = multiprocessing.get_context('spawn')
  return executors.FuturesExecutor(
    lambda: concurrent.futures.ProcessPoolExecutor(3, mp_context=context)
  )


def open_place(place, family):
  if place == 'futures':
    return cluster_workers(family, 3, processes())
  return rooms.open_workers(family, 6, place)


def hold(family, wanted=lambda process: True) -> int:
  """Stops a process of `wanted` in the middle of an episode; 0: none plays.

  Stopped, it cannot end the episode before it is killed.
  """
  for process in reversed(family.playing(TURNS)):
    if wanted(process):
      os.kill(process, signal.SIGSTOP)
      if process in family.playing(TURNS):
        return process
      os.kill(process, signal.SIGCONT)
  return 0


@pytest.fixture
def family(tmp_path):
  return traced.Traced(folder=str(tmp_path))


@pytest.fixture(scope='module')
def expected(tmp_path_factory):
  own = traced.Traced(folder=str(tmp_path_factory.mktemp('threads')))
  return play(env_workers(own, 6, worker='thread'), own)[0]


@pytest.mark.parametrize('place', rooms.CLUSTERS)
def test_the_tokens_of_threads(place, family, expected):
  record, lost = play(open_place(place, family), family)
  check_same(record, expected)
  assert lost == 0
  assert len(family.processes()) == 16
  assert os.getpid() not in family.processes()


@pytest.mark.parametrize('place', rooms.CLUSTERS)
def test_a_killed_worker_costs_nothing(place, family, expected):
  """One in the middle of an episode, with all others that it plays."""

  def kill():
    if process := hold(family):
      os.kill(process, signal.SIGKILL)
    return bool(process)

  record, lost = play(open_place(place, family), family, kill)
  check_same(record, expected)
  assert lost > 0
  assert 16 < len(family.processes()) <= 16 + lost


@contextlib.contextmanager
def ray_cluster(count):
  """-> its first node's cluster, and the other nodes."""
  import ray
  from ray.cluster_utils import Cluster

  rooms.own_ray_token()
  ray.shutdown()  # what other tests share
  rooms.start_ray.cache_clear()
  cluster = Cluster(
    initialize_head=True, head_node_args={'num_cpus': 1}, connect=False
  )
  try:
    yield cluster, [cluster.add_node(num_cpus=1) for _ in range(count - 1)]
  finally:
    ray.shutdown()
    cluster.shutdown()


def parent(process: int) -> int:
  """By /proc; 0 where the process has gone."""
  try:
    stat = pathlib.Path(f'/proc/{process}/stat').read_text()
  except OSError:
    return 0
  return int(stat.rpartition(')')[2].split()[1])


@pytest.mark.skipif(not rooms.has('ray'), reason='needs Ray')
@pytest.mark.slow
def test_a_removed_node_costs_nothing(family, expected):
  with ray_cluster(3) as (cluster, others):
    raylets = {x.all_processes['raylet'][0].process.pid: x for x in others}

    def remove():
      """The node of an episode: which one has any is for Ray to say."""
      process = hold(family, lambda process: parent(process) in raylets)
      if process:
        cluster.remove_node(raylets[parent(process)], allow_graceful=False)
        os.kill(process, signal.SIGKILL)  # stopped, it cannot see that itself
      return bool(process)

    workers = env_workers(
      family,
      6,
      worker='ray',
      cluster=cluster.address,
    )
    record, lost = play(workers, family, remove)
  check_same(record, expected)
  assert lost > 0


@pytest.mark.slow
@pytest.mark.parametrize(
  ('worker', 'address'),
  [
    pytest.param('dask', 'tcp://127.0.0.1:1', marks=rooms.DASK),
    pytest.param('dask', 'nowhere', marks=rooms.DASK),
    pytest.param('ray', '127.0.0.1:1', marks=rooms.RAY[0]),
    pytest.param('ray', 'nowhere', marks=rooms.RAY[0]),
  ],
)
def test_no_cluster_answers(worker, address, monkeypatch):
  monkeypatch.setattr(executors, '_CONNECT', 0.2)
  with errors.raises(ValueError, f'host.cluster {address}'):
    env_workers(traced.Traced(), 1, worker=worker, cluster=address)


@rooms.DASK
def test_more_episodes_than_threads_are_told(caplog):
  for count, told in ((8, False), (9, True)):
    caplog.clear()
    rooms.open_workers(traced.Traced(), count, 'dask').close()
    assert ('host.num_envs=9' in caplog.text) == told


@pytest.mark.parametrize(
  ('name', 'package'), [('dask', 'distributed'), ('ray', 'ray')]
)
def test_a_package_that_is_not_installed(name, package, monkeypatch):
  found = importlib.util.find_spec
  monkeypatch.setattr(
    importlib.util, 'find_spec', lambda x: None if x == package else found(x)
  )
  with errors.raises(ValueError, f'host.worker {name} {package} pip'):
    env_workers(traced.Traced(), 1, worker=name)
  config = validate.config(small_configs.countdown(host__worker=name))
  with errors.raises(ValueError, f'host.worker {name} {package} pip'):
    host_env.sized(config, tokenizer.Embedded(), None)


def test_every_cluster_has_an_executor():
  assert tuple(executors.CLUSTERS) == base.CLUSTERS


def test_the_address_that_a_host_is_reached_from():
  assert executors.local_address('127.0.0.1') == '127.0.0.1'
  assert executors.local_address('no.such.host.invalid') == '127.0.0.1'


def test_no_deadline_runs_in_the_queue():
  """One place for two: the second is reset later than a reset may take."""
  family = naughty.Family(worker='thread')
  limits = dataclasses.replace(host_test.LIMITS, turns=1, message=16, start=1.0)
  stage = host_test.stage(family, [{}, {}], limits)
  acts = hosted.scripted(host_test.WORDS, [['hang 2.5'], ['say x']])
  with cluster_workers(family, 2, rooms.threads(1)) as workers:
    ended, counts = host.run_episodes(
      stage,
      acts,
      workers,
      make_attempts(np.arange(2), 1, 1, 1.0),
      jax.random.key(0),
    )
  assert counts == {'cut': 0}
  assert [x.status for x in ended] == [Status.TURN_LIMIT] * 2
