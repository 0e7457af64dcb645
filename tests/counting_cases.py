"""A batch some of whose trajectories do not count, and the batch without them.

Both have the same shapes: without them, their places hold nothing. What they
say is far off everything else, so that whoever listens to it is found out.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh, optimizer, registry
from agentrl.env import proposals
from agentrl.lab.papers.dose import (  # noqa: F401  register
  degraded_truth,
  prm_persistence,
)
from agentrl.learner import update
from agentrl.nn.vocab_blocks import HeadConfig
from agentrl.ops import counting
from agentrl.signal.base import Context
from agentrl.types import Batch, Credit, Module, Outputs, Rows
from tests import batches

FAR = 40.0
# Of groups of 4, 4, 4 and 2, one of each of the first three; the second group
# agrees but for the one that does not count.
OFF = {2: FAR, 5: -FAR, 9: FAR}  # and its outcome
# An environment broke, so that all was left out; or only a judge failed.
KINDS = ('left_out', 'unjudged')
COUNTS = (
  'tokens',
  'entropy',
  'invalid',
  'switch',
  'calls',
  'faults',
  'answers',
)
TERMS = ('env', 'progress', *proposals.COLUMNS, *COUNTS)
GOALS = ('value', 'low', 'high', 'switch')
SIGNALS = (
  'old_logp',
  'ref_logp',
  'old_entropy',
  'old_sum_sq_prob',
  'implicit_prm.token',
  *GOALS,
)
WORDS = 9  # tokens of batches.lay


class Case(NamedTuple):
  batch: Batch
  signals: dict
  credit: Credit


def _story() -> batches.Story:
  """The last trajectory of the story gets company."""
  s = batches.story(seed=5, groups=3, members=4, turns=3, longest=3)
  more = {k: [*v, v[1]] for k, v in s.token.items()}
  fields = {
    name: [*x, x[1]] for name, x in s._asdict().items() if name != 'token'
  }
  outcome = [1, 0, 1, 0, *[0.7] * 4, 0, 0.2, 1, 1, 0.2, 1]
  fields |= {'group': [*s.group, 3], 'outcome': outcome}
  return batches.Story(**fields, token=more)


STORY = _story()
B = len(STORY.group)
off = np.isin(np.arange(B), list(OFF))


def make(kind: str) -> Case:
  """kind: one of KINDS, or 'without'."""
  r = np.random.default_rng(3)
  batch = batches.lay(STORY, 'history').batch
  rows, valid = batch.rows, batch.turns.valid
  at, empty = np.isin(rows.traj, list(OFF)), kind == 'without'

  def table(low):
    return np.where(off[:, None], FAR, r.uniform(low, 1, valid.shape))

  def tokens():
    return np.where(at, FAR, r.uniform(0.1, 1, rows.traj.shape))

  terms = {name: table(0 if name in COUNTS else -1) for name in TERMS}
  terms['switch'] = terms['switch'].round()
  node = np.arange(valid.size, dtype=np.int32).reshape(valid.shape)
  terms['moment'] = np.where(off[:, None], FAR, node).astype(float)
  for first in (0, 4, 8):  # a group's first turn, shared by three of it
    node[first + 1 : first + 3, 0] = node[first, 0]
  there = np.where(at & empty, -1, 0)
  rows = rows.replace(
    traj=np.where(there, -1, rows.traj),
    turn=np.where(there, -1, rows.turn),
    seg=np.where(there, -1, rows.seg),
    sampled=rows.sampled & (there == 0),
    span=r.integers(0, 6, at.shape, dtype=np.int8),
    weight=np.where(at & (kind != 'unjudged'), 0, rows.weight),
  )
  reward = batch.turns.reward
  reward[4:8, 0] += 9.0  # a made-up 0 stands far from what they agree on
  turns = batch.turns.replace(
    reward=np.where(off[:, None], FAR, reward),
    terms=terms,
    node=node,
    valid=valid & ~(off[:, None] & empty),
    scored=valid & ~off[:, None],
  )
  outcome = np.array([OFF.get(i, x) for i, x in enumerate(STORY.outcome)])
  zero = np.zeros(B, np.int32)
  ids = dict.fromkeys(('source', 'age', 'arm', 'role', 'match'), zero)
  batch = batch.replace(
    rows=rows,
    turns=turns,
    ids=batch.ids | ids | {'task': np.arange(B, dtype=np.int32)},
    outcome=outcome,
    readings={'nulled': rows},
  )
  attempted = {
    'task': np.arange(B, dtype=np.int32),
    'outcome': outcome,
    'counts': counting.trajectories(batch),
  }
  batch = batch.replace(attempted=attempted)
  signals = {name: tokens() for name in SIGNALS}
  signals['implicit_prm.step'] = table(-1)
  signals['role_baseline'] = table(-1)
  weight = np.where(at, 0, rows.weight)
  target = {name: tokens() for name in GOALS}
  target |= {f'{name}.weight': weight for name in GOALS}
  credit = Credit(table(-1), tokens() - 0.5, weight, target)
  return jax.tree.map(_narrow, Case(batch, signals, credit))


def _narrow(x):
  """float64 and int64 as the 32 bits that everything runs in."""
  x = np.asarray(x)
  small = {'float64': np.float32, 'int64': np.int32}
  return jnp.asarray(x.astype(small.get(x.dtype.name, x.dtype)))


# ---- networks that are tables of words


def _normal(key, shape):
  return jax.random.normal(key, shape)


def _apply(params, rows: Rows, needs) -> Outputs:
  del needs
  at = params['table'][rows.tokens]
  return Outputs(
    logp=-jax.nn.softplus(at[..., 0]), entropy=at[..., 1] ** 2, value=at
  )


MODULE = Module(
  {'table': mesh.Param((WORDS, 4), (None, None), _normal)},
  _apply,
  head=lambda params: (params['table'], HeadConfig()),
)
ROLES = (
  'policy', 'reference', 'prm', 'critic', 'target', 'value', 'progress',
  'teacher', 'previous', 'reward',
)  # fmt: skip
RULE = optimizer.OptimizerConfig(
  lr=0.1, eps=1.0, max_grad_norm=1e9
)  # the size of a gradient matters


def learner() -> update.Algorithm:
  """With every signal there is, each with a network of its own."""
  size = batches.lay(STORY, 'history').batch.rows.traj.shape[0]
  context = Context(
    dict.fromkeys(ROLES, MODULE), dict.fromkeys(ROLES, RULE), size
  )
  hp = {'signal': {'latent_reward': {'latents': 1}}}  # MODULE has four heads
  wiring = registry.MethodSpec(signal=registry.names('signal'), hp=hp)
  return update.Algorithm.from_spec(wiring, context)
