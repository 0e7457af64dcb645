"""Timing of the cases of `sampling` and `training`, with a bound each:

  sum over parts  max(operations / product rate, bytes / copy rate)

with the rates of this machine, measured in the same minute. A product of few
rows has its own rate: it waits for the weights. What a program does beyond
(softmax, sampling, environments, memory of activations) is in the ratio.
Utilisation is operations over those of large products in the same time; what
is computed twice counts once.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np

from agentrl.lab.bench import attention, roofline, sampling, training
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize

SECTIONS = {
  'decode': sampling.decode,
  'prefill': sampling.prefill,
  'rollout': sampling.rollout,
  'train': training.train,
  'iteration': training.iteration,
  'gradient': training.gradient,
  'attention': attention.kernels,
}
# case -> the case that is allowed no more than it uses
GROWTH = {
  'decode_cache_8x': 'decode',
  'decode_message_8x': 'decode',
  'decode_slots': 'decode',
  'rollout_full_8x': 'rollout_full',
}


class Spread(NamedTuple):
  """Seconds over the repeats."""

  median: float
  low: float
  high: float


def run(
  size: SamplingBenchSize,
  data: str,
  repeats: int,
  only: Sequence[str] = (),
  tell: Callable[[str], None] = print,
) -> dict:
  """Measures the sections named in `only` (all by default), as JSON.

  Raises ValueError for a section that does not exist.
  """
  if unknown := [name for name in only if name not in SECTIONS]:
    raise ValueError(
      f'--only names {unknown[0]!r}, which is unknown; choose from'
      f' {",".join(SECTIONS)}'
    )
  out = {'device': device(), 'repeats': repeats, 'rates': {}, 'figures': []}
  out['growth'] = {}
  tell(f'{out["device"]}, median [min, max] of {repeats}')
  for name in only or SECTIONS:
    rates = roofline.rates(repeats, size.shape.dtype)
    tell(
      f'{name}: products {rates.large / 1e9:.0f} GFLOP/s large,'
      f' {rates.few / 1e9:.0f} of few rows;'
      f' copy {rates.copy / 1e9:.1f} GB/s'
    )
    figures, growth = measure(SECTIONS[name](size, data), rates, repeats)
    out['rates'][name] = rates._asdict()
    out['figures'] += figures
    out['growth'] |= growth
    for figure in figures:
      tell(line(figure))
    for case, x in growth.items():
      tell(f'  {case} takes {x:.2f} times as long as {GROWTH[case]}')
  return out


def device() -> str:
  d = jax.devices()[0]
  return f'{len(jax.devices())} x {d.device_kind}, jax {jax.__version__}'


def interleaved(calls: Mapping[str, Callable], repeats: int):
  """{name: Spread} of warm calls, round by round: a noisy spell hits all."""
  for call in calls.values():
    for _ in range(2):  # compiles; then settles
      jax.block_until_ready(call())
  seconds: dict[str, list[float]] = {name: [] for name in calls}
  for _ in range(repeats):
    for name, call in calls.items():
      seconds[name].append(roofline.seconds(call))
  return {
    name: Spread(float(np.median(s)), min(s), max(s))
    for name, s in seconds.items()
  }


def measure(
  cases: Mapping[str, BenchCase], rates: roofline.Rates, repeats: int
):
  """A figure for each case, and {case: times what its base in GROWTH took}."""
  spreads = interleaved({n: c.call for n, c in cases.items()}, repeats)
  figures = []
  for name, s in spreads.items():
    parts, bound = cases[name].parts, roofline.bound(cases[name].parts, rates)
    operations = sum(p.operations for p in parts)
    figures.append(
      {
        'name': name,
        'shapes': cases[name].shapes,
        'seconds': s._asdict(),
        'per_second': {k: n / s.median for k, n in cases[name].makes.items()},
        'operations': operations,
        'bytes': sum(p.bytes for p in parts),
        'bound_seconds': bound,
        'ratio': s.median / bound,
        'utilisation': operations / (s.median * rates.large),
      }
    )
  growth = {
    name: spreads[name].median / spreads[base].median
    for name, base in GROWTH.items()
    if name in spreads
  }
  return figures, growth


def line(figure: dict) -> str:
  """A figure in words."""
  s = {k: 1e3 * x for k, x in figure['seconds'].items()}
  rate = ', '.join(f'{x:,.4g} {k}/s' for k, x in figure['per_second'].items())
  return (
    f'  {figure["name"]:<18} {s["median"]:.4g} ms'
    f' [{s["low"]:.4g}, {s["high"]:.4g}]  {rate}\n'
    f'  {"":<18} bound {1e3 * figure["bound_seconds"]:.4g} ms'
    f' ({figure["operations"] / 1e9:.3g} GFLOP,'
    f' {figure["bytes"] / 1e6:.3g} MB), ratio {figure["ratio"]:.2f},'
    f' utilisation {figure["utilisation"]:.0%}; {figure["shapes"]}'
  )


def ours(size: SamplingBenchSize, data: str, repeats: int):
  """() -> (tokens per second of decode, seconds of an iteration), warm."""
  decode = sampling.decode(size, data)['decode']
  calls = {
    'decode': decode.call,
    'iteration': training.iteration(size, data)['iteration'].call,
  }

  def call() -> tuple[float, float]:
    spreads = interleaved(calls, repeats)
    tokens = decode.makes['tokens'] / spreads['decode'].median
    return tokens, spreads['iteration'].median

  return call
