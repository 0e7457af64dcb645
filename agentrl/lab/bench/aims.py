"""Aims of one card: our figures beside torch's, each in a process of its own.

Ours and theirs take turns, round by round, so that the memory of one is free
for the other and a noisy spell hits both. The first round compiles for itself;
JAX keeps what it compiled.

  step        an optimizer step on full rows, by `remat` and rows at a time
  step_large  the same of a larger decoder
  decode      messages after prompts of their own, in bfloat16
  decode_7B   the same at 7B, beside the bytes that a token reads
  iteration   sampling for groups, a reward and an update of GRPO
"""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
from absl import logging

from agentrl.lab.bench import peers, roofline, sampling, timing, training
from agentrl.lab.bench.compiled_programs import SHAPES
from agentrl.lab.bench.sampling import SamplingBenchSize

MAIN = 'agentrl.experiments.bench_aims'
# What is kept of layers, and rows at a time: the fastest is our figure.
STEPS = (('dots', 2), ('attention', 2), ('layer', 1))
ATTENTIONS = 'xla', 'pallas'  # of a token over a card's cache
BLOCK = 4096  # tokens whose logits torch holds at once, as it has no blocks


class AimSizes(NamedTuple):
  """Sizes of the parts: of one that is trained, a larger one, one decoded."""

  own: SamplingBenchSize
  large: SamplingBenchSize
  decoded: SamplingBenchSize


SIZES = {
  'card': AimSizes(
    own=sampling.SIZES['0.5B'],
    large=sampling.SIZES['1.5B'],
    decoded=sampling.SIZES['0.5B']._replace(shape=SHAPES['7B']),
  ),
  'tiny': AimSizes(*(sampling.TINY,) * 3),
}
PARTS = ('step', 'decode', 'iteration', 'step_large', 'decode_7B')
# Part -> the figure of torch_peer.py beside it.
PEERS = {'step': 'gradient', 'decode': 'decode', 'iteration': 'iteration'}


class Aim(NamedTuple):
  """A figure that is to be at least, or at most, so large."""

  what: str
  part: str  # whose figure it is
  figure: str
  bound: float
  least: bool  # or at most
  unit: str

  def reached(self, value: float) -> bool:
    return value >= self.bound if self.least else value <= self.bound


# fmt: off
AIMS = (
  Aim('step', 'step', 'times_torch', 1.15, True, 'times torch.compile'),
  Aim('larger step', 'step_large', 'utilisation', 0.5, True, 'of products'),
  Aim('decode', 'decode', 'ms_a_token', 1.3, False, 'ms a token of all slots'),
  Aim('decode 7B', 'decode_7B', 'of_bound', 0.75, True, 'of copies'),
  Aim('iteration', 'iteration', 'seconds', 0.45, False, 's'),
)
# fmt: on


def ours(part: str, sizes: AimSizes, repeats: int) -> dict[str, float]:
  """Measures a part in this process: seconds and what they are held against.

  Raises:
    ValueError: the part is not one of PARTS.
  """
  if part not in PARTS:
    raise ValueError(f'--part must be one of {PARTS}, got {part!r}')
  if part in ('step', 'step_large'):
    size = sizes.own if part == 'step' else sizes.large
    return _steps(size, repeats)
  if part == 'iteration':
    case = training.iteration(sizes.own, '')['iteration']
    return {'seconds': _seconds(case.call, repeats)}
  return _decoded(sizes.own if part == 'decode' else sizes.decoded, repeats)


def _decoded(size: SamplingBenchSize, repeats: int) -> dict[str, float]:
  """Returns the fastest of the attentions of a cache, and a token of each."""
  on_card = jax.default_backend() == 'gpu'
  found: dict[str, dict[str, float]] = {}
  for name in ATTENTIONS if on_card else ('xla',):
    shape = dataclasses.replace(size.shape, decode_attention=name)
    try:
      found[name] = _messages(size._replace(shape=shape), repeats)
    except jax.errors.JaxRuntimeError as error:
      logging.warning('decode_attention=%s: %s', name, error)
  if not found:
    raise ValueError(f'none of {ATTENTIONS} decodes here')
  best = min(found.values(), key=lambda x: x['seconds'])
  return best | {f'{x}_ms': y['ms_a_token'] for x, y in found.items()}


def _messages(size: SamplingBenchSize, repeats: int) -> dict[str, float]:
  """Times messages, and a token beside what it reads at least."""
  lengths = {'whole': size.new, 'first': 1}
  calls = {x: sampling.message(size, n) for x, n in lengths.items()}
  took = timing.interleaved(calls, repeats)
  whole, first = (timing.spread(took[x]).median for x in lengths)
  rates = roofline.rates(repeats, size.shape.dtype)
  bound = roofline.bound(sampling.message_work(size)[1:], rates)
  return {
    'seconds': whole,
    'ms_a_token': 1e3 * (whole - first) / (size.new - 1),
    'of_bound': bound / (whole - first),
  }


