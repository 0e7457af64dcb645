"""Confidences in messages: read, and not read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrl.text import confidence


@pytest.mark.parametrize(
  ('message', 'value'),
  [
    ('<answer>4</answer><confidence>0.8</confidence>', 0.8),
    ('<confidence> .25\n</confidence><answer>4</answer>', 0.25),
    ('<confidence>1</confidence>', 1),
    ('<confidence>1.0</confidence>', 1),
    ('<confidence>0</confidence>', 0),
    ('<think>hm</think><confidence>.5</confidence>', 0.5),
    ('<answer>4</answer>', 0),
    ('', 0),
    ('<confidence></confidence>', 0),
    ('<confidence>.</confidence>', 0),
    ('<confidence>1.5</confidence>', 0),
    ('<confidence>8</confidence>', 0),
    ('<confidence>80%</confidence>', 0),
    ('<confidence>-0.5</confidence>', 0),
    ('<confidence>nan</confidence>', 0),
    ('<confidence>1e-1</confidence>', 0),
    ('<confidence>٠.٥</confidence>', 0),
    ('<confidence>.5', 0),
    ('<think><confidence>.5</confidence></think>', 0),
    ('<confidence>.5</confidence><confidence>.5</confidence>', 0),
    ('<confidence>0.' + '9' * 5000 + '</confidence>', 0),
  ],
)
def test_one_number_from_0_to_1_counts(message, value):
  assert confidence.read(message) == value


@given(st.integers(0, 1000))
def test_what_is_written_is_read(thousandths):
  c = thousandths / 1000
  assert confidence.read(f'Yes.{confidence.write(c)}') == pytest.approx(c)


def test_the_rule_shows_one_that_is_read():
  assert confidence.read(confidence.RULE) == 0.8
