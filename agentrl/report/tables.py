"""A comparison's tables: numbers to the right, words to the left."""

from collections.abc import Mapping, Sequence

from agentrl.report import numbers as numbers_lib
from agentrl.report import svg
from agentrl.report.html import Markup, element, join
from agentrl.report.numbers import Measure
from agentrl.report.svg import Look

Looks = Mapping[str, Look]


def table(rows: Sequence[Mapping[str, str]], label: str) -> Markup:
  """Rows of head -> cell, alike; the first cell names its row.

  All scrolls within a box of its own.
  """
  heads = (element('th', head, scope='col') for head in rows[0])
  return element(
    'div',
    element(
      'table',
      element('thead', element('tr', *heads)),
      element('tbody', *(_row(*row.values()) for row in rows)),
    ),
    class_='scroll',
    tabindex=0,
    role='region',
    aria_label=label,
  )


def _row(first: str, *rest: str) -> Markup:
  cells = (element('td', cell) for cell in rest)
  return element('tr', element('th', first, scope='row'), *cells)


def fold(title: str, *content: str | None) -> Markup:
  return element('details', element('summary', title), *content)


def named(look: Look) -> Markup:
  """An arm as it stands in every table."""
  part = None if look.part == 'method' else element('small', look.part)
  return element('span', svg.swatch(look), look.label, part, class_='arm')


def against(row: Mapping, known: Looks) -> Markup:
  """arm − baseline."""
  arm, base = (svg.look_of(row[k], known) for k in ('arm', 'baseline'))
  minus = element('span', ' − ', class_='minus')
  return element(
    'span', svg.swatch(arm), arm.label, minus, base.label, class_='arm'
  )


def arms(setting: Mapping, name: str, m: Measure, known: Looks) -> Markup:
  """Each arm's runs by the first measure, and what they cost."""
  found = setting['arms']
  seen = [v for arm in found.values() for v in _values(arm, name)]
  for arm in found.values():
    seen += [arm_of(arm, name).get(end) for end in ('low', 'high')]
  span = svg.reach(seen)
  dots = _axis(f'every run, {m.unit or "value"}', m, span)
  rows = []
  for key, arm in found.items():
    one, look = arm_of(arm, name), known[key]
    rows.append(
      {
        'arm': named(look),
        dots: svg.strip(_values(arm, name), one, span, look),
        'mean': strong(m.show(one.get('mean'))),
        '95% interval': m.interval(one.get('low'), one.get('high')),
        'median': m.show(one.get('median')),
        'IQM': m.show(one.get('iqm')),
        'runs': numbers_lib.number(arm.get('runs'), 0),
        'failed': warned(arm.get('failed')),
        'unstable': warned(arm.get('unstable')),
        'learning rate': numbers_lib.rate(arm.get('rate')),
        'wall time': numbers_lib.duration(arm.get('seconds')),
        'env. steps': numbers_lib.count(arm.get('env_steps')),
        'tokens': numbers_lib.count(arm.get('tokens')),
      }
    )
  return table(rows, f'arms by {m.title}')


def summary(setting: Mapping, name: str, m: Measure, known: Looks) -> Markup:
  """All that is kept of one measure."""
  found = {key: arm_of(arm, name) for key, arm in setting['arms'].items()}
  rows = [
    {
      'arm': named(known[key]),
      'n': numbers_lib.number(one.get('n'), 0),
      'mean': strong(m.show(one.get('mean'))),
      '95% interval': m.interval(one.get('low'), one.get('high')),
      'median': m.show(one.get('median')),
      'IQM': m.show(one.get('iqm')),
      '95% interval of the IQM': m.interval(
        one.get('iqm_low'), one.get('iqm_high')
      ),
      'sd of runs': m.show(one.get('sd')),
    }
    for key, one in found.items()
  ]
  return join(element('h5', m.title), table(rows, m.title))


