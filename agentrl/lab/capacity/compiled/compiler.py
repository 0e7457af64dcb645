"""TPU's own compiler as a judge of memory and traffic, without a TPU at hand.

The scheduled program and its buffers are written before code is generated,
which takes ten times as long: the process that compiles is killed then. What
comes of it was compiled and never run.
"""

import importlib.util
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from agentrl.lab.capacity.estimate import Workload
from agentrl.lab.capacity.compiled import hlo
from agentrl.nn.config import DecoderConfig
from agentrl.runtime import install

# Read when JAX is imported: no TPU is looked for, and several processes may
# load its compiler.
ENVIRON = {
  'JAX_PLATFORMS': 'cpu',
  'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
  'TPU_SKIP_MDS_QUERY': '1',
}
CHILD = 'agentrl.lab.capacity.compiled.child'
_REPORT = '*after_optimizations-memory-usage-report.txt'
_POLL = 0.5  # seconds


class CompileJob(NamedTuple):
  """A program to compile."""

  config: dict  # of the experiment
  shape: DecoderConfig
  torus: str  # targets.torus
  program: str  # among programs.PROGRAMS
  work: Workload
  model: str | None = None  # directory of a checkpoint; None: that of config


class CompiledProgram(NamedTuple):
  """A compiled program, of one device."""

  hbm: float  # bytes, arguments and temporaries at the fullest moment
  arguments: float  # bytes
  collectives: tuple[hlo.Collective, ...]
  largest: tuple[tuple[float, str], ...]  # arrays, (bytes, shape)
  refused: str  # the compiler's own words; '': it compiles

  @property
  def temporaries(self) -> float:
    return self.hbm - self.arguments


def check_available() -> None:
  """Raises ValueError if TPU's compiler is not installed."""
  if importlib.util.find_spec('libtpu') is None:
    raise ValueError(
      f"TPU's compiler is not installed; run {install.command('tpu-compile')}"
    )


def compiled(job: CompileJob, seconds: float = 1800) -> CompiledProgram:
  """Compiles the job's program in another process, up to its schedule.

  Raises: ValueError without TPU's compiler; RuntimeError, in its words, where
    it fails for another reason than memory or does not end in `seconds`.
  """
  check_available()
  with tempfile.TemporaryDirectory() as folder:
    path, log, dump = (
      pathlib.Path(folder, name) for name in ('job.pickle', 'log.txt', 'dump')
    )
    path.write_bytes(pickle.dumps(job))
    dump.mkdir()
    code = _run(path, log, dump, seconds)
    words = log.read_text(errors='replace')
    if report := _report(dump):
      # Micro-batches are as many as hold a row; all of them do here.
      return _read(report, -(-job.work.rows // job.work.micro))
  refusal = re.search(
    r'RESOURCE_EXHAUSTED.*HLO temporaries \(([\d.]+)([GM])\).*', words
  )
  if refusal:
    size = float(refusal[1]) * (2.0**30 if refusal[2] == 'G' else 2.0**20)
    return CompiledProgram(size, 0.0, (), (), refusal[0].strip())
  tail = '\n'.join(words.strip().splitlines()[-5:])
  raise RuntimeError(f'compiling {job.program} ended with {code}: {tail}')


def _run(
  job: pathlib.Path, log: pathlib.Path, dump: pathlib.Path, seconds: float
) -> int | None:
  """Runs the child until its dump is there or it ends; None: killed."""
  command = [sys.executable, '-m', CHILD, str(job), str(dump)]
  with log.open('wb') as out:
    child = subprocess.Popen(
      command, stdout=out, stderr=out, env=os.environ | ENVIRON
    )
    try:
      end, size = time.monotonic() + seconds, -1
      while (code := child.poll()) is None and time.monotonic() < end:
        report = _report(dump)
        now = sum(x.stat().st_size for x in dump.iterdir()) if report else -1
        if report and now == size:  # all of it is written
          break
        size = now
        time.sleep(_POLL)
      return code
    finally:
      child.kill()
      child.wait()


def _report(dump: pathlib.Path) -> pathlib.Path | None:
  """The report of the largest module, if that is there."""
  reports = [
    x
    for x in dump.glob(_REPORT)
    if x.stat().st_size and _text(x, '.txt').exists()
  ]
  size = lambda x: _text(x, '.txt').stat().st_size  # noqa: E731
  return max(reports, key=size, default=None)


def _text(report: pathlib.Path, end: str) -> pathlib.Path:
  stem = report.name.removesuffix('-memory-usage-report.txt')
  return report.with_name(stem + end)


def _read(report: pathlib.Path, unknown: int) -> CompiledProgram:
  """What the dump beside the report says; `unknown` as hlo.collectives."""
  total = re.search(r'Total bytes: (\d+)', report.read_text())
  module = hlo.parse(_text(report, '.txt').read_text())
  buffers = _text(report, '-buffer-assignment.txt').read_text()
  arguments = re.findall(
    r'^ *allocation \d+: size (\d+), parameter', buffers, re.MULTILINE
  )
  return CompiledProgram(
    float(total[1]) if total else 0.0,
    float(sum(map(int, arguments))),
    tuple(hlo.collectives(module, unknown)),
    tuple(hlo.largest(module)[:20]),
    '',
  )
