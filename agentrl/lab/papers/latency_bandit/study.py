"""Latency study: when fast arms win for being fast, and what weights do.

Protocol, fixed before its runs; seeds below FIRST_SEED chose the worlds. Two
arms, fast (1 s) and slow; W workers, B = 16, noise 0.1, 600 updates from equal
logits, plain steps on the loss of configs/duration_aware.py, in its two
minibatches of 8, ratios to the policy that drew. Of a run it measures the
probability of the slow arm, `final` after the last update and `mean` over all;
a claim holds if the 95% Student intervals over seeds lie on its side of each
bound.
"""

import dataclasses
import functools
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import logging

from agentrl import registry
from agentrl.configs import base
from agentrl.lab.papers.latency_bandit import bandit as bandit_lib
from agentrl.lab.papers.latency_bandit.bandit import Bandit
from agentrl.report import panels
from agentrl.run import config_file
from agentrl.stats import intervals

FIRST_SEED, SEEDS, UPDATES = 1000, 24, 600
RATES = (0.25, 1.0, 4.0)
WORLDS = {  # rewards and seconds of the fast arm and of the slow one
  'better': ((0.5, 1.0), (1.0, 10.0)),
  'worse': ((1.0, 0.5), (1.0, 10.0)),
  'better, 3 s': ((0.5, 1.0), (1.0, 3.0)),
  'better, 30 s': ((0.5, 1.0), (1.0, 30.0)),
}
METHODS = ('raw', 'raw weighted', 'centred', 'centred weighted')
UNCLIPPED = 'raw unclipped'
CUT_AFTER = 7.5  # seconds; 28% of the slow arm's draws end before


@dataclasses.dataclass(frozen=True)
class Order:
  """How deliveries reach the learner, and who makes them."""

  run: Any  # of bandit: (bandit, learner, updates, luck) -> Course
  workers: int = 256
  spread: float = 0.0  # of log seconds
  methods: tuple[str, ...] = METHODS


ORDERS = {
  'as finished': Order(bandit_lib.as_finished, methods=(*METHODS, UNCLIPPED)),
  'as finished, 32 workers': Order(
    bandit_lib.as_finished, workers=32, methods=METHODS[:2]
  ),
  'in order': Order(functools.partial(bandit_lib.in_order, staleness=4)),
  'cut': Order(
    functools.partial(bandit_lib.in_order, deadline=CUT_AFTER),
    spread=0.5,
    methods=METHODS[:2],
  ),
}


class Bound(NamedTuple):
  """Bound on the `measure` of a cell, or on its difference from another's."""

  cell: tuple[str, str, float, str]  # order, method, rate, world
  side: int  # 1: above, −1: below
  value: float = 0.5
  less: tuple[str, str, float, str] | None = None
  measure: str = 'final'


CLAIMS: Mapping[str, tuple[Bound, ...]] = {
  'Taken as finished, raw rewards at a high rate settle on the fast arm though'
  ' the slow one is better, and weights undo it': (
    Bound(('as finished', 'raw', 4.0, 'better'), -1),
    Bound(('as finished', 'raw weighted', 4.0, 'better'), 1),
  ),
  "PPO's clip helps to hold it there": (
    Bound(
      ('as finished', UNCLIPPED, 4.0, 'better'),
      1,
      0.0,
      less=('as finished', 'raw', 4.0, 'better'),
    ),
  ),
  'At a low rate the bias passes by itself': (
    Bound(('as finished', 'raw', 0.25, 'better'), 1),
  ),
  'Taken in order, the same learner finds the better arm without weights': (
    Bound(('in order', 'raw', 4.0, 'better'), 1),
    Bound(('in order', 'raw', 4.0, 'worse'), -1),
  ),
  'Taken in order, weights on raw rewards choose the slow arm though it is'
  ' worse': (Bound(('in order', 'raw weighted', 4.0, 'worse'), 1),),
  'With the mean of the batch as baseline there is nothing to undo at any rate,'
  ' and weights make learning slower': tuple(
    Bound(('as finished', 'centred', rate, 'better'), 1, 0.9) for rate in RATES
  )
  + tuple(
    Bound(
      ('as finished', 'centred weighted', rate, 'better'),
      -1,
      0.0,
      less=('as finished', 'centred', rate, 'better'),
      measure='mean',
    )
    for rate in RATES
  ),
  'Where slow draws are given up, raw rewards settle on the fast arm at every'
  ' rate, and weights undo it': tuple(
    Bound(('cut', method, rate, 'better'), side)
    for rate in RATES
    for method, side in (('raw', -1), ('raw weighted', 1))
  ),
}


def method(name: str) -> registry.MethodSpec:
  """Returns configs/duration_aware.py, or it without some of its parts."""
  c = config_file.load('duration_aware:env=unreliable_tools')
  w = base.wiring(c)
  links = dict(w.stream)['episode']
  clip = {'clip_low': np.inf, 'clip_high': np.inf}
  return w._replace(
    hp={**w.hp, 'ppo': {'ppo': clip}} if name == UNCLIPPED else w.hp,
    stream={'episode': links if 'centred' in name else links[:1]},
    post=w.post if 'weighted' in name else (),
  )


