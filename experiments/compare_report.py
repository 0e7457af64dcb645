"""A comparison as one HTML page: everything in it, nothing loaded, no script.

What the report dict holds is told in experiments/compare.py.
"""

import json
import math
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from experiments import compare_numbers as numbers
from experiments import compare_pictures as pictures
from experiments import compare_tables as tables
from experiments.markup import Markup, element, join

FORMAT = 1
JSON, HTML = 'report.json', 'report.html'
_STYLE = pathlib.Path(__file__).with_suffix('.css')
_VERDICTS = {
  'confirmed': '✓',
  'smaller than claimed': '◐',
  'not seen': '○',
  'refuted': '✕',
  'not measured': '–',
}
_AXES = {'env_steps': 'environment steps', 'tokens': 'tokens'}

_CLAIMS = """Each claim was written down before the first run. Confirmed: the
interval of the difference lies wholly on the claimed side of zero; smaller
than claimed: so it does, but wholly below half the claim; refuted: it reaches
zero and stays below half the claim; not seen: these runs cannot tell. In the
small pictures the upright line is zero and the hollow diamond the claim."""
_CURVES = """Line: mean over the runs of an arm; band: 95% interval of that
mean, which is where the mean of very many such runs is expected. The legend
gives success at the end."""
_ARMS = """A dot is a run, the bar below it the 95% interval of the mean. The
median is the run in the middle; the IQM is the mean of the middle half of the
runs, so that one lucky or broken run moves it little. Wall time, environment
steps and tokens are of all runs of the arm together."""
_PAIRED = """Both arms of a pair share warm start and random keys, so what a
pair has in common cancels in the difference. An interval that does not touch
zero is a difference these runs can tell from chance. P(improvement) is the
chance that a run of the arm, picked at random, has a higher value than one of
the baseline (0.50: no difference). The higher the correlation of the arms, the
more the pairing helped. p is the chance of a difference at least this large
if there were none; Holm p is p corrected for the number of claims that were
tested, because among many tests some succeed by luck."""
_TUNING = """Score over learning rate, on seeds of their own: a dot is a
seed, the line the mean, the ring the rate that was chosen. A best rate at the
edge of the grid means that a better one may lie outside, so the grid was
widened where it could be."""
_POWER = """The smallest true difference that a study of this many pairs finds
four times out of five. A smaller one would mostly be missed: that nothing was
found does not mean that nothing is there."""


def write(report: Mapping, folder: str | os.PathLike[str]) -> None:
  """Writes report.json and report.html, each whole or not at all.

  A number that is not finite is null in report.json, as a missing one is.
  """
  whole = page(report)
  text = json.dumps(_plain(report), indent=2, allow_nan=False) + '\n'
  os.makedirs(folder, exist_ok=True)
  for name, content in ((JSON, text), (HTML, whole)):
    path = os.path.join(folder, name)
    with open(path + '.new', 'w', encoding='utf-8') as f:
      f.write(content)
    os.replace(path + '.new', path)


def page(report: Mapping) -> str:
  """The page, a pure function of the report; what is missing is left out.

  Raises:
    ValueError: if the report is of another format.
  """
  if report.get('format') != FORMAT:
    raise ValueError(
      f'format={report.get("format")!r} of the report is not the {FORMAT} that'
      ' this version draws; run the comparison again with this version'
    )
  report = _present(_plain(report))
  known = pictures.looks(report)
  title = report.get('title') or report.get('name') or 'Comparison'
  envs = report.get('envs', {})
  parts = [
    ('claims', 'Claims', _claims(report, known)),
    ('protocol', 'Protocol', _protocol(report.get('protocol'))),
    *(
      (f'env-{i}', env.get('label') or name, _env(env, report, known))
      for i, (name, env) in enumerate(envs.items())
    ),
    ('tuning', 'Tuning', _tuning(envs, known)),
    ('readings', 'Other readings', _told(envs, known)),
    ('power', 'What could be found', _power(report)),
    ('again', 'Doing it again', _again(report)),
  ]
  parts = [part for part in parts if part[2]]
  body = element(
    'body',
    element('header', *_head(report, title), _contents(parts)),
    element('main', *(_section(*part) for part in parts)),
    element('footer', 'Every number on this page, and the points of the curves,'
            ' are in ', element('a', JSON, href=JSON), ' beside it.'),
  )  # fmt: skip
  return '<!DOCTYPE html>\n' + element('html', _meta(title), body, lang='en')


