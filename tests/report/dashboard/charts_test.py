"""Axes of the pictures: units, and labels that differ."""

import re

import numpy as np
import pytest

from agentrl.report import svg
from agentrl.report.dashboard import charts as charts_lib
from agentrl.report.dashboard.curves import Piece


def ticks(*y: float) -> list[str]:
  """Texts of a picture's vertical axis, its unit last where it has one."""
  look = svg.Look('run', 'method', 0, 0)
  piece = Piece('rl', np.arange(float(len(y))), np.array(y))
  drawn = [charts_lib.Curve(look, [piece], [], None)]
  text = charts_lib.chart('metric', drawn, 1, 'step')
  return re.findall('<text[^>]*>([^<]*)<', text.partition('>step<')[2])


@pytest.mark.parametrize(
  ('most', 'unit'),
  [
    (0, ''),
    (0.5, ''),
    (9000, ''),
    (25_000, 'k'),
    (3e-4, '1e−4'),
    (2e-3, '1e−3'),
    (5e7, 'M'),
  ],
)
def test_units(most, unit):
  found = ticks(0, -most)
  if unit.startswith('1e'):
    assert found.pop() == unit
    unit = ''
  for x in found:
    assert re.fullmatch(rf'−?[0-9.]{{1,5}}{unit}|0', x)


def test_labels_tell_neighbours_apart():
  assert ticks(0, 1) == ['0.0', '0.5', '1.0']
  assert ticks(-0.02, 0.0) == ['−0.020', '−0.015', '−0.010', '−0.005', '0.000']
  assert ticks(0, 10_000) == ['0', '5k', '10k']
  assert len(set(ticks(1, 1.00001))) == len(ticks(1, 1.00001)) > 2
