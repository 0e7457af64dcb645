"""Roles that are tables: the outputs of a token are its entry."""

import jax.numpy as jnp
import numpy as np

from agentrl import optimizer
from agentrl.signal.base import Context
from agentrl.types import Module, Outputs
from tests import batches, states

STORY = batches.story(seed=51, groups=2, members=3)
LAID = batches.lay(STORY, 'turn', padding=2)
ROWS = LAID.batch.rows
SHAPE = ROWS.tokens.shape
WORDS, HEADS, CLIP = 9, 3, 0.04


def apply(params, rows, needs):
  """What the token's entry of the table says, of whatever is asked."""
  said = params['table'][rows.tokens]
  return Outputs(**{n: said if n == 'value' else said[..., 0] for n in needs})


def table(seed):
  table = np.random.default_rng(seed).normal(size=(WORDS, HEADS))
  return {'table': jnp.asarray(table, jnp.float32)}


ROLES = ('policy', 'value', 'reference')
MODULE = Module({}, apply)
RULE = optimizer.OptimizerConfig(
  lr=0.05
)  # values leave the clip's width at once
CONTEXT = Context(dict.fromkeys(ROLES, MODULE), {'value': RULE}, SHAPE[0])


def make_state():
  params = {role: table(i) for i, role in enumerate(ROLES)}
  opt = {'value': optimizer.init(RULE, params['value'])}
  return states.state(params=params, opt=opt)
