"""A comparison's tables: numbers to the right, words to the left."""

from collections.abc import Iterable, Mapping, Sequence

from experiments import compare_numbers as numbers
from experiments import compare_pictures as pictures
from experiments.compare_numbers import Measure
from experiments.compare_pictures import Look
from experiments.markup import Markup, element, join

Looks = Mapping[str, Look]


def table(
  heads: Sequence[str], rows: Iterable[Sequence[str]], label: str
) -> Markup:
  """A line's first cell names it; all scrolls within a box of its own."""
  top = element('tr', *(element('th', h, scope='col') for h in heads))
  body = (
    element(
      'tr',
      element('th', first, scope='row'),
      *(element('td', cell) for cell in rest),
    )
    for first, *rest in rows
  )
  return element(
    'div',
    element('table', element('thead', top), element('tbody', *body)),
    class_='scroll',
    tabindex=0,
    role='region',
    aria_label=label,
  )


def fold(title: str, *content: str | None) -> Markup:
  return element('details', element('summary', title), *content)


def named(look: Look) -> Markup:
  """An arm as it stands in every table."""
  part = None if look.part == 'method' else element('small', look.part)
  return element('span', pictures.swatch(look), look.label, part, class_='arm')


def against(row: Mapping, known: Looks) -> Markup:
  """arm − baseline."""
  arm, base = (pictures.look_of(row[k], known) for k in ('arm', 'baseline'))
  minus = element('span', ' − ', class_='minus')
  return element(
    'span', pictures.swatch(arm), arm.label, minus, base.label, class_='arm'
  )


def arms(setting: Mapping, name: str, m: Measure, known: Looks) -> Markup:
  """Each arm's runs by the first measure, and what they cost."""
  found = setting.get('arms', {})
  span = pictures.reach(
    [v for arm in found.values() for v in _values(arm, name)]
    + [arm_of(arm, name).get(k) for arm in found.values()
       for k in ('low', 'high')]
  )  # fmt: skip
  heads = ['arm', _axis(f'every run, {m.unit or "value"}', m, span), 'mean',
           '95% interval', 'median', 'IQM', 'runs', 'failed', 'unstable',
           'learning rate', 'wall time', 'env. steps', 'tokens']  # fmt: skip
  rows = []
  for arm_name, arm in found.items():
    one, look = arm_of(arm, name), known[arm_name]
    rows.append([
      named(look), pictures.strip(_values(arm, name), one, span, look),
      strong(m.show(one.get('mean'))),
      m.interval(one.get('low'), one.get('high')),
      m.show(one.get('median')), m.show(one.get('iqm')),
      numbers.number(arm.get('runs'), 0), warned(arm.get('failed')),
      warned(arm.get('unstable')), numbers.rate(arm.get('rate')),
      numbers.duration(arm.get('seconds')), numbers.count(arm.get('env_steps')),
      numbers.count(arm.get('tokens')),
    ])  # fmt: skip
  return table(heads, rows, f'arms by {m.title}')


def summary(setting: Mapping, name: str, m: Measure, known: Looks) -> Markup:
  """All that is kept of one measure."""
  heads = ['arm', 'n', 'mean', '95% interval', 'median', 'IQM',
           '95% interval of the IQM', 'sd of runs']  # fmt: skip
  rows = []
  for arm_name, arm in setting.get('arms', {}).items():
    one = arm_of(arm, name)
    rows.append([
      named(known[arm_name]), numbers.number(one.get('n'), 0),
      strong(m.show(one.get('mean'))),
      m.interval(one.get('low'), one.get('high')),
      m.show(one.get('median')), m.show(one.get('iqm')),
      m.interval(one.get('iqm_low'), one.get('iqm_high')),
      m.show(one.get('sd')),
    ])  # fmt: skip
  title = element('h5', m.title)
  return join(title, table(heads, rows, m.title))


def differences(rows: Sequence[Mapping], m: Measure, known: Looks) -> Markup:
  """arm − baseline of one measure, pair by pair, with a forest plot."""
  span = pictures.reach(
    [0.0, *(row.get(k) for row in rows for k in ('low', 'high', 'mean'))]
  )
  heads = ['arm − baseline', _axis('beside zero', m, span, sign=True), 'mean',
           '95% interval', 'median', 'P(improvement)', 'correlation',
           'sd', 'pairs', 'failed', 'p', 'Holm p']  # fmt: skip
  lines = [
    [
      against(row, known), pictures.forest(row, span),
      strong(m.show(row.get('mean'), sign=True)),
      m.interval(row.get('low'), row.get('high'), sign=True),
      m.show(row.get('median'), sign=True), numbers.number(row.get('better')),
      numbers.number(row.get('correlation')), m.show(row.get('sd')),
      numbers.number(row.get('n'), 0), _both(row.get('failed')),
      numbers.p_value(row.get('p')), numbers.p_value(row.get('holm')),
    ]
    for row in rows
  ]  # fmt: skip
  return table(heads, lines, f'paired differences of {m.title}')


def runs(setting: Mapping, name: str, m: Measure, known: Looks) -> Markup:
  """An arm's runs side by side; runs of one seed, a pair, in one column."""
  each = {
    arm_name: {run.get('seed'): run for run in arm.get('each', ())}
    for arm_name, arm in setting.get('arms', {}).items()
  }
  seeds = list(dict.fromkeys(seed for row in each.values() for seed in row))
  rows = [
    [named(known[n]), *(_run(row.get(seed), name, m) for seed in seeds)]
    for n, row in each.items()
  ]
  heads = ['arm', *(f'seed {numbers.number(seed, 0)}' for seed in seeds)]
  title = element('h5', m.title)
  return join(title, table(heads, rows, f'every run by {m.title}'))


def told(setting: Mapping, known: Looks) -> Markup | None:
  """A line for each arm that told something, a column for each thing."""
  found = {
    n: arm['told'] for n, arm in setting.get('arms', {}).items()
    if arm.get('told')
  }  # fmt: skip
  names = list(dict.fromkeys(x for one in found.values() for x in one))
  rows = [
    [named(known[n]), *(numbers.any_value(one.get(x)) for x in names)]
    for n, one in found.items()
  ]
  return table(['arm', *names], rows, 'other readings') if rows else None


def power(told: Mapping, m: Measure) -> Markup:
  """A line for each number of pairs, a column for each level."""
  rows = told.get('rows', ())
  levels = sorted({row['alpha'] for row in rows}, reverse=True)
  found = {(row['pairs'], row['alpha']): row.get('smallest') for row in rows}
  lines = [
    [f'{n} pairs', *(m.show(found.get((n, level))) for level in levels)]
    for n in sorted({row['pairs'] for row in rows})
  ]
  heads = ['', *(f'at level {level:.3g}' for level in levels)]
  return table(heads, lines, 'power')


def arm_of(arm: Mapping, measure: str) -> Mapping:
  return arm.get('measures', {}).get(measure, {})


def strong(text: str) -> Markup:
  return element('strong', text)


def warned(n: int | None) -> str:
  """A count one hopes to be 0."""
  text = numbers.number(n, 0)
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
  return ' + '.join(numbers.number(n, 0) for n in failed or [None])


def _run(run: Mapping | None, name: str, m: Measure) -> str:
  """The value of one run, and what was wrong with it."""
  if run is None:
    return ''
  if run.get('failed'):
    return element('em', 'failed')
  value = m.show(run.get('measures', {}).get(name))
  return element('em', value, '†') if run.get('unstable') else value
