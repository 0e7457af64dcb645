"""A run shared by processes is the run of one, and says it once."""

import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys

import pytest

from tests.integration.same import SLOTS, assert_rows, rows

ROOT = pathlib.Path(__file__).parents[2]
DEVICES = 8
# Collectives on a CPU announce themselves where a program prints, in several
# threads at once, a piece at a time: their lines may be torn.
GLOO = re.compile(
  r'\[Gloo\] Rank |is connected to |peer ranks\. '
  r'|Expected number of connected peer ranks is : |\d|\s'
)


def free_port() -> int:
  with socket.socket() as s:
    s.bind(('127.0.0.1', 0))
    return s.getsockname()[1]


def start(words, count: int) -> list[subprocess.Popen]:
  """`count` processes of a program, which share 8 simulated devices."""
  flags = f'--xla_force_host_platform_device_count={DEVICES // count}'
  environ = os.environ | {
    'PYTHONPATH': str(ROOT),
    'JAX_PLATFORMS': 'cpu',
    'XLA_FLAGS': flags,
  }
  place = {'JAX_NUM_PROCESSES': str(count)} if count > 1 else {}
  if place:
    place['JAX_COORDINATOR_ADDRESS'] = f'127.0.0.1:{free_port()}'
  return [
    subprocess.Popen(
      [sys.executable, *words],
      cwd=ROOT,
      text=True,
      env=environ | place | ({'JAX_PROCESS_ID': str(i)} if place else {}),
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
    )
    for i in range(count)
  ]


def train(workdir, data, count: int, flags) -> list[str]:
  """What a run of `count` processes prints."""
  started = start(
    [
      '-m',
      'experiments.train',
      *flags,
      f'--workdir={workdir}',
      f'--config.data={data}',
      '--config.mesh.fsdp=2',
      '--config.mesh.data=-1',
      '--config.steps=2',
      '--config.eval.episodes=16',
      '--config.checkpoint.every=1',
    ],
    count,
  )
  told = [p.communicate(timeout=1200) for p in started]
  for p, (_, error) in zip(started, told, strict=True):
    assert p.returncode == 0, error
  return [out for out, _ in told]


def said(program: str, tmp_path) -> list[list[str]]:
  """The lines that each of two processes of a program says."""
  started = start(['-c', JOINED + program, str(tmp_path)], 2)
  for p in started:
    printed = p.communicate(timeout=120)
    assert p.returncode == 0, printed
  return [(tmp_path / str(i)).read_text().splitlines() for i in range(2)]


JOINED = """
import functools, sys
from agentrl.runtime import distributed
distributed.join(distributed.process_info(None, None, None))
import jax
me = jax.process_index()
say = functools.partial(print, file=open(f'{sys.argv[1]}/{me}', 'w'))
"""
EACH = """
from agentrl.runtime.preemption import Stopped
say(distributed.allgather_objects(lambda: 'x' * (me + 1)))
say([list(distributed.share(5)), list(distributed.share(1))])
def raises(error):
  try:
    distributed.allgather_objects(lambda: error(f'of {me}') if me else None)
  except (Stopped, ValueError, RuntimeError) as found:
    say(type(found).__name__, found)
def stop(text): raise Stopped(text)
def fail(text): raise ValueError(text)
raises(stop)
raises(fail)
say(distributed.allgather_objects(lambda: me))
"""


def test_each_process_hears_of_all(tmp_path):
  zero, one = said(EACH, tmp_path)
  assert zero == [
    "['x', 'xx']",
    '[[0, 1], []]',
    'Stopped a notice to another process',
    'RuntimeError process 1 failed: of 1',
    '[0, 1]',
  ]
  assert one == [
    "['x', 'xx']",
    '[[2, 3, 4], [0]]',
    'Stopped of 1',
    'ValueError of 1',
    '[0, 1]',
  ]


