"""Runs of host environments: interrupted, killed, gone on with."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).parents[2]
COMMAND = [
  sys.executable,
  '-m',
  'experiments.train',
  '--config=configs/grpo.py:tiny,env=sql_questions',
  '--config.sft.steps=2',
  '--config.steps=6',
  '--config.sft.batch=4',
  '--config.micro_batch=4',
  '--config.rollout.batch=8',
  '--config.rollout.slots=8',
  '--config.eval.episodes=8',
  '--config.checkpoint.every=2',
  '--config.env.train=20',
  '--config.env.test=8',
]


def start(tmp_path) -> subprocess.Popen:
  environ = os.environ | {
    'XLA_FLAGS': '',
    'JAX_COMPILATION_CACHE_DIR': str(tmp_path / 'cache'),
    'JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS': '0',
  }
  places = [f'--workdir={tmp_path / "run"}', f'--config.data={tmp_path / "d"}']
  return subprocess.Popen(
    [*COMMAND, *places],
    cwd=ROOT,
    env=environ,
    text=True,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
  )


def steps(tmp_path) -> list[int]:
  path = tmp_path / 'run' / 'metrics.jsonl'
  if not path.exists():
    return []
  rows = [json.loads(x) for x in path.read_text().splitlines()]
  return [row['step'] for row in rows if row.get('phase') in ('sft', 'rl')]


def worlds(trainer: int) -> list[int]:
  """Processes in which worlds of this trainer live."""
  found = []
  for place in pathlib.Path('/proc').glob('[0-9]*'):
    try:
      words = (place / 'cmdline').read_bytes().split(b'\0')
    except OSError:
      continue
    ours = str(trainer).encode() in words
    if ours and any(w.endswith(b'process_main.py') for w in words):
      found.append(int(place.name))
  return found


def until(true, process=None, seconds=600):
  end = time.monotonic() + seconds
  while not true():
    assert time.monotonic() < end
    assert process is None or process.poll() is None, process.communicate()
    time.sleep(0.05)


@pytest.mark.nightly
def test_interrupted_and_killed(tmp_path):
  run = start(tmp_path)
  until(lambda: worlds(run.pid) and steps(tmp_path)[-1:] >= [3], run)
  run.send_signal(signal.SIGINT)
  said = run.communicate(timeout=600)[0]
  assert run.returncode == 130, said
  assert 'the state is saved; the same command goes on' in said
  until(lambda: not worlds(run.pid), seconds=10)
  before = steps(tmp_path)
  assert before == list(range(1, before[-1] + 1))

  run = start(tmp_path)
  until(lambda: len(steps(tmp_path)) > len(before) + 1, run)
  os.kill(run.pid, signal.SIGKILL)
  run.communicate()
  until(lambda: not worlds(run.pid), seconds=10)

  run = start(tmp_path)
  said = run.communicate(timeout=900)[0]
  assert run.returncode == 0, said
  assert 'Resuming' in said
  assert steps(tmp_path) == list(range(1, 9))
  until(lambda: not worlds(run.pid), seconds=10)
