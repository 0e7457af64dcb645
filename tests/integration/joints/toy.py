"""Networks that are tables, and batches of their messages.

A token is cell · choices + choice: the table's row that it was drawn from,
and what was drawn. What a network says of a token depends on nothing else.
"""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl import mesh
from agentrl.types import Batch, Module, Outputs, Rows, Status, Turns
from tests.integration.joints.reference import Trajectory


def speaker(cells: int, choices: int, dtype=jnp.float64) -> Module:
  """A language model: logits [cells, choices]."""

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    cell, choice = jnp.divmod(rows.tokens, choices)
    logp = jax.nn.log_softmax(params['table'][cell])
    pick = jnp.take_along_axis(logp, choice[..., None], -1)[..., 0]
    p = jnp.exp(logp)
    every = {
      'logp': pick,
      'entropy': -jnp.sum(p * logp, -1),
      'sum_sq_prob': jnp.sum(p * p, -1),
    }
    seen = rows.sampled | (rows.weight != 0)
    return Outputs(**{name: jnp.where(seen, every[name], 0) for name in needs})

  spec = mesh.Param((cells, choices), (None, None), _normal, dtype)
  return Module({'table': spec}, apply)


def critic(cells: int, choices: int, dtype=jnp.float64) -> Module:
  """One value for each cell."""

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    return Outputs(value=params['value'][rows.tokens // choices][..., None])

  return Module({'value': mesh.Param((cells,), (None,), _normal, dtype)}, apply)


def _normal(key, shape):
  return jax.random.normal(key, shape)


def lay(
  story: list[Trajectory], choices: int, t: int, dtype=np.float64
) -> Batch:
  """A row of t for each trajectory: before each message a token it answers."""
  b, k = len(story), max(len(x.messages) for x in story)
  rows = Rows(
    tokens=np.zeros((b, t), np.int32),
    seg=np.full((b, t), -1, np.int32),
    traj=np.full((b, t), -1, np.int32),
    turn=np.full((b, t), -1, np.int32),
    span=np.zeros((b, t), np.int8),
    sampled=np.zeros((b, t), bool),
    weight=np.zeros((b, t), dtype),
    logp=np.zeros((b, t), dtype),
    version=np.zeros((b, t), np.int32),
  )
  valid = np.zeros((b, k), bool)
  terms = {
    name: np.zeros((b, k), dtype)
    for name in ('env', 'tokens', 'entropy', 'invalid')
  }
  for i, x in enumerate(story):
    valid[i, : len(x.messages)] = True
    terms['env'][i, : len(x.messages)] = x.earned
    terms['invalid'][i, : len(x.messages)] = x.invalid
    terms['tokens'][i, : len(x.messages)] = [
      len(message) for message in x.messages
    ]
    at = 0
    for turn, message in enumerate(x.messages):
      rows.turn[i, at] = turn - 1  # the world answers the turn before
      at += 1
      for token in message:
        rows.tokens[i, at] = token.cell * choices + token.choice
        rows.turn[i, at] = turn
        rows.span[i, at] = token.span
        rows.sampled[i, at] = True
        rows.weight[i, at] = 1
        rows.logp[i, at] = token.logp
        at += 1
    rows.seg[i, :at] = 0
    rows.traj[i, :at] = i
  zero = np.zeros(b, np.int32)
  ids = {'group': np.array([x.group for x in story], np.int32)}
  ids |= dict.fromkeys(('task', 'arm', 'source', 'age'), zero)
  outcome = np.array([x.outcome for x in story], dtype)
  return Batch(
    rows=rows,
    turns=Turns(
      reward=np.zeros((b, k), dtype),
      terms=terms,
      scored=valid.copy(),
      valid=valid,
      state=np.zeros((b, k), np.int32),
      node=np.arange(b * k, dtype=np.int32).reshape(b, k),
      agent=np.zeros((b, k), np.int32),
    ),
    ids=ids,
    outcome=outcome,
    status=np.where(outcome > 0.5, Status.SOLVED, Status.FAILED).astype(
      np.int32
    ),
  )