def _steps(size: SamplingBenchSize, repeats: int) -> dict[str, float]:
  """Returns the fastest of those STEPS that fit, one after another."""
  seconds, operations = {}, 0.0
  for remat, micro in STEPS:
    shape = dataclasses.replace(size.shape, remat=remat)
    case = training.step(size._replace(shape=shape, micro=micro))
    operations = sum(x.operations for x in case.parts)
    try:
      seconds[f'{remat}_{micro}'] = _seconds(case.call, repeats)
    except jax.errors.JaxRuntimeError as error:
      if 'RESOURCE_EXHAUSTED' not in str(error):
        raise
      logging.warning('remat=%s, %d rows at a time: no memory', remat, micro)
    del case  # and its memory
  if not seconds:
    raise ValueError(f'none of the steps {STEPS} fits into memory')
  best = min(seconds.values())
  large = roofline.rates(repeats, size.shape.dtype).large
  used = operations / (best * large)
  return {'seconds': best, 'utilisation': used} | seconds


def _seconds(call: Callable, repeats: int) -> float:
  (seconds,) = timing.interleaved({'': call}, repeats).values()
  return timing.spread(seconds).median


def measure(
  name: str,
  parts: Sequence[str],
  rounds: int,
  repeats: int,
  seconds: float,
  torch: str = '',
  device: str = 'cuda',
  tell: Callable[[str], None] = print,
) -> dict[str, dict[str, list[float]]]:
  """Runs ours and torch's in turn: {part: {figure: one of each round}}.

  Args:
    name: among SIZES
    seconds: of all; what does not fit is left out
    torch: a Python that has torch and transformers; '': ours alone
    device: of torch
  """
  end, out = time.monotonic() + seconds, dict[str, dict[str, list[float]]]()
  for _ in range(rounds):
    for part in parts:
      found = _child(part, name, repeats, end - time.monotonic())
      if torch and part in PEERS and found:
        command = _torch(part, SIZES[name].own, repeats, torch, device)
        theirs = _json(command, end - time.monotonic())
        if value := theirs.get(PEERS[part]):
          own = SIZES[name].own
          rate = own.batch * own.new if part == 'decode' else 1
          found['torch'] = rate / value if part == 'decode' else value
          found['times_torch'] = found['torch'] / found['seconds']
      text = ', '.join(f'{k} {x:.4g}' for k, x in found.items())
      tell(f'{part}: {text or "not measured"}')
      for figure, x in found.items():
        out.setdefault(part, {}).setdefault(figure, []).append(x)
  return out


def _child(
  part: str, name: str, repeats: int, seconds: float
) -> dict[str, float]:
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder, 'figures.json')
    flags = f'--part={part} --size={name} --repeats={repeats} --out={path}'
    _run([sys.executable, '-m', MAIN, *flags.split()], seconds)
    return json.loads(path.read_text()) if path.exists() else {}


def _torch(
  part: str, size: SamplingBenchSize, repeats: int, python: str, device: str
) -> list[str]:
  flags = sampling.flags(size) | {'repeats': repeats, 'only': PEERS[part]}
  flags |= {'micro': 2, 'device': device, 'block': BLOCK}
  flags['compiled'] = int(device != 'cpu')  # which takes a CPU minutes
  command = [python, str(peers.OWN)]
  return command + [f'--{x}={n}' for x, n in flags.items()]


def _json(command: list[str], seconds: float) -> dict[str, float]:
  found: dict[str, float] = {}
  for one in peers.objects(_run(command, seconds)):
    found |= one
  return found


def _run(command: list[str], seconds: float) -> str:
  """Returns what the command prints; '' if it fails or time is up."""
  try:
    done = subprocess.run(
      command,
      capture_output=True,
      text=True,
      timeout=max(seconds, 0.1),
      check=False,
      env=os.environ,
    )
  except subprocess.TimeoutExpired:
    return ''
  sys.stderr.write(done.stderr[-2000:] if done.returncode else '')
  return done.stdout if not done.returncode else ''


def table(found: Mapping[str, Mapping[str, Sequence[float]]]) -> Iterator[str]:
  """Yields the figures and the aims as two Markdown tables, of medians."""
  yield '| part | ours | torch | times as fast |'
  yield '|---|---|---|---|'
  for part, figures in found.items():
    x = {name: float(np.median(values)) for name, values in figures.items()}
    theirs = f'{x["torch"]:.4g} s' if 'torch' in x else ''
    times = f'{x["times_torch"]:.2f}' if 'times_torch' in x else ''
    yield f'| {part} | {x["seconds"]:.4g} s | {theirs} | {times} |'
  yield ''
  yield '| aim | wanted | measured | |'
  yield '|---|---|---|---|'
  for aim in AIMS:
    rule = 'at least' if aim.least else 'at most'
    values = found.get(aim.part, {}).get(aim.figure)
    text = f'| {aim.what} | {rule} {aim.bound:g} {aim.unit} |'
    if values is None:
      yield f'{text}  | not measured |'
      continue
    value = float(np.median(values))
    word = 'reached' if aim.reached(value) else 'missed'
    yield f'{text} {value:.3g} | {word} |'