def courses(
  order: Order,
  spec: registry.MethodSpec,
  *,
  seeds: Sequence[int],
  updates: int,
  rates: Sequence[float] = RATES,
  worlds: Mapping[str, tuple] = WORLDS,
) -> bandit_lib.Course:
  """Runs a method in every world, at every rate: [worlds, R, S, N, ...].

  Seed s is the same luck everywhere.
  """

  def one(reward, seconds, rate, seed):
    b = Bandit(reward, seconds, spread=order.spread, workers=order.workers)
    luck = bandit_lib.luck(b, updates, jax.random.key(seed))
    learner = bandit_lib.learner(b, spec, rate)
    return order.run(b, learner, updates, luck)

  every = jax.vmap(one, (None, None, None, 0))
  every = jax.vmap(every, (None, None, 0, None))
  every = jax.vmap(every, (0, 0, None, None))
  reward, seconds = (jnp.array(x) for x in zip(*worlds.values(), strict=True))
  return jax.device_get(
    jax.jit(every)(reward, seconds, jnp.array(rates), jnp.array(seeds))
  )


def measure(seeds: int = SEEDS, updates: int = UPDATES) -> dict[str, Any]:
  """Runs every order and method.

  Returns: {'seeds', 'updates', 'cells': {order: {method: {world: {rate:
    {'final': [S], 'mean': [S], 'seconds': mean time of the run}}}}}, 'curves':
    {order: {method: {world: probability of the slow arm [≤ 61], mean over
    seeds at the highest rate}}}}
  """
  luck = range(FIRST_SEED, FIRST_SEED + seeds)
  cells, curves = {}, {}
  for order_name, order in ORDERS.items():
    of_order = cells[order_name] = {}
    drawn = curves[order_name] = {}
    for name in order.methods:
      x = courses(order, method(name), seeds=luck, updates=updates)
      slow = x.probability[..., 1].astype(np.float64)  # [worlds, R, S, N]
      of_order[name] = {
        world: {
          str(rate): {
            'final': np.round(slow[i, j, :, -1], 4).tolist(),
            'mean': np.round(slow[i, j].mean(axis=-1), 4).tolist(),
            'seconds': round(float(x.time[i, j, :, -1].mean()), 1),
          }
          for j, rate in enumerate(RATES)
        }
        for i, world in enumerate(WORLDS)
      }
      thin = np.unique(np.linspace(0, updates - 1, 61).astype(int))
      drawn[name] = {
        world: np.round(slow[i, -1].mean(axis=0)[thin], 4).tolist()
        for i, world in enumerate(WORLDS)
      }
      logging.info('%s, %s: measured', order_name, name)
  return {'seeds': seeds, 'updates': updates, 'cells': cells, 'curves': curves}


def found(report: Mapping[str, Any], bound: Bound) -> tuple[float, float]:
  """Returns the 95% interval over seeds of what is bounded."""

  def values(cell):
    order, name, rate, world = cell
    cells = report['cells'][order][name][world]
    return np.array(cells[str(rate)][bound.measure])

  x = values(bound.cell)
  return intervals.mean_interval(x - values(bound.less) if bound.less else x)


def holds(report: Mapping[str, Any], claim: str) -> bool:
  """Tells whether every interval lies on its side of its bound."""

  def ok(bound):
    low, high = found(report, bound)
    return low > bound.value if bound.side > 0 else high < bound.value

  return all(map(ok, CLAIMS[claim]))


def table(report: Mapping[str, Any]) -> str:
  """Writes Markdown: claims, then the slow arm's final probability by rate."""
  lines = ['| claim | found |', '|---|---|']
  for claim in CLAIMS:
    lines.append(f'| {claim} | {"yes" if holds(report, claim) else "no"} |')
  rates = ' | '.join(f'rate {rate:g}' for rate in RATES)
  for world in WORLDS:
    lines += ['', f'| slow arm {world} | | {rates} |', '|---|---|---|---|---|']
    for order, methods in report['cells'].items():
      for name, worlds in methods.items():
        cells = []
        for rate in RATES:
          x = worlds[world][str(rate)]['final']
          low, high = intervals.mean_interval(x)
          cells.append(f'{np.mean(x):.2f} [{low:.2f}, {high:.2f}]')
        lines.append(f'| {order} | {name} | {" | ".join(cells)} |')
  return '\n'.join(lines)


def picture(
  report: Mapping[str, Any], path_png: str | os.PathLike[str]
) -> None:
  """Plots the probability of a better and of a worse slow arm by update."""
  figure, drawn = panels.draw(2, share_y=True)
  for axes, world in zip(drawn, ('better', 'worse'), strict=True):
    for order, style in (('as finished', '-'), ('in order', '--')):
      for i, name in enumerate(METHODS):
        y = report['curves'][order][name][world]
        x = np.linspace(0, report['updates'] - 1, len(y))
        label = f'{order}, {name}'
        axes.plot(x, y, style, color=f'C{i}', label=label)
    axes.set_xlabel(f'updates; slow arm {world}')
  drawn[0].set_ylabel('probability of the slow arm')
  handles, labels = drawn[0].get_legend_handles_labels()
  panels.explain(figure, handles, labels)
  panels.write(figure, path_png)
