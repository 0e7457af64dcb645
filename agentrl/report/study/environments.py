"""One environment of a comparison: curves, arms, differences, readings."""

from collections.abc import Mapping
from typing import Any

from agentrl.report import numbers as numbers_lib
from agentrl.report import svg
from agentrl.report import tables as tables_lib
from agentrl.report.html import Markup, element, join, note

_AXES = {'env_steps': 'environment steps', 'tokens': 'tokens'}
_CURVES = (
  'Mean of the runs and its 95% interval; in the legend, success at the end.'
  ' The axis of success begins where the curves are, not always at 0.'
)
_ARMS = """A dot is a run, the bar below them the mean and its 95% interval.
Wall time, environment steps and tokens are of all runs of an arm together."""
_RUNS = """Runs of one seed are a pair; † marks one that was unstable. The
other measures of every run are in report.json."""
_PAIRED = 'An interval is coloured where it does not touch zero.'


def environment(
  env: Mapping, report: Mapping, known: tables_lib.Looks
) -> Markup:
  budget = env.get('budget', {})
  told = [
    f'{numbers_lib.count(budget[k])} {_AXES[k]}'
    for k in _AXES
    if numbers_lib.is_number(budget.get(k))
  ]
  settings = env.get('settings', {})
  return join(
    note('Budget of a run: ' + ', '.join(told) + '.') if told else None,
    *(_setting(n, s, report, known) for n, s in settings.items()),
    None if settings else note('Nothing was measured here yet.'),
  )


def _setting(
  name: str, setting: Mapping, report: Mapping, known: tables_lib.Looks
) -> Markup:
  title = element('h3', setting.get('label') or name)
  if not setting.get('arms'):
    return join(title, note('Nothing was measured here yet.'))
  return join(
    title,
    _curves(setting, known),
    element('h4', 'Arms'),
    _arms(setting, report, known),
    _differences(setting, report, known),
  )


def _curves(setting: Mapping, known: tables_lib.Looks) -> Markup:
  """Methods in one figure; ablations and controls with what they vary."""
  parts = {n: known[n].part for n in setting['arms']}
  methods = [n for n, part in parts.items() if part == 'method']
  others = [n for n, part in parts.items() if part != 'method']
  pairs = [
    {row['arm'], row['baseline']} for row in setting.get('comparisons', ())
  ]
  beside = [n for n in methods if any({n, o} in pairs for o in others)]
  return join(
    note(_CURVES),
    _figure('Methods', methods, setting, known),
    _figure(
      'Ablations and controls, with the arms they are compared with',
      beside + others,
      setting,
      known,
    )
    if others
    else None,
  )


def _figure(
  title: str, names: list[str], setting: Mapping, known: tables_lib.Looks
) -> Markup | None:
  if not names:
    return None
  arms = {n: setting['arms'][n].get('curve', {}) for n in names}
  charts = [
    svg.curves([(known[n], c.get(x)) for n, c in arms.items()], label)
    for x, label in _AXES.items()
  ]
  kept = [chart for chart in charts if chart]
  if not kept:
    return note(f'{title}: no curve was kept.')
  caption = element('figcaption', title)
  legend = _legend(arms, known)
  panels = element('div', *kept, class_='panels')
  return element('figure', caption, legend, panels)


def _legend(curves: Mapping[str, Mapping], known: tables_lib.Looks) -> Markup:
  """Arms by their success at the end, the highest first."""
  ends: dict[str, float | None] = {}
  for name, curve in curves.items():
    rows = [svg.points(curve.get(x), 'mean') for x in _AXES]
    ends[name] = next((r[-1][1] for r in rows if r), None)
  order = sorted(ends, key=lambda n: -1.0 if ends[n] is None else ends[n])
  items = (
    element(
      'li',
      tables_lib.named(known[n]),
      tables_lib.strong(numbers_lib.number(ends[n], 0, scale=100) + '%')
      if numbers_lib.is_number(ends[n])
      else ' no curve',
    )
    for n in reversed(order)
  )
  return element('ul', *items, class_='legend')


def _named(
  report: Mapping, found: Any
) -> list[tuple[str, numbers_lib.Measure]]:
  """The measures of the report, then others that were found, in order."""
  told = report.get('measures', {})
  names = dict.fromkeys([*told, *found])
  return [(name, numbers_lib.measure(name, told)) for name in names]


def _arms(setting: Mapping, report: Mapping, known: tables_lib.Looks) -> Markup:
  found = [
    name for arm in setting['arms'].values() for name in arm.get('measures', {})
  ]
  kept = [(n, m) for n, m in _named(report, found) if n in found]
  if not kept:
    return note('No measure was kept.')
  return join(
    element('h5', kept[0][1].title),
    note(_ARMS),
    tables_lib.arms(setting, *kept[0], known),
    tables_lib.fold(
      'All measures',
      *(tables_lib.summary(setting, n, m, known) for n, m in kept),
    ),
    tables_lib.fold(
      'Every single run',
      note(_RUNS),
      tables_lib.runs(setting, *kept[0], known),
    )
    if any(arm.get('each') for arm in setting['arms'].values())
    else None,
  )


def _differences(
  setting: Mapping, report: Mapping, known: tables_lib.Looks
) -> Markup | None:
  rows = setting.get('comparisons', ())
  kept = [
    (m, [row for row in rows if row['measure'] == n])
    for n, m in _named(report, [row['measure'] for row in rows])
  ]
  shown = [
    join(element('h5', m.title), tables_lib.differences(r, m, known))
    for m, r in kept
    if r
  ]
  if not shown:
    return None
  rest = tables_lib.fold('Differences of the other measures', *shown[1:])
  return join(
    element('h4', 'Paired differences'),
    note(_PAIRED),
    shown[0],
    rest if shown[1:] else None,
  )


def readings(envs: Mapping, known: tables_lib.Looks) -> Markup | None:
  shown = []
  for name, env in envs.items():
    for key, setting in env.get('settings', {}).items():
      found = tables_lib.told(setting, known)
      if found:
        where = (env.get('label') or name, setting.get('label') or key)
        shown.append(join(element('h3', ' · '.join(where)), found))
  return join(*shown) if shown else None
