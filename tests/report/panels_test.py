"""Panels of pictures: so many, one scale if asked for, legends outside."""

import numpy as np
from matplotlib.figure import Figure
from PIL import Image

from agentrl.report import panels


def drawn(**settings) -> tuple[Figure, list]:
  figure, axes = panels.draw(2, **settings)
  for i, one in enumerate(axes):
    one.plot([0, 1], [0, 1 + i], label='a line')
  return figure, axes


def test_a_scale_of_their_own_or_one_for_both():
  for share_y in (False, True):
    _, axes = drawn(share_y=share_y)
    assert (axes[0].get_ylim() == axes[1].get_ylim()) == share_y


def test_the_picture_is_as_wide_as_its_panels_and_the_legend_beside_them(
  tmp_path,
):
  figure, axes = drawn(height=3.0)
  panels.write(figure, tmp_path / 'bare.png')
  handles, labels = axes[0].get_legend_handles_labels()
  panels.explain(figure, handles, labels, 'lines')
  panels.write(figure, tmp_path / 'with.png')
  bare, whole = (
    np.asarray(Image.open(tmp_path / f'{x}.png').convert('L'), np.int32)
    for x in ('bare', 'with')
  )
  width = round(100 * (panels.LEGEND + 2 * panels.WIDTH))
  assert bare.shape == whole.shape == (300, width)
  # The legend took room from the panels, on the right.
  assert (whole[:, -120:] < 200).sum() > 100
  assert axes[1].get_position().x1 < 0.95