def _meta(title: str) -> Markup:
  # The policy makes it impossible to load anything, whatever a label says.
  policy = "default-src 'none'; style-src 'unsafe-inline'"
  return element(
    'head',
    element('meta', charset='utf-8'),
    element('meta', http_equiv='Content-Security-Policy', content=policy),
    element('meta', name='viewport',
            content='width=device-width, initial-scale=1'),
    element('meta', name='color-scheme', content='light dark'),
    element('title', title),
    element('style', Markup(_STYLE.read_text(encoding='utf-8'))),
  )  # fmt: skip


def _section(name: str, title: str, content: Markup) -> Markup:
  return element('section', element('h2', title), content, id=name)


def _note(text: str) -> Markup:
  return element('p', ' '.join(text.split()), class_='note')


def _contents(parts: list[tuple[str, str, Markup]]) -> Markup:
  links = (element('a', title, href=f'#{name}') for name, title, _ in parts)
  return element('nav', *links, aria_label='contents')


def _head(report: Mapping, title: str) -> list[Markup | None]:
  question, spent = report.get('question'), report.get('spent', {})
  verdicts = [_verdict(claim) for claim in report.get('claims', ())]
  counts = [(v, verdicts.count(v)) for v in _VERDICTS if v in verdicts]
  chips = [element('li', _chip(v), f'× {n}') for v, n in counts]
  facts = []
  if spent:
    facts.append(f'{numbers.count(spent.get("runs"))} runs')
    facts.append(f'{numbers.count(spent.get("failed"))} failed')
    facts.append(f'{numbers.duration(spent.get("wall_seconds"))} of wall time')
  return [
    element('h1', title),
    element('p', question, class_='question') if question else None,
    element('ul', *chips, class_='tally') if chips else None,
    element('p', ' · '.join(facts), class_='spent') if facts else None,
  ]


def _verdict(claim: Mapping) -> str:
  return claim.get('verdict') or 'not measured'


def _chip(verdict: str) -> Markup:
  sign = element('span', _VERDICTS.get(verdict, '?'), aria_hidden='true')
  style = 'chip v-' + verdict.replace(' ', '-')
  return element('span', sign, ' ', verdict, class_=style)


def _claims(report: Mapping, known: tables.Looks) -> Markup | None:
  claims = report.get('claims', ())
  if not claims:
    return None
  return join(
    _note(_CLAIMS),
    element('div', *(_claim(c, report, known) for c in claims), class_='cards'),
  )


def _claim(claim: Mapping, report: Mapping, known: tables.Looks) -> Markup:
  m = numbers.measure(claim.get('measure', ''), report.get('measures'))
  found, said = claim.get('found', {}), claim.get('claimed')
  span = pictures.reach([0.0, said, *(found.get(k) for k in ('low', 'high'))])
  env = report.get('envs', {}).get(claim.get('env')) or {}
  setting = env.get('settings', {}).get(claim.get('setting')) or {}
  where = [env.get('label') or claim.get('env'),
           setting.get('label') or claim.get('setting')]  # fmt: skip
  of = element('p', tables.against(claim, known), class_='of')
  return element(
    'article',
    _chip(_verdict(claim)),
    element('p', claim.get('text', ''), class_='text'),
    of if claim.get('arm') and claim.get('baseline') else None,
    _found(found, said, m),
    pictures.forest(found, span, said) if found else None,
    element('p', ' · '.join(str(w) for w in where if w), class_='where'),
  )


def _found(found: Mapping, said: float | None, m: numbers.Measure) -> Markup:
  low, high = found.get('low'), found.get('high')
  if found:
    text = [tables.strong(m.show(found.get('mean'), sign=True)), ' ',
            m.interval(low, high, sign=True)]  # fmt: skip
    tests = (f'{numbers.number(found.get("n"), 0)} pairs, '
             + _equals('p', found.get('p')) + ', '
             + _equals('Holm p', found.get('holm')))  # fmt: skip
  else:
    text, tests = [numbers.NOTHING], None
  told = [('claimed', [m.show(said, sign=True)]), ('found', text)]
  return element(
    'dl',
    element('dt', 'measure'), element('dd', m.title),
    *(join(element('dt', name), element('dd', *what)) for name, what in told),
    *((element('dt', 'test'), element('dd', tests)) if tests else ()),
  )  # fmt: skip


