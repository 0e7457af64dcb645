"""How the learning rates of a comparison's arms were chosen."""

import math
from collections.abc import Mapping, Sequence

from experiments import compare_numbers as numbers
from experiments import compare_pictures as pictures
from experiments import compare_tables as tables
from experiments.markup import Markup, element, join, note

_TUNING = """Score over learning rate, on seeds of their own: a dot is a
seed, the line the mean, the ring the rate that was chosen. A best rate at the
edge of the grid means that a better one may lie outside, so the grid was
widened where it could be."""


def tuning(envs: Mapping, known: tables.Looks) -> Markup | None:
  tuned = [(env.get('label') or n, env['tuning']) for n, env in envs.items()
           if env.get('tuning')]  # fmt: skip
  if not tuned:
    return None
  shown = (
    join(
      element('h3', label),
      element('div', *(_tuned(n, t, tuning, known) for n, t in tuning.items()),
              class_='grids'),
      _scores(tuning, known),
    )
    for label, tuning in tuned
  )  # fmt: skip
  return join(note(_TUNING), *shown)


def _tuned(
  name: str, one: Mapping, tuning: Mapping, known: tables.Looks
) -> Markup:
  scores = [s for t in tuning.values() for _, row in t.get('grid', ())
            for s in row]  # fmt: skip
  look = pictures.look_of(name, known)
  best, widened = one.get('best'), one.get('widened', 0)
  mean = _means(one).get(best)
  told = [f'best {numbers.rate(best)}: {numbers.number(mean, 3)}'
          if best else 'no best rate']  # fmt: skip
  if widened:
    told.append(f'grid widened {widened}×')
  edge = element('em', 'at the edge') if one.get('edge') else None
  drawn = _grid(one, look, pictures.reach(scores))
  return element(
    'figure',
    tables.named(look),
    drawn if one.get('grid') else None,
    element('figcaption', ', '.join(told), ', ' if edge else None, edge),
  )


def _grid(
  tuned: Mapping, look: pictures.Look, span: tuple[float, float]
) -> Markup:
  """Score over learning rate, logarithmic: a dot a seed, a line of means.

  The chosen rate is a vertical line with a ring at its mean.
  """
  rows = [(r, [s for s in scores if numbers.is_number(s)])
          for r, scores in tuned['grid']]  # fmt: skip
  wide, left, right, top, bottom = 230, 16, 214, 12, 100
  at = [math.log10(r) for r, _ in rows if r > 0] or [0.0]
  x = pictures.Scale(min(at) - 0.1, max(at) + 0.1, left, right)
  y = pictures.Scale(*span, bottom, top)
  rows = [(x(math.log10(r)), r, scores) for r, scores in rows if r > 0]
  means = [(a, r, y(sum(s) / len(s))) for a, r, s in rows if s]
  best = tuned.get('best')
  return element(
    'svg',
    *(join(element('path', d=f'M{a} {top}V{bottom}', class_='chosen'),
           element('circle', cx=a, cy=b, r=8, class_='ring'))
      for a, r, b in means if r == best),
    element('path', d=f'M{left} {bottom}H{right}', class_='grid'),
    *(element('circle', cx=a, cy=y(v), r=2.6, class_='dot')
      for a, _, s in rows for v in s),
    element('path', d='M' + 'L'.join(f'{a} {b}' for a, _, b in means),
            class_='line') if means else None,
    *(pictures.text(numbers.rate(r), a, bottom + 18, 'middle')
      for a, r, _ in _some(rows, best)),
    viewBox=f'0 0 {wide} 126', class_=f'tuning c{look.color}', role='img',
    aria_label=f'{look.label}: score over learning rate',
  )  # fmt: skip


def _some(rows: Sequence[tuple], best: float | None) -> list[tuple]:
  """The ends and the chosen one, if there is room for it between them."""
  ends = {0, len(rows) - 1} if rows else set()
  kept = [i for i, (_, r, _) in enumerate(rows) if r == best]
  far = [i for i in kept if all(abs(rows[i][0] - rows[e][0]) > 55
                                for e in ends - {i})]  # fmt: skip
  return [rows[i] for i in sorted(ends | set(far))]


def _scores(tuning: Mapping, known: tables.Looks) -> Markup:
  """The scores behind the pictures of the tuning."""
  rows = []
  for name, one in tuning.items():
    means = _means(one)
    for rate, scores in one.get('grid', ()):
      best = 'best' if rate == one.get('best') else ''
      rows.append([
        tables.named(pictures.look_of(name, known)), numbers.rate(rate), best,
        numbers.number(means[rate], 3),
        '  '.join(numbers.number(s, 3) for s in scores),
      ])  # fmt: skip
  heads = ['arm', 'learning rate', '', 'mean score', 'score of each seed']
  return tables.fold('Every score', tables.table(heads, rows, 'tuning scores'))


def _means(tuned: Mapping) -> dict[float, float | None]:
  """rate -> mean score of the seeds that have one."""
  kept = {r: [s for s in scores if numbers.is_number(s)]
          for r, scores in tuned.get('grid', ())}  # fmt: skip
  return {r: sum(s) / len(s) if s else None for r, s in kept.items()}