def differences(rows: Sequence[Mapping], m: Measure, known: Looks) -> Markup:
  """arm − baseline of one measure, pair by pair, with a forest plot."""
  span = svg.reach(
    [0.0, *(row.get(k) for row in rows for k in ('low', 'high', 'mean'))]
  )
  forest = _axis('beside zero', m, span, sign=True)
  lines = [
    {
      'arm − baseline': against(row, known),
      forest: svg.forest(row, span),
      'mean': strong(m.show(row.get('mean'), sign=True)),
      '95% interval': m.interval(row.get('low'), row.get('high'), sign=True),
      'median': m.show(row.get('median'), sign=True),
      'P(improvement)': numbers_lib.number(row.get('better')),
      'correlation': numbers_lib.number(row.get('correlation')),
      'sd': m.show(row.get('sd')),
      'pairs': numbers_lib.number(row.get('n'), 0),
      'failed': _both(row.get('failed')),
      'p': numbers_lib.p_value(row.get('p')),
      'Holm p': numbers_lib.p_value(row.get('holm')),
    }
    for row in rows
  ]
  return table(lines, f'paired differences of {m.title}')


def runs(setting: Mapping, name: str, m: Measure, known: Looks) -> Markup:
  """An arm's runs side by side; runs of one seed, a pair, in one column."""
  each = {
    key: {run.get('seed'): run for run in arm.get('each', ())}
    for key, arm in setting['arms'].items()
  }
  seeds = list(dict.fromkeys(seed for row in each.values() for seed in row))
  heads = {seed: f'seed {numbers_lib.number(seed, 0)}' for seed in seeds}
  rows = [
    {'arm': named(known[key])}
    | {heads[seed]: _run(row.get(seed), name, m) for seed in seeds}
    for key, row in each.items()
  ]
  return join(element('h5', m.title), table(rows, f'every run by {m.title}'))


def told(setting: Mapping, known: Looks) -> Markup | None:
  """A line for each arm that told something, a column for each thing."""
  told_by = {k: arm.get('told') for k, arm in setting.get('arms', {}).items()}
  found = {key: one for key, one in told_by.items() if one}
  names = list(dict.fromkeys(x for one in found.values() for x in one))
  rows = [
    {'arm': named(known[key])}
    | {x: numbers_lib.any_value(one.get(x)) for x in names}
    for key, one in found.items()
  ]
  return table(rows, 'other readings') if rows else None


def power(told: Mapping, m: Measure) -> Markup:
  """A line for each number of pairs, a column for each level."""
  rows = told['rows']
  levels = sorted({row['alpha'] for row in rows}, reverse=True)
  found = {(row['pairs'], row['alpha']): row.get('smallest') for row in rows}
  lines = [
    {'': f'{n} pairs'}
    | {f'at level {a:.3g}': m.show(found.get((n, a))) for a in levels}
    for n in sorted({row['pairs'] for row in rows})
  ]
  return table(lines, 'power')


def arm_of(arm: Mapping, measure: str) -> Mapping:
  return arm.get('measures', {}).get(measure, {})


def strong(text: str) -> Markup:
  return element('strong', text)


def warned(n: int | None) -> str:
  """A count one hopes to be 0."""
  text = numbers_lib.number(n, 0)
  return element('em', text) if n else text


def _values(arm: Mapping, name: str) -> list[float | None]:
  runs = arm.get('each', ())
  return [run.get('measures', {}).get(name) for run in runs]


def _axis(
  title: str, m: Measure, span: tuple[float, float], sign: bool = False
) -> Markup:
  """A head with what the two ends of the pictures below it stand for."""
  ends = (element('span', m.show(x, sign)) for x in span)
  return join(title, element('span', *ends, class_='ends'))


def _both(failed: Sequence[int] | None) -> str:
  return ' + '.join(numbers_lib.number(n, 0) for n in failed or [None])


def _run(run: Mapping | None, name: str, m: Measure) -> str:
  """The value of one run, and what was wrong with it."""
  if run is None:
    return ''
  if run.get('failed'):
    return element('em', 'failed')
  value = m.show(run.get('measures', {}).get(name))
  return element('em', value, '†') if run.get('unstable') else value
