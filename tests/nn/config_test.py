"""Shapes of decoders: which cannot be, and the parameters of those that can."""

import dataclasses

import pytest

from agentrl import mesh
from agentrl.nn import config
from tests import errors

SMALL = config.DecoderConfig(
  vocab=11, width=8, layers=4, heads=4, kv_heads=2, head_dim=6, mlp=16
)


@pytest.mark.parametrize(
  ('fields', 'names'),
  [
    ({'kv_heads': 3}, 'model.heads 4 model.kv_heads 3'),
    ({'head_dim': 5}, 'model.head_dim 5'),
    ({'windows': (2,)}, 'model.layers 4'),
    ({'activation': 'relu'}, 'model.activation relu'),
    ({'attention': 'fast'}, 'model.attention fast'),
    ({'remat': 'all'}, 'model.remat all'),
    ({'dtype': 'int8'}, 'model.dtype int8'),
    ({'experts': 2, 'top_k': 3}, 'model.top_k 3'),
  ],
)
def test_what_cannot_be_is_one_sentence(fields, names):
  with errors.raises(ValueError, names):
    dataclasses.replace(SMALL, **fields)


@pytest.mark.parametrize(
  ('windows', 'period'),
  [
    ((), 1),
    ((0,) * 4, 1),
    ((2, 0, 2, 0), 2),
    ((2, 2, 2, 0), 4),
    ((3,) * 4, 1),
    ((2, 2, 0, 2), 3),
  ],
)
def test_the_period_is_the_shortest_that_repeats(windows, period):
  c = dataclasses.replace(SMALL, windows=windows)
  assert c.period == period
  for i in range(c.layers):
    assert c.window(i) == c.window(i % period)


def test_parameters_are_counted_by_hand():
  attention = 8 * 6 * (4 + 2 + 2) + 4 * 6 * 8
  layer = attention + 3 * 8 * 16 + 2 * 8
  assert mesh.count(config.specs(SMALL)) == 11 * 8 + 4 * layer + 8
  untied = dataclasses.replace(SMALL, tied=False, positions=5)
  assert mesh.count(config.specs(untied)) == (
    2 * 11 * 8 + 5 * 8 + 4 * layer + 8
  )
