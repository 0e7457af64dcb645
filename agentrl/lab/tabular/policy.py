"""Tabular policies: modules that the library's learner trains.

A turn's message has M tokens, each one of A. The first is the action, what
follows changes nothing. A cell of the table is a state of the world with what
of the message matters so far, and a token's number says cell and choice:

  token = cell A + choice,   log π(token) = log softmax(table[cell])[choice]
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from agentrl import mesh
from agentrl.lab.tabular.mdp import MDP
from agentrl.types import (
  SAMPLED,
  Array,
  Batch,
  Module,
  Outputs,
  Rows,
  Status,
  Turns,
)


class TablePolicy(NamedTuple):
  """Sizes of a policy's table."""

  states: int  # X, of all tasks together
  actions: int  # A
  tokens: int  # M, of a message

  @property
  def cells(self) -> int:
    return self.states * (1 + (self.tokens - 1) * self.actions)


def cells(table: TablePolicy, state: Array, action: Array) -> Array:
  """Returns the cell of every token of a message: [..., M] i32.

  Args:
    state, action: [...] i32
  """
  later = jnp.arange(1, table.tokens)
  later = jnp.broadcast_to(later, (*action.shape, later.size))
  of = 1 + (later - 1) * table.actions + action[..., None]
  of = jnp.concatenate([jnp.zeros_like(action)[..., None], of], axis=-1)
  return state[..., None] * (table.cells // table.states) + of


def probabilities(table: TablePolicy, logits: Array) -> Array:
  """Returns action probabilities of the policy in every state: [X, A]."""
  return jax.nn.softmax(logits[:: table.cells // table.states])


def policy(table: TablePolicy, heads: int = 0) -> Module:
  """Builds a policy, a PRM or a reference; with value heads if asked for."""
  shape = table.cells, table.actions
  specs = {'table': mesh.Param(shape, (None, None), _zeros)}
  specs |= critic(table, heads).specs if heads else {}

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    out = {}
    wanted = rows.sampled | (rows.weight != 0)
    cell, choice = jnp.divmod(rows.tokens, table.actions)
    logp = jax.nn.log_softmax(params['table'][cell])
    p = jnp.exp(logp)
    if 'logp' in needs:
      pick = jnp.take_along_axis(logp, choice[..., None], -1)[..., 0]
      out['logp'] = jnp.where(wanted, pick, 0)
    if 'entropy' in needs:
      out['entropy'] = jnp.where(wanted, -jnp.sum(p * logp, -1), 0)
    if 'sum_sq_prob' in needs:
      out['sum_sq_prob'] = jnp.where(wanted, jnp.sum(p * p, -1), 0)
    if 'value' in needs:
      out['value'] = params['value'][cell]
    return Outputs(**out)

  return Module(specs, apply)


def critic(table: TablePolicy, heads: int) -> Module:
  """Returns the values of every cell, before the token is chosen."""

  def apply(params, rows: Rows, needs: tuple[str, ...]) -> Outputs:
    return Outputs(value=params['value'][rows.tokens // table.actions])

  shape = table.cells, heads
  return Module({'value': mesh.Param(shape, (None, None), _zeros)}, apply)


def _zeros(key, shape):
  return jnp.zeros(shape)


class Trajectories(NamedTuple):
  """B trajectories of K turns."""

  state: Array  # [B, K + 1] i32
  action: Array  # [B, K] i32
  token: Array  # [B, K, M] i32
  valid: Array  # [B, K] bool


def play(
  world: MDP, table: TablePolicy, logits, task, turns: int, key
) -> Trajectories:
  """Plays the tasks [B] with the policy."""

  def step(state, key):
    say, slips, other = jax.random.split(key, 3)
    first = cells(table, state, jnp.zeros_like(state))[..., :1]
    keys = jax.random.split(say)
    action = jax.random.categorical(keys[0], logits[first[:, 0]])
    cell = cells(table, state, action)
    rest = jax.random.categorical(keys[1], logits[cell[:, 1:]])
    token = jnp.concatenate([action[:, None], rest], axis=1)
    random = jax.random.randint(other, action.shape, 0, table.actions)
    slipped = jax.random.uniform(slips, action.shape) < world.slip
    done = jnp.where(slipped, random, action)
    after = world.next[state, done]
    return after, (state, action, cell * table.actions + token)

  keys = jax.random.split(key, turns)
  last, (state, action, token) = jax.lax.scan(step, world.start[task], keys)
  state = jnp.swapaxes(jnp.concatenate([state, last[None]]), 0, 1)
  action, token = (jnp.swapaxes(x, 0, 1) for x in (action, token))
  return Trajectories(state, action, token, ~world.over[state[:, :-1]])


def batch(
  world: MDP, table: TablePolicy, trajs: Trajectories, logits, task, truth
) -> Batch:
  """Makes the learner's batch: a row for each turn, rewards still to be given.

  Args:
    truth: [B, K] f32, the exact advantage of every turn
  """
  chex.assert_rank([trajs.state, trajs.token, task, truth], [2, 3, 1, 2])
  b, k = trajs.valid.shape
  solved = world.won[trajs.state[:, -1]].astype(jnp.float32)
  before, after = trajs.state[:, :-1], trajs.state[:, 1:]
  log = jax.nn.log_softmax(logits)[trajs.token // table.actions]
  terms = {
    'env': world.won[after],
    'tokens': jnp.full((b, k), table.tokens),
    'entropy': jnp.mean(-jnp.sum(jnp.exp(log) * log, -1), -1),
    'invalid': jnp.zeros((b, k)),
    'progress': world.potential[after] - world.potential[before],
    'truth': truth,
  }
  terms = {n: jnp.where(trajs.valid, x, 0.0) for n, x in terms.items()}
  zero = jnp.zeros(b, jnp.int32)
  ids = {'task': task, 'group': task}
  ids |= dict.fromkeys(('arm', 'source', 'age'), zero)
  return Batch(
    rows=rows(trajs, log, table.actions),
    turns=Turns(
      reward=jnp.zeros((b, k)),
      terms=terms,
      scored=trajs.valid,
      valid=trajs.valid,
      state=before,
      node=jnp.arange(b * k, dtype=jnp.int32).reshape(b, k),
      agent=jnp.zeros((b, k), jnp.int32),
    ),
    ids=ids,
    outcome=solved,
    sampled=sampled(table, trajs),
    status=jnp.where(solved > 0, Status.SOLVED, Status.TURN_LIMIT),
  )


def sampled(table: TablePolicy, trajs: Trajectories) -> dict[str, Array]:
  """Returns counts of the batch, see types.SAMPLED."""
  steps = jnp.sum(trajs.valid)
  counts = trajs.valid.shape[0], table.tokens * steps, steps
  arrays = (jnp.asarray(x, jnp.int32) for x in counts)
  return dict(zip(SAMPLED, arrays, strict=True))


def rows(trajs: Trajectories, log: Array, actions: int) -> Rows:
  """Makes a row for each turn that happened, padding for the others.

  Args:
    log: [B, K, M, A] f32, log-probs of what could have been said
  """
  b, k, m = trajs.token.shape
  here = jnp.broadcast_to(trajs.valid[..., None], (b, k, m))
  traj, turn = jnp.indices((b, k, m), dtype=jnp.int32)[:2]
  logp = jnp.take_along_axis(log, trajs.token[..., None] % actions, -1)[..., 0]
  fields = Rows(
    tokens=trajs.token,
    seg=jnp.where(here, 0, -1),
    traj=jnp.where(here, traj, -1),
    turn=jnp.where(here, turn, -1),
    span=jnp.zeros((b, k, m), jnp.int8),
    sampled=here,
    weight=here.astype(jnp.float32),
    logp=jnp.where(here, logp, 0),
    version=jnp.zeros((b, k, m), jnp.int32),
  )
  return jax.tree.map(lambda x: x.reshape(b * k, m), fields)
