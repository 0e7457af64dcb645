"""Grid of a sweep: changes to a config, and a name for each.

A config file may say so itself:

  def sweep(add):
    for lr in (3e-4, 1e-3):
      for seed in range(5):
        add({'role.policy.lr': lr, 'seed': seed})

`grid`, `zipped` and `draws` make such changes from axes, path -> values.
"""

import ast
import hashlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

Changes = Mapping[str, Any]
LONGEST = 80  # characters of a name


def grid(**axes: Iterable[Any]) -> Iterator[dict[str, Any]]:
  """Lists every combination; the last axis is fastest. `__` means a dot."""
  names = [name.replace('__', '.') for name in axes]
  for values in itertools.product(*axes.values()):
    yield dict(zip(names, values, strict=True))


def zipped(**axes: Sequence[Any]) -> Iterator[dict[str, Any]]:
  """Zips axes: the first values together, then the second ones, and so on."""
  sizes = {name: len(values) for name, values in axes.items()}
  if len(set(sizes.values())) > 1:
    raise ValueError(f'axes that are zipped have equal lengths, not {sizes}')
  names = [name.replace('__', '.') for name in axes]
  for values in zip(*axes.values(), strict=True):
    yield dict(zip(names, values, strict=True))


def draws(
  n: int, seed: int = 0, **axes: tuple[str, float, float]
) -> Iterator[dict[str, Any]]:
  """Draws n random points; an axis is ('uniform' | 'log', low, high)."""
  r = np.random.default_rng(seed)
  for _ in range(n):
    point = {}
    for name, (how, low, high) in axes.items():
      if how not in ('uniform', 'log') or (how == 'log' and low <= 0):
        raise ValueError(
          f'{name}={(how, low, high)!r} cannot be drawn; use'
          " ('uniform', low, high) or ('log', low > 0, high)"
        )
      ends = (np.log(low), np.log(high)) if how == 'log' else (low, high)
      x = r.uniform(*ends)
      point[name.replace('__', '.')] = float(np.exp(x) if how == 'log' else x)
    yield point


def axis(text: str) -> tuple[str, list[Any]]:
  """Parses 'role.policy.lr=3e-4,1e-3' into path and values, read as Python."""
  path, sign, values = text.partition('=')
  if not sign or not values:
    raise ValueError(f'--grid={text!r} is not PATH=VALUE,VALUE,...')
  parts = re.split(r',(?![^(\[]*[)\]])', values)  # no comma inside brackets
  return path.strip(), [_value(v) for v in parts]


def changes(texts: Sequence[str]) -> dict[str, Any]:
  """Parses ['steps=20', 'env.slip=0.2'] -> {'steps': 20, 'env.slip': 0.2}."""
  out = {}
  for text in texts:
    path, sign, value = text.partition('=')
    if not sign:
      raise ValueError(f'--set={text!r} is not PATH=VALUE; write e.g. steps=20')
    out[path.strip()] = _value(value)
  return out


def _value(text: str) -> Any:
  """Returns a value as Python reads it; a bare word is a string."""
  try:
    return ast.literal_eval(text.strip())
  except (ValueError, SyntaxError):
    return text.strip()


def expand(
  sweep: Callable[[Callable[[Changes], None]], None] | None,
  axes: Sequence[tuple[str, list[Any]]],
  seeds: int,
) -> list[dict[str, Any]]:
  """Returns the changes of every run: sweep(add) x axes x seeds."""
  runs: list[dict[str, Any]] = []
  if sweep:
    sweep(lambda changes: runs.append(dict(changes)))
  runs = runs or [{}]
  for path, values in axes:
    runs = [{**run, path: v} for run in runs for v in values]
  if seeds:
    runs = [{**run, 'seed': s} for run in runs for s in range(seeds)]
  names = [name_of(run) for run in runs]
  for name in names:
    if names.count(name) > 1:
      raise ValueError(f'the sweep has the run {name!r} more than once')
  return runs


def name_of(changes: Changes) -> str:
  """Names a folder by the changes alone, whatever their order."""
  text = ','.join(f'{k}={changes[k]}' for k in sorted(changes)) or 'base'
  safe = re.sub(r'[^\w.,=+-]', '_', text)
  if safe == text and len(text) <= LONGEST:
    return text
  digest = hashlib.sha1(text.encode()).hexdigest()[:8]
  return f'{safe[: LONGEST - 9]}-{digest}'


def of_seeds(seeds: list[str], init: list[str]) -> list[dict]:
  """Returns the changes of runs of --seeds and --init, one for each seed."""
  if not seeds or not all(x.strip().isdecimal() for x in seeds):
    raise ValueError(
      '--seeds must be integers >= 0, such as --seeds=0,1,2, got'
      f' {",".join(seeds)!r}'
    )
  if init and len(init) != len(seeds):
    raise ValueError(
      f'--init is given {len(init)} times and there are {len(seeds)} seeds;'
      ' give it once for each seed, or not at all'
    )
  inits = [{'init': run} for run in init] or [{}] * len(seeds)
  return [{'seed': int(x), **y} for x, y in zip(seeds, inits, strict=True)]