def _equals(name: str, p: float | None) -> str:
  """On one line: the spaces do not break."""
  text = numbers.p_value(p)
  text = f'{name} {text}' if text.startswith('<') else f'{name} = {text}'
  return text.replace(' ', '\N{NO-BREAK SPACE}')


def _pairs(rows: Any) -> Markup:
  return element(
    'dl',
    *(join(element('dt', str(k)), element('dd', str(v))) for k, v in rows),
    class_='facts',
  )


def _protocol(protocol: Any) -> Markup | None:
  if not protocol:
    return None
  return join(_note('Fixed before the first run.'), _pairs(protocol))


def _env(env: Mapping, report: Mapping, known: tables.Looks) -> Markup:
  budget = env.get('budget', {})
  told = [f'{numbers.count(budget[k])} {_AXES[k]}' for k in _AXES
          if numbers.is_number(budget.get(k))]  # fmt: skip
  settings = env.get('settings', {})
  return join(
    _note('Budget of a run: ' + ', '.join(told) + '.') if told else None,
    *(_setting(n, s, report, known) for n, s in settings.items()),
    None if settings else _note('Nothing was measured here yet.'),
  )


def _setting(
  name: str, setting: Mapping, report: Mapping, known: tables.Looks
) -> Markup:
  title = element('h3', setting.get('label') or name)
  if not setting.get('arms'):
    return join(title, _note('Nothing was measured here yet.'))
  return join(
    title,
    _curves(setting, known),
    element('h4', 'Arms'),
    _arms(setting, report, known),
    _differences(setting, report, known),
  )


def _curves(setting: Mapping, known: tables.Looks) -> Markup:
  """Methods in one figure; ablations and controls with what they vary."""
  parts = {n: known[n].part for n in setting['arms']}
  methods = [n for n, part in parts.items() if part == 'method']
  others = [n for n, part in parts.items() if part != 'method']
  pairs = [{row['arm'], row['baseline']}
           for row in setting.get('comparisons', ())]  # fmt: skip
  beside = [n for n in methods if any({n, o} in pairs for o in others)]
  return join(
    _note(_CURVES),
    _figure('Methods', methods, setting, known),
    _figure('Ablations and controls, with the arms they are compared with',
            beside + others, setting, known) if others else None,
  )  # fmt: skip


def _figure(
  title: str, names: list[str], setting: Mapping, known: tables.Looks
) -> Markup | None:
  if not names:
    return None
  arms = {n: setting['arms'][n].get('curve', {}) for n in names}
  charts = [
    pictures.curves([(known[n], c.get(x)) for n, c in arms.items()], label)
    for x, label in _AXES.items()
  ]
  kept = [chart for chart in charts if chart]
  if not kept:
    return _note(f'{title}: no curve was kept.')
  caption = element('figcaption', title)
  legend = _legend(arms, known)
  panels = element('div', *kept, class_='panels')
  return element('figure', caption, legend, panels)


def _legend(curves: Mapping[str, Mapping], known: tables.Looks) -> Markup:
  """Arms by their success at the end, the highest first."""
  ends = {}
  for name, curve in curves.items():
    rows = [pictures.points(curve.get(x), 'mean') for x in _AXES]
    ends[name] = next((r[-1][1] for r in rows if r), None)
  order = sorted(ends, key=lambda n: -1.0 if ends[n] is None else ends[n])
  items = (
    element('li', tables.named(known[n]),
            tables.strong(numbers.number(ends[n], 0, scale=100) + '%')
            if numbers.is_number(ends[n]) else ' no curve')
    for n in reversed(order)
  )  # fmt: skip
  return element('ul', *items, class_='legend')


def _named(report: Mapping, found: Any) -> list[tuple[str, numbers.Measure]]:
  """The measures of the report, then others that were found, in order."""
  told = report.get('measures', {})
  names = dict.fromkeys([*told, *found])
  return [(name, numbers.measure(name, told)) for name in names]


