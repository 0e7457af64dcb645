"""Compilers of devices that are not at hand, as judges of programs.

The scheduled program and its buffers are written before code is generated. For
TPUs that takes ten times as long, and the process that compiles is killed then;
for NVIDIA cards code is awaited, as CUDA graphs are made of it. What comes of
it was compiled and never run.
"""

import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from agentrl.lab.capacity.compiled import counts, graphs, hlo, targets
from agentrl.lab.capacity.compiled.counts import Counts, Loop
from agentrl.lab.capacity.compiled.graphs import Graphs
from agentrl.lab.capacity.compiled.targets import Target
from agentrl.lab.capacity.estimate import Workload
from agentrl.nn.config import DecoderConfig
from agentrl.run.check import fields

# Read when JAX is imported: no device is looked for, and several processes may
# load TPU's compiler.
ENVIRON = {
  'JAX_PLATFORMS': 'cpu',
  'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
  'TPU_SKIP_MDS_QUERY': '1',
}
CHILD = 'agentrl.lab.capacity.compiled.child'
_REPORT = '*after_optimizations-memory-usage-report.txt'
_THUNKS = '.thunk_sequence_after_thunk_passes.txt'
_POLL = 0.5  # seconds


class CompileJob(NamedTuple):
  """A program to compile."""

  config: dict  # of the experiment
  shape: DecoderConfig
  target: Target
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
  counts: Counts = Counts()
  loops: tuple[Loop, ...] = ()
  layers: tuple[int, ...] = ()  # kernels of a layer in each loop; 0: none
  graphs: tuple[Graphs, ...] = ()  # graphs.of; of TPUs none

  @property
  def temporaries(self) -> float:
    return self.hbm - self.arguments


def compiled(job: CompileJob, seconds: float = 1800) -> CompiledProgram:
  """Compiles the job's program in another process.

  Raises: ValueError without the target's compiler; RuntimeError, in its words,
    where it fails for another reason than memory or does not end in `seconds`.
  """
  targets.check_available(job.target.platform)
  with tempfile.TemporaryDirectory() as folder:
    path, log, dump = (
      pathlib.Path(folder, name) for name in ('job.pickle', 'log.txt', 'dump')
    )
    path.write_bytes(pickle.dumps(job))
    dump.mkdir()
    whole = job.target.platform == 'cuda'
    code = _run(path, log, dump, seconds, whole)
    words = log.read_text(errors='replace')
    if report := _report(dump, whole):
      return _read(report, _trips(job), job)
  refusal = re.search(
    r'RESOURCE_EXHAUSTED.*HLO temporaries \(([\d.]+)([GM])\).*', words
  )
  if refusal:
    size = float(refusal[1]) * (2.0**30 if refusal[2] == 'G' else 2.0**20)
    return CompiledProgram(size, 0.0, (), (), refusal[0].strip())
  tail = '\n'.join(words.strip().splitlines()[-5:])
  raise RuntimeError(f'compiling {job.program} ended with {code}: {tail}')


def _trips(job: CompileJob) -> int:
  """Counts the runs of a loop whose end depends on data."""
  if job.program == 'update':
    # Micro-batches are as many as hold a row; all of them do here.
    return -(-job.work.rows // job.work.micro)
  if job.program == 'decode':
    return fields.read(job.config).host.decode_steps_per_sync
  return 1


def _run(
  job: pathlib.Path,
  log: pathlib.Path,
  dump: pathlib.Path,
  seconds: float,
  whole: bool,
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
        report = _report(dump, whole)
        now = sum(x.stat().st_size for x in dump.iterdir()) if report else -1
        if report and now == size:  # all of it is written
          break
        size = now
        time.sleep(_POLL)
      return code
    finally:
      child.kill()
      child.wait()


def _report(dump: pathlib.Path, whole: bool) -> pathlib.Path | None:
  """Returns the report of the largest module, if that is there.

  Args:
    whole: it is there when code has been generated as well
  """
  reports = [
    x
    for x in dump.glob(_REPORT)
    if _written(x)
    and _text(x, '.txt').exists()
    and (not whole or _written(_thunks(x)))
  ]
  size = lambda x: _text(x, '.txt').stat().st_size  # noqa: E731
  return max(reports, key=size, default=None)


def _written(path: pathlib.Path) -> bool:
  """Returns whether the file is there and not empty."""
  return path.exists() and path.stat().st_size > 0


def _text(report: pathlib.Path, end: str) -> pathlib.Path:
  stem = report.name.removesuffix('-memory-usage-report.txt')
  return report.with_name(stem + end)


def _thunks(report: pathlib.Path) -> pathlib.Path:
  """Returns the thunks of the report's module, which code generation writes."""
  module = '.'.join(report.name.split('.')[:2])  # module_0001.jit_update
  return report.with_name(module + _THUNKS)


def _read(
  report: pathlib.Path, unknown: int, job: CompileJob
) -> CompiledProgram:
  """Reads the dump beside the report; `unknown` as for hlo.collectives."""
  total = re.search(r'Total bytes: (\d+)', report.read_text())
  module = hlo.parse(_text(report, '.txt').read_text())
  buffers = _text(report, '-buffer-assignment.txt').read_text()
  arguments = re.findall(
    r'^ *allocation \d+: size (\d+), parameter', buffers, re.MULTILINE
  )
  every, loops = counts.program(module, unknown)
  thunks = _thunks(report)
  return CompiledProgram(
    hbm=float(total[1]) if total else 0.0,
    arguments=float(sum(map(int, arguments))),
    collectives=tuple(hlo.collectives(module, unknown)),
    largest=tuple(hlo.largest(module)[:20]),
    refused='',
    counts=every,
    loops=tuple(loops),
    layers=tuple(counts.of_layer(module, x, job.shape.layers) for x in loops),
    graphs=tuple(graphs.of(thunks.read_text() if thunks.exists() else '')),
  )
