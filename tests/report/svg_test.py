"""What of the pictures is not a matter of looks."""

import re

import pytest

from agentrl.report import svg
from tests.report import made_up_report


@pytest.mark.parametrize(
  ('low', 'high', 'want'),
  [
    (0, 1, ['0.0', '0.2', '0.4', '0.6', '0.8', '1.0']),
    (0, 15_000, ['0', '5k', '10k', '15k']),
    (-3, 7, ['−2', '0', '2', '4', '6']),
    (2, 3, ['2.0', '2.2', '2.4', '2.6', '2.8', '3.0']),
  ],
)
def test_ticks_are_round_and_inside(low, high, want):
  with svg.in_style():
    figure, on = svg.axes((400, 200), (50, 390, 10, 150))
    on.set(xlim=(low, high), yticks=[])
    svg.label_ticks(on.xaxis)
    text = svg.draw(figure, 'ticks')
  assert re.findall('<text[^>]*>([^<]*)<', text) == want


def test_looks_are_told_apart():
  found = svg.looks(made_up_report.made_up())
  assert list(found) == list(made_up_report.ARMS)
  assert len({look[1:] for look in found.values()}) == len(found)


def test_a_picture_takes_colours_and_font_from_its_page():
  look = svg.Look('<b>"one"', 'control', 3, 1)
  with svg.in_style():
    pictures = []
    for y in (1, 2):
      figure, on = svg.axes((400, 200), (50, 390, 10, 150))
      svg.line(on, [(0, 0), (1, y)], look, f'{look.label}: last')
      pictures.append(svg.draw(figure, look.label))
  text, other = pictures
  assert 'stroke: var(--k3)' in text
  assert not re.search(': #|font|xmlns|xlink|url', text)
  assert '<title>&lt;b&gt;"one": last</title>' in text
  # Pictures of one page share no id, and each finds its own.
  ids = [set(re.findall(r' id="([^"]+)"', x)) for x in pictures]
  assert all(ids)
  assert not ids[0] & ids[1]
  assert set(re.findall('href="#([^"]+)"', other)) == ids[1]
