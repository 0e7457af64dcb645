"""The claims of a comparison: what was said, what was found, the verdict."""

from collections.abc import Mapping

from agentrl.report import numbers as numbers_lib
from agentrl.report import svg
from agentrl.report import tables as tables_lib
from agentrl.report.html import Markup, element, join, note

VERDICTS = {
  'confirmed': '✓',
  'smaller than claimed': '◐',
  'not seen': '○',
  'refuted': '✕',
  'not measured': '–',
}
_CLAIMS = """Each claim was written down before the first run. Confirmed: the
interval of the difference lies wholly on the claimed side of zero; smaller
than claimed: so it does, but wholly below half the claim; refuted: it reaches
zero and stays below half the claim; not seen: these runs cannot tell. In the
small pictures the upright line is zero and the hollow diamond the claim."""


def claims(report: Mapping, known: tables_lib.Looks) -> Markup | None:
  made, others = _judged(report)
  if not made:
    return None

  def cards(some):
    return element(
      'div', *(_claim(c, report, known) for c in some), class_='cards'
    )

  rest = tables_lib.fold('The same claims at the other rates', cards(others))
  return join(note(_CLAIMS), cards(made), rest if others else None)


def _judged(report: Mapping) -> tuple[list[Mapping], list[Mapping]]:
  """Claims at the first one's setting, which is judged, and the others."""
  made = list(report.get('claims', ()))
  first = made[0].get('setting') if made else None
  here = [claim.get('setting') == first for claim in made]
  return (
    [c for c, judged in zip(made, here, strict=True) if judged],
    [c for c, judged in zip(made, here, strict=True) if not judged],
  )


def tally(report: Mapping) -> Markup | None:
  """How many claims came out how."""
  found = [_verdict(claim) for claim in _judged(report)[0]]
  counts = {v: found.count(v) for v in VERDICTS if v in found}
  items = (element('li', _chip(v), f'× {n}') for v, n in counts.items())
  return element('ul', *items, class_='tally') if counts else None


def _verdict(claim: Mapping) -> str:
  return claim.get('verdict') or 'not measured'


def _chip(verdict: str) -> Markup:
  sign = element('span', VERDICTS.get(verdict, '?'), aria_hidden='true')
  style = 'chip v-' + verdict.replace(' ', '-')
  return element('span', sign, ' ', verdict, class_=style)


def _claim(claim: Mapping, report: Mapping, known: tables_lib.Looks) -> Markup:
  m = numbers_lib.measure(claim.get('measure', ''), report.get('measures'))
  found, said = claim.get('found', {}), claim.get('claimed')
  span = svg.reach([0.0, said, *(found.get(k) for k in ('low', 'high'))])
  env = report.get('envs', {}).get(claim.get('env')) or {}
  setting = env.get('settings', {}).get(claim.get('setting')) or {}
  where = [
    env.get('label') or claim.get('env'),
    setting.get('label') or claim.get('setting'),
  ]
  of = element('p', tables_lib.against(claim, known), class_='of')
  return element(
    'article',
    _chip(_verdict(claim)),
    element('p', claim.get('text', ''), class_='text'),
    of if claim.get('arm') and claim.get('baseline') else None,
    _found(found, said, m),
    svg.forest(found, span, said) if found else None,
    element('p', ' · '.join(str(w) for w in where if w), class_='where'),
  )


def _found(
  found: Mapping, said: float | None, m: numbers_lib.Measure
) -> Markup:
  low, high = found.get('low'), found.get('high')
  if found:
    text = [
      tables_lib.strong(m.show(found.get('mean'), sign=True)),
      ' ',
      m.interval(low, high, sign=True),
    ]
    tests = (
      f'{numbers_lib.number(found.get("n"), 0)} pairs, '
      + _equals('p', found.get('p'))
      + ', '
      + _equals('Holm p', found.get('holm'))
    )
  else:
    text, tests = [numbers_lib.NOTHING], None
  told = [('claimed', [m.show(said, sign=True)]), ('found', text)]
  return element(
    'dl',
    element('dt', 'measure'),
    element('dd', m.title),
    *(join(element('dt', name), element('dd', *what)) for name, what in told),
    *((element('dt', 'test'), element('dd', tests)) if tests else ()),
  )


def _equals(name: str, p: float | None) -> str:
  """On one line: the spaces do not break."""
  text = numbers_lib.p_value(p)
  text = f'{name} {text}' if text.startswith('<') else f'{name} = {text}'
  return text.replace(' ', '\N{NO-BREAK SPACE}')