BROUGHT = """
import numpy as np
from agentrl.run import placement
from jax.sharding import NamedSharding, PartitionSpec as P
from agentrl import mesh
table = np.arange(64.0).reshape(8, 8)
for sizes in ({'data': 2, 'fsdp': 2, 'tensor': 2}, {'tensor': 8}):
  with jax.set_mesh(mesh.make(sizes)):
    laid = NamedSharding(jax.sharding.get_mesh(), P('fsdp', 'tensor'))
    x = placement.to_local_mesh([jax.device_put(table, laid)])[0]
    with placement.local_mesh():
      total = float(jax.jit(lambda x: (x * x).sum())(x))
  np.testing.assert_array_equal(x, table)  # all of it is here
  say(total == (table**2).sum(), x.addressable_shards[0].data.shape)
"""


@pytest.mark.slow
def test_what_is_brought_is_whole_where_others_have_a_part(tmp_path):
  assert said(BROUGHT, tmp_path) == 2 * [['True (4, 4)', 'True (8, 8)']]


# Each learns something: some succeed inside jit after 20 steps of warm start,
# and an entropy bonus moves what solves nothing yet on the host.
INSIDE = [
  '--config=configs/grpo.py:tiny,env=frozen_lake',
  '--config.sft.steps=20',
]
# A policy that talks with a copy of itself, in worlds on the host.
WORLDS = [
  '--config=configs/epo.py:tiny,env=interview',
  '--config.sft.steps=2',
  '--config.coef.entropy=1.0',
  '--config.service.user.function=',
  '--config.service.user.role=policy',
  '--config.service.user.context=900',
  '--config.service.user.message=8',
  '--config.service.user.temperature=0.0',
  '--config.rollout.batch=16',
  '--config.rollout.slots=16',
  '--config.micro_batch=8',
  '--config.sft.batch=8',
  '--config.rollout.group_size=4',
  '--config.env.train=40',
  '--config.env.test=16',
  '--config.rollout.max_turns=5',
]


@pytest.mark.nightly
@pytest.mark.parametrize('flags', [INSIDE, WORLDS], ids=['inside', 'worlds'])
def test_two_processes_are_one(tmp_path, flags):
  """Also where one of them goes on with what the other has saved."""
  one, two, data = (tmp_path / x for x in ('one', 'two', 'data'))
  train(one, data, 1, flags)
  printed = train(two, data, 2, flags)
  assert 'success' in printed[0]
  assert not GLOO.sub('', printed[1]), printed[1]  # process 0 speaks for all
  want = rows(one, SLOTS)
  learned = [r['policy/grad_norm'] for r in want if r['phase'] != 'eval']
  assert all(learned), learned  # else all of them are equal, and tell nothing
  assert not any('fault' in name for r in want for name in r)
  assert_rows(rows(two, SLOTS), want, rtol=1e-5, atol=1e-5)
  for workdir, count in ((one, 2), (two, 1)):
    last = max(int(p.name) for p in (workdir / 'checkpoints').glob('[0-9]*'))
    shutil.rmtree(workdir / 'checkpoints' / str(last))
    train(workdir, data, count, flags)
    assert_rows(rows(workdir, SLOTS), want, rtol=1e-5, atol=1e-5)


@pytest.mark.nightly
def test_a_sampler_collects_for_both_processes(tmp_path):
  """On as many devices as the learner has: the numbers of a run without."""
  one, two, data = (tmp_path / x for x in ('one', 'two', 'data'))
  old = ['--config.staleness.bound=1', '--config.staleness.anchor=behaviour']
  train(one, data, 1, [*INSIDE, *old])
  jobs = ['--config.staleness.jobs', f'--config.staleness.devices={DEVICES}']
  sampler = ['-m', 'experiments.sampler', f'--workdir={two}']
  [home] = start(sampler, 1)
  try:
    train(two, data, 2, [*INSIDE, *old, *jobs])
    told = home.communicate(timeout=60)
  finally:
    home.kill()
  assert home.returncode == 0, told
  want, got = (rows(x, (*SLOTS, 'samplers/')) for x in (one, two))
  assert_rows(got, want, rtol=1e-5, atol=1e-5)
