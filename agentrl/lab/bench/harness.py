"""Timing of the cases of `sampling` and `training`, with a bound each:

  sum over parts  max(operations / product rate, bytes / copy rate)

with the rates of this machine, measured in the same minute. A product of few
rows has its own rate: it waits for the weights. What a program does beyond
(softmax, sampling, environments, memory of activations) is in the ratio.
Utilisation is operations over those of large products in the same time; what
is computed twice counts once.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from agentrl.lab.bench import (
  attention,
  games,
  gateway,
  judging,
  memory,
  peers,
  profile,
  roofline,
  room,
  sampling,
  storage,
  timing,
  training,
  vocabulary,
)
from agentrl.lab.bench.sampling import BenchCase, SamplingBenchSize

SECTIONS = {
  'decode': sampling.decode,
  'prefill': sampling.prefill,
  'rollout': sampling.rollout,
  'train': training.train,
  'iteration': training.iteration,
  'gradient': training.gradient,
  'attention': attention.kernels,
  'vocabulary': vocabulary.divergences,
}
# Run where they are named: they have no bound.
MORE = {
  'checkpoint': storage.checkpoints,
  'store': storage.trajectories,
  'memory': memory.reads,
  'room': room.rooms,
  'judge': judging.judges,
  'gateway': gateway.requests,
  'games': games.matches,
}


def run(
  size: SamplingBenchSize,
  data: str,
  repeats: int,
  only: Sequence[str] = (),
  tell: Callable[[str], None] = print,
  *,
  profiles: bool = False,
) -> dict[str, Any]:
  """Measures the sections named in `only` (default: SECTIONS), as JSON.

  Args:
    profiles: whether every case is run once more, for its kernels by part

  Raises ValueError for a section that does not exist.
  """
  if unknown := [name for name in only if name not in SECTIONS | MORE]:
    raise ValueError(
      f'--only names {unknown[0]!r}, which is unknown; choose from'
      f' {",".join(SECTIONS | MORE)}'
    )
  out: dict[str, Any] = {'device': device(), 'repeats': repeats}
  out |= {'rates': {}, 'figures': [], 'growth': {}}
  tell(f'{out["device"]}, median [min, max] of {repeats}')
  for name in only or SECTIONS:
    rates = roofline.rates(repeats, size.shape.dtype)
    tell(
      f'{name}: products {rates.large / 1e9:.0f} GFLOP/s large,'
      f' {rates.few / 1e9:.0f} of few rows;'
      f' copy {rates.copy / 1e9:.1f} GB/s'
    )
    with (
      contextlib.nullcontext(SECTIONS[name](size, data))
      if name in SECTIONS
      else MORE[name](size, data)
    ) as cases:
      figures, growth = measure(cases, rates, repeats)
      for figure in figures if profiles else ():
        parts = profile.of(cases[figure['name']].call)
        figure['kernels'] = [x._asdict() for x in parts]
    out['rates'][name] = rates._asdict()
    out['figures'] += figures
    out['growth'] |= growth
    for figure in figures:
      tell(line(figure))
      for text in profile.table(figure.get('kernels', ())):
        tell(f'    {text}')
    for case, x in growth.items():
      tell(f'  {case} takes {x:.2f} times as long as {cases[case].base}')
  return out


def device() -> str:
  d = jax.devices()[0]
  return f'{len(jax.devices())} x {d.device_kind}, jax {jax.__version__}'


def measure(
  cases: Mapping[str, BenchCase], rates: roofline.Rates, repeats: int
) -> tuple[list[dict[str, Any]], dict[str, float]]:
  """Returns a figure for each case, and {case: times what its base took}."""
  seconds = timing.interleaved({n: c.call for n, c in cases.items()}, repeats)
  figures = []
  for name, case in cases.items():
    s = timing.spread(seconds[name])
    figure: dict[str, Any] = {
      'name': name,
      'shapes': case.shapes,
      'seconds': s._asdict(),
      'per_second': {k: n / s.median for k, n in case.makes.items()},
    }
    if case.parts:
      bound = roofline.bound(case.parts, rates)
      operations = sum(p.operations for p in case.parts)
      figure |= {
        'operations': operations,
        'bytes': sum(p.bytes for p in case.parts),
        'bound_seconds': bound,
        'ratio': s.median / bound,
        'utilisation': operations / (s.median * rates.large),
      }
    figures.append(figure)
  growth = {
    name: timing.ratio(seconds[name], seconds[case.base]).median
    for name, case in cases.items()
    if case.base
  }
  return figures, growth


def line(figure: Mapping[str, Any]) -> str:
  """Returns a figure in words."""
  s = {k: 1e3 * x for k, x in figure['seconds'].items()}
  rate = ', '.join(f'{x:,.4g} {k}/s' for k, x in figure['per_second'].items())
  text = (
    f'  {figure["name"]:<18} {s["median"]:.4g} ms'
    f' [{s["low"]:.4g}, {s["high"]:.4g}]  {rate}\n  {"":<18} '
  )
  if 'ratio' in figure:
    text += (
      f'bound {1e3 * figure["bound_seconds"]:.4g} ms'
      f' ({figure["operations"] / 1e9:.3g} GFLOP,'
      f' {figure["bytes"] / 1e6:.3g} MB), ratio {figure["ratio"]:.2f},'
      f' utilisation {figure["utilisation"]:.0%}; '
    )
  return text + figure['shapes']


def ours(
  size: SamplingBenchSize, data: str, repeats: int
) -> Callable[[], dict[str, float]]:
  """Returns () -> figures to compare with peers: tokens per second, seconds."""
  decode = sampling.decode(size, data)['decode']
  cases = training.iteration(size, data) | training.gradient(size, data)
  calls = {name: case.call for name, case in cases.items()}

  def call() -> dict[str, float]:
    seconds = timing.interleaved(calls | {'decode': decode.call}, repeats)
    out = {name: timing.spread(x).median for name, x in seconds.items()}
    return out | {'decode': decode.makes['tokens'] / out['decode']}

  return call


def compare(
  size: SamplingBenchSize,
  data: str,
  repeats: int,
  folder: str,
  pythons: Mapping[str, str],
  rounds: int,
) -> dict[str, dict]:
  """Compares with peers at this size; arguments as of `peers.compare`."""
  sizes = sampling.flags(size) | {'repeats': repeats}
  own = ours(size, data, repeats)
  return peers.compare(folder, pythons, own, rounds, sizes=sizes)
