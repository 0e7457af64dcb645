"""How the learning rates of a comparison's arms were chosen."""

import math
from collections.abc import Mapping

from agentrl.report import numbers as numbers_lib
from agentrl.report import svg
from agentrl.report import tables as tables_lib
from agentrl.report.html import Markup, element, join, note

_TUNING = """Score over learning rate, on seeds of their own: a dot is a
seed, the line the mean, the ring the rate that was chosen. A best rate at the
edge of the grid means that a better one may lie outside, so the grid was
widened where it could be."""


_WIDE, _TALL = 230, 126
_LEFT, _RIGHT, _TOP, _BOTTOM = 16, 214, 12, 100
_APART = 55  # what two labels of rates need


def tuning(envs: Mapping, known: tables_lib.Looks) -> Markup | None:
  tuned = {n: env['tuning'] for n, env in envs.items() if env.get('tuning')}
  if not tuned:
    return None
  return join(
    note(_TUNING),
    *(
      join(
        element('h3', envs[name].get('label') or name),
        _grids(arms, known),
        _scores(arms, known),
      )
      for name, arms in tuned.items()
    ),
  )


def _grids(arms: Mapping, known: tables_lib.Looks) -> Markup:
  """One small picture for each arm, all of one scale."""
  scores = [s for one in arms.values() for _, s in _points(one)]
  span = svg.reach(scores)
  drawn = (
    _tuned(one, svg.look_of(name, known), span) for name, one in arms.items()
  )
  return element('div', *drawn, class_='grids')


def _tuned(one: Mapping, look: svg.Look, span: tuple[float, float]) -> Markup:
  best, widened = one.get('best'), one.get('widened')
  mean = numbers_lib.number(_means(one).get(best), 3)
  told = f'best {numbers_lib.rate(best)}: {mean}' if best else 'no best rate'
  return element(
    'figure',
    tables_lib.named(look),
    _grid(one, look, span) if one.get('grid') else None,
    element(
      'figcaption',
      told,
      f', grid widened {widened}×' if widened else None,
      join(', ', element('em', 'at the edge')) if one.get('edge') else None,
    ),
  )


def _grid(one: Mapping, look: svg.Look, span: tuple[float, float]) -> Markup:
  """Score over learning rate, logarithmic: a dot a seed, a line of means.

  The chosen rate is a vertical line with a ring at its mean.
  """
  powers = [math.log10(rate) for rate, _ in one['grid']]
  x = svg.Scale(powers[0] - 0.1, powers[-1] + 0.1, _LEFT, _RIGHT)
  y = svg.Scale(*span, _BOTTOM, _TOP)
  at = {rate: x(math.log10(rate)) for rate, _ in one['grid']}
  line = {r: (at[r], y(m)) for r, m in _means(one).items() if m is not None}
  best = one.get('best')
  return element(
    'svg',
    _chosen(*line[best]) if best in line else None,
    element('path', d=f'M{_LEFT} {_BOTTOM}H{_RIGHT}', class_='grid'),
    *(
      element('circle', cx=at[r], cy=y(s), r=2.6, class_='dot')
      for r, s in _points(one)
    ),
    svg.polyline(line.values()),
    *(
      svg.text(numbers_lib.rate(r), at[r], _BOTTOM + 18, 'middle')
      for r in _labelled(at, best)
    ),
    viewBox=f'0 0 {_WIDE} {_TALL}',
    class_=f'tuning c{look.color}',
    role='img',
    aria_label=f'{look.label}: score over learning rate',
  )


def _chosen(x: float, y: float) -> Markup:
  return join(
    element('path', d=f'M{x} {_TOP}V{_BOTTOM}', class_='chosen'),
    element('circle', cx=x, cy=y, r=8, class_='ring'),
  )


def _labelled(at: Mapping[float, float], best: float | None) -> list[float]:
  """The ends and the best rate, if there is room for it between them."""
  rates = list(at)
  ends = [rates[0], rates[-1]] if rates[1:] else rates
  room = best in at and all(abs(at[best] - at[r]) > _APART for r in ends)
  return [*ends, best] if room else ends


def _points(one: Mapping) -> list[tuple[float, float]]:
  """(rate, score) of each seed that has a score."""
  return [
    (rate, score)
    for rate, scores in one.get('grid', ())
    for score in scores
    if numbers_lib.is_number(score)
  ]


def _scores(arms: Mapping, known: tables_lib.Looks) -> Markup | None:
  """The numbers behind the pictures."""
  rows = []
  for name, one in arms.items():
    means = _means(one)
    for rate, scores in one.get('grid', ()):
      each = '  '.join(numbers_lib.number(s, 3) for s in scores)
      rows.append(
        {
          'arm': tables_lib.named(svg.look_of(name, known)),
          'learning rate': numbers_lib.rate(rate),
          'chosen': 'best' if rate == one.get('best') else '',
          'mean score': numbers_lib.number(means[rate], 3),
          'score of each seed': each,
        }
      )
  if not rows:
    return None
  return tables_lib.fold('Every score', tables_lib.table(rows, 'tuning scores'))


def _means(one: Mapping) -> dict[float, float | None]:
  """rate -> mean score of the seeds that have one."""
  kept = {rate: [] for rate, _ in one.get('grid', ())}
  for rate, score in _points(one):
    kept[rate].append(score)
  return {r: sum(s) / len(s) if s else None for r, s in kept.items()}
