"""Programs that misbehave in a rollout's tool cost their call, no more."""

import contextlib
import ctypes
import functools
import os
import pathlib

import numpy as np
import pytest

from agentrl.env.worlds.math_python import MathPython
from agentrl.rollout import host
from agentrl.rollout.limits import EpisodeLimits
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, tokenizer
from agentrl.types import Status
from tests.rollout import hosted

_CHILD_SUBREAPER = 36  # of prctl
WORDS = tokenizer.Embedded()
# What a program does: its code, and the kinds of fault that tell of it.
NAUGHTY = {
  'forks': ('import os\nwhile True: os.fork()', {'processes'}),
  'eats': ('x = []\nwhile True: x.append(bytes(1 << 26))', {'memory'}),
  'writes': ("open('{place}', 'w').write('here')", {'files'}),
  'calls': (
    "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    {'network'},
  ),
  'prints': ("while True: print('x' * 1000)", {'output', 'time'}),
  'sleeps': ('import time\ntime.sleep(600)', {'time'}),
}
LIMITS = EpisodeLimits(
  turns=3, message=128, observation=600, opening=0, context=2200, seconds=120.0
)


def played(codes):
  """A program each, then an answer."""
  family, n = MathPython(seconds=4.0), len(codes)
  said = [
    [f'<python>{code}</python>', f'<answer>{i}</answer>']
    for i, code in enumerate(codes)
  ]
  tasks = [{'question': f'{i}?', 'answer': str(i)} for i in range(n)]
  stage = host.HostEnvBundle(family, tasks, chat_format.bare(WORDS), LIMITS)
  attempts = make_attempts(np.arange(n), 1, 3, 1.0)
  generator = hosted.scripted(WORDS, said)
  ended, counts = hosted.play(stage, generator, attempts, count=6)
  assert not [x for x in counts if x.startswith('fault')]  # of the world
  return hosted.record(stage, ended)


@pytest.fixture
def below():
  """Tells who runs below this process: an orphan becomes its child here.

  Others on this machine, of a test beside this one, are not asked about.
  """
  adopt = functools.partial(ctypes.CDLL(None).prctl, _CHILD_SUBREAPER)
  assert adopt(1, 0, 0, 0) == 0
  yield running
  adopt(0, 0, 0, 0)


def running() -> dict[int, str]:
  """Process -> command; a zombie does not run."""
  parents, ours = {}, {os.getpid()}
  for place in pathlib.Path('/proc').glob('[0-9]*/stat'):
    with contextlib.suppress(OSError):
      state, parent, *_ = place.read_text().rpartition(')')[2].split()
      if state != 'Z':
        parents[int(place.parent.name)] = int(parent)
  while more := {pid for pid, of in parents.items() if of in ours} - ours:
    ours |= more
  return {pid: command(pid) for pid in ours - {os.getpid()}}


def command(pid: int) -> str:
  with contextlib.suppress(OSError):
    return pathlib.Path(f'/proc/{pid}/cmdline').read_text().replace('\0', ' ')
  return 'ended'


@pytest.mark.slow
def test_programs_that_misbehave(tmp_path, below):
  """Two hundred trajectories, a fifth of them with such a program."""
  n, rng = 200, np.random.default_rng(0)
  place, before = tmp_path / 'outside', set(below())
  good = [f'print({i} ** 3 % 1000)' for i in range(n)]
  bad, kinds = list(good), {}
  for i, b in enumerate(rng.permutation(n)[: n // 5].tolist()):
    code, kinds[b] = list(NAUGHTY.values())[i % len(NAUGHTY)]
    bad[b] = code.replace('{place}', str(place))
  want, got = played(good), played(bad)
  assert (got.status == Status.SOLVED).all()
  for b in range(n):
    told = {
      name.removeprefix('fault_')
      for name, x in got.columns.items()
      if name.startswith('fault_') and x[b, 0]
    }
    if b in kinds:
      assert len(told) == 1, bad[b]
      assert told <= kinds[b], (told, bad[b])
    else:
      assert not told
      np.testing.assert_array_equal(got.context[b], want.context[b])
      np.testing.assert_array_equal(got.message[b], want.message[b])
  assert got.columns['faults'].sum() == len(kinds) == n // 5
  assert not place.exists()
  assert not {x: y for x, y in below().items() if x not in before}
