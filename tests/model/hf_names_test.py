"""Where parameters stand in checkpoints of others."""

import dataclasses
import math

import pytest

from agentrl import mesh
from agentrl.model import hf_names
from agentrl.nn import transformer
from tests import errors

SHAPE = transformer.DecoderConfig(
  vocab=11,
  width=8,
  layers=3,
  heads=4,
  kv_heads=2,
  head_dim=6,
  mlp=16,
  tied=False,
)


@pytest.mark.parametrize(
  'more', [{}, {'bias': True}, {'experts': 2, 'top_k': 1}]
)
def test_every_number_stands_in_one_tensor_of_theirs(more):
  c = dataclasses.replace(SHAPE, **more)
  entries = hf_names.entries(c)
  names = [name for entry in entries for name, _ in entry.pieces()]
  assert len(names) == len(set(names))
  assert 'model.layers.2.self_attn.q_proj.weight' in names
  expert = 'model.layers.0.mlp.experts.1.up_proj.weight'
  assert (expert in names) == ('experts' in more)
  held = sum(math.prod(entry.tail) for entry in entries for _ in entry.pieces())
  assert held == mesh.count(transformer.specs(c))


def test_learned_positions_belong_to_no_family():
  with errors.raises(ValueError, 'model.positions 4'):
    hf_names.entries(dataclasses.replace(SHAPE, positions=4))
