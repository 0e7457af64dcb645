"""Figures of matplotlib as SVG inside a page, which sets colours and font."""

import functools
import io
import itertools
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import matplotlib
from markupsafe import Markup, escape
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure

from agentrl.report import numbers as numbers_lib

COLORS = 8  # of the style sheet, for light and dark
MARKERS = ('o', 's', '^', 'D', 'v', 'P')
_DASHES = {'ablation': (0, (3.6, 2.3)), 'control': (0, (0.5, 2.3))}
_NAMES = (*(f'k{i}' for i in range(COLORS)), 'muted', 'rule', 'page', 'ink')
# matplotlib knows no CSS variables: each has a colour that stands for it.
VARIABLE = {name: f'#fe{i:02x}ed' for i, name in enumerate(_NAMES)}
_RC = {
  'axes.axisbelow': True,
  'axes.facecolor': 'none',
  'axes.grid': True,
  'axes.grid.axis': 'y',
  'axes.labelcolor': VARIABLE['muted'],
  'axes.labelpad': 11,
  'axes.labelsize': 'medium',
  **{f'axes.spines.{x}': False for x in ('bottom', 'left', 'right', 'top')},
  'axes.titlelocation': 'left',
  'axes.titlesize': 'medium',
  'figure.dpi': 72,  # so that a point is a unit of the picture
  'figure.facecolor': 'none',
  'font.size': 13,
  'grid.color': VARIABLE['rule'],
  'lines.dash_capstyle': 'round',
  'lines.linewidth': 2.2,
  'lines.markeredgecolor': VARIABLE['page'],
  'lines.markersize': 8,
  'svg.fonttype': 'none',
  'svg.hashsalt': 'picture',  # the same ids every time
  'text.color': VARIABLE['muted'],
  'xtick.bottom': False,
  'xtick.labelcolor': VARIABLE['muted'],
  'xtick.major.pad': 7,
  'ytick.labelcolor': VARIABLE['muted'],
  'ytick.left': False,
}
# matplotlib types the keys as a Literal, which a dict literal loses.
in_style = functools.partial(matplotlib.rc_context, _RC)  # type: ignore[arg-type]


class Look(NamedTuple):
  """One arm's appearance everywhere: told apart also without colour."""

  label: str
  part: str  # method: a line; ablation: dashed; control: dotted
  color: int
  shape: int

  @property
  def style(self) -> str:
    return f'c{self.color} {self.part}'

  @property
  def ink(self) -> str:
    return VARIABLE[f'k{self.color}']


def looks(report: Mapping) -> dict[str, Look]:
  """Gives each arm a look: methods' colours from the front, others' back."""
  parts, labels = {}, {}
  for env in report.get('envs', {}).values():
    for setting in env.get('settings', {}).values():
      for name, arm in setting.get('arms', {}).items():
        parts.setdefault(name, arm.get('part') or 'method')
        labels.setdefault(name, arm.get('label') or name)
  out, number = {}, {True: itertools.count(), False: itertools.count()}
  for name, part in parts.items():
    own = part == 'method'
    i = next(number[own])
    color = i % COLORS if own else COLORS - 1 - i % COLORS
    out[name] = Look(labels[name], part, color, i % len(MARKERS))
  return out


def reach(values: Sequence[float | None]) -> tuple[float, float]:
  """Returns the least interval with all numbers in it, a little wider."""
  finite = [v for v in values if numbers_lib.is_number(v)] or [0.0]
  low, high = min(finite), max(finite)
  room = 0.06 * (high - low) or 0.5
  return low - room, high + room


def axes(
  size: tuple[int, int], box: tuple[int, int, int, int]
) -> tuple[Figure, Axes]:
  """Draws a figure of size [wide, tall], axes at left, right, top, bottom."""
  wide, tall = size
  left, right, top, bottom = box
  figure = Figure(figsize=(wide / 72, tall / 72))
  place = left / wide, 1 - bottom / tall
  extent = (right - left) / wide, (bottom - top) / tall
  return figure, figure.add_axes((*place, *extent))


def label_ticks(axis: Axis, most: int = 5) -> None:
  """Labels round ticks within the limits: thousands are k, a tiny unit apart.

  As many digits as tell neighbours apart.
  """
  axis.set_major_locator(ticker.MaxNLocator(most, steps=[1, 2, 5, 10]))
  large = max(map(abs, axis.get_view_interval())) >= 1e4
  plain = ticker.ScalarFormatter(useOffset=False)
  plain.set_powerlimits((-3, 4))
  axis.set_major_formatter(ticker.EngFormatter(sep='') if large else plain)


def line(
  on: Axes,
  points: Sequence[Sequence[float]],
  look: Look,
  title: str = '',
  **style,
) -> None:
  """Draws a line through points [n, 2]; its title shows under the pointer."""
  on.plot(
    *zip(*points, strict=True),
    color=look.ink,
    linestyle=_DASHES.get(look.part, '-'),
    solid_capstyle='round',
    clip_on=False,
    gid=f'line|{title}',
    **{'marker': MARKERS[look.shape], 'markevery': [-1]} | style,
  )


def band(on: Axes, x, low, high, look: Look) -> None:
  on.fill(
    [*x, *reversed(x)],
    [*low, *reversed(high)],
    facecolor=look.ink,
    alpha=0.11,
    linewidth=0,
  )


def draw(figure: Figure, label: str, style: str = 'chart') -> Markup:
  """Returns the figure as an element of a page; call it within in_style().

  The page is HTML, so that name spaces and the font go; an id is of this
  picture only, and a clip that cuts nothing is dropped.
  """
  buffer = io.StringIO()
  nothing = dict.fromkeys(('Creator', 'Date', 'Format', 'Type'))
  figure.savefig(buffer, format='svg', metadata=nothing)
  text = re.sub(r'\s+', ' ', buffer.getvalue())
  mark = f'{zlib.crc32(f"{label}{text}".encode()):x}'
  (box,) = re.findall(r'viewBox="([^"]*)"', text)[:1]
  text = re.sub(r'^.*?<svg[^>]*>|</svg>\s*$', '', text)
  for pattern, new in (
    (r'<defs> <style.*?</style> </defs>', ''),
    (r'<clipPath.*?</clipPath>', ''),
    (r'<defs>\s*</defs>', ''),
    (r' clip-path="[^"]*"| xmlns\S*="[^"]*"', ''),
    (r'font[a-z-]*: [^;"]*;? ?', ''),
    (r"""<g id=(["'])line\|(.*?)\1>""", r'<g class="line"><title>\2</title>'),
    (r"""<g id=(["']).*?\1""", '<g'),
    (' xlink:href="#', f' href="#{mark}-'),
    (' id="', f' id="{mark}-'),
    (r'#fe(\w\w)ed', lambda m: f'var(--{_NAMES[int(m[1], 16)]})'),
  ):
    text = re.sub(pattern, new, text)
  return Markup(
    f'<svg class="{style}" viewBox="{box}" role="img"'
    f' aria-label="{escape(label)}"><title>{escape(label)}</title>{text}</svg>'
  )


def share(x: float, span: tuple[float, float]) -> float:
  """Returns the part of the span, 0 at its low end and 1 at its high one."""
  low, high = span
  return (x - low) / ((high - low) or 1.0)