def _arms(setting: Mapping, report: Mapping, known: tables.Looks) -> Markup:
  found = [name for arm in setting['arms'].values()
           for name in arm.get('measures', {})]  # fmt: skip
  kept = [(n, m) for n, m in _named(report, found) if n in found]
  if not kept:
    return _note('No measure was kept.')
  told = dict(_named(report, found))
  return join(
    element('h5', kept[0][1].title),
    _note(_ARMS),
    tables.arms(setting, *kept[0], known),
    tables.fold('All measures', *(tables.summary(setting, n, m, known)
                                  for n, m in kept)),
    tables.runs(setting, known, lambda n: told.get(n) or
                numbers.measure(n, None)),
  )  # fmt: skip


def _differences(
  setting: Mapping, report: Mapping, known: tables.Looks
) -> Markup | None:
  rows = setting.get('comparisons', ())
  kept = [
    (m, [row for row in rows if row['measure'] == n])
    for n, m in _named(report, [row['measure'] for row in rows])
  ]
  shown = [
    join(element('h5', m.title), tables.differences(r, m, known))
    for m, r in kept
    if r
  ]
  if not shown:
    return None
  rest = tables.fold('Differences of the other measures', *shown[1:])
  return join(
    element('h4', 'Paired differences'),
    _note(_PAIRED),
    shown[0],
    rest if shown[1:] else None,
  )


def _tuning(envs: Mapping, known: tables.Looks) -> Markup | None:
  tuned = [(env.get('label') or n, env['tuning']) for n, env in envs.items()
           if env.get('tuning')]  # fmt: skip
  if not tuned:
    return None
  shown = (
    join(
      element('h3', label),
      element('div', *(_tuned(n, t, tuning, known) for n, t in tuning.items()),
              class_='grids'),
      tables.tuned(tuning, known),
    )
    for label, tuning in tuned
  )  # fmt: skip
  return join(_note(_TUNING), *shown)


def _tuned(
  name: str, one: Mapping, tuning: Mapping, known: tables.Looks
) -> Markup:
  scores = [s for t in tuning.values() for _, row in t.get('grid', ())
            for s in row]  # fmt: skip
  look = pictures.look_of(name, known)
  best, widened = one.get('best'), one.get('widened', 0)
  told = [f'best {numbers.rate(best)}' if best else 'no best rate']
  if widened:
    told.append(f'grid widened {widened}×')
  edge = element('em', 'at the edge') if one.get('edge') else None
  drawn = pictures.grid(one, look, pictures.reach(scores))
  return element(
    'figure',
    tables.named(look),
    drawn if one.get('grid') else None,
    element('figcaption', ', '.join(told), ', ' if edge else None, edge),
  )


def _told(envs: Mapping, known: tables.Looks) -> Markup | None:
  shown = []
  for name, env in envs.items():
    for key, setting in env.get('settings', {}).items():
      found = tables.told(setting, known)
      if found:
        where = (env.get('label') or name, setting.get('label') or key)
        shown.append(join(element('h3', ' · '.join(where)), found))
  return join(*shown) if shown else None


def _power(report: Mapping) -> Markup | None:
  told = report.get('power', {})
  if not told.get('rows'):
    return None
  m = numbers.measure(told.get('measure', ''), report.get('measures'))
  sd = told.get('sd')
  more = f' Here: {m.title}; pairs differ with sd {m.show(sd)}.'
  return join(_note(_POWER + more), tables.power(told, m))


def _again(report: Mapping) -> Markup | None:
  commands = report.get('commands', ())
  facts = []
  for name in ('versions', 'hardware', 'seeds'):
    told = report.get(name, {}).items()
    facts += [(f'seeds, {k}' if name == 'seeds' else k, _listed(v))
              for k, v in told]  # fmt: skip
  if not (commands or facts):
    return None
  return join(
    *(element('pre', element('code', c)) for c in commands),
    _pairs(facts) if facts else None,
  )


def _listed(x: Any) -> str:
  if isinstance(x, list | tuple):
    return ', '.join(map(str, x)) or numbers.NOTHING
  return numbers.any_value(x)


def _present(x: Any) -> Any:
  """The same without what is null: a missing part has one form, not two."""
  if isinstance(x, Mapping):
    return {k: _present(v) for k, v in x.items() if v is not None}
  return [_present(v) for v in x] if isinstance(x, list) else x


def _plain(x: Any) -> Any:
  """The same, with null for what JSON has no number for."""
  if isinstance(x, Mapping):
    return {k: _plain(v) for k, v in x.items()}
  if isinstance(x, list | tuple):
    return [_plain(v) for v in x]
  return None if isinstance(x, float) and not math.isfinite(x) else x
