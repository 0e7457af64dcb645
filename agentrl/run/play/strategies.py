"""Strategies of a language policy in a game, and how good they are, exactly.

The policy is read, not sampled: at every information set, the log-prob of each
move's message, all in one batch of prompts.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.env.jit.games import base, tree
from agentrl.env.jit.games.tree import GameTree
from agentrl.learner import policies
from agentrl.learner.algorithm import POLICY
from agentrl.model import microbatch
from agentrl.rollout import jit_context, jit_sizes
from agentrl.rollout import record as record_lib
from agentrl.run.experiment import Experiment
from agentrl.run.play import demonstrations
from agentrl.types import PyTree


class Strategy(NamedTuple):
  """What a policy does at I information sets."""

  moves: np.ndarray  # [I, A] f64  rows sum to 1, 0 where a move is illegal
  legal: np.ndarray  # [I] f64  chance that a message names a legal move


def reader(s: Experiment) -> Callable[[PyTree], dict[str, float]] | None:
  """Returns (full parameters of the policy) -> how good it is.

  Its exploitability, and its pay against every fixed opponent of the rules.
  None where that is not exact: no game is played, its tree is large, several
  policies learn it, or a turn reads more than its own observation
  (rollout.history, window).
  """
  players = s.algorithm.players
  if policies.learning(s.algorithm) != (POLICY,):
    return None
  env = s.world.env if isinstance(s.world, jit_sizes.TokenizedEnv) else None
  if not isinstance(env, base.Match | base.Against) or not env.rules.solvable:
    return None
  assert isinstance(s.plan, jit_sizes.RolloutSizes)
  if s.plan.history != 'turn' or s.plan.window > 1:
    return None
  game, rules = tree.build(env.rules), env.rules
  read, opponents = strategy(s, game), dict[str, np.ndarray]()
  if isinstance(rules, base.TellsOpponents):
    for name, player in rules.opponents.items():
      opponents[name] = tree.tabulated(game, rules, player)

  def measure(params: PyTree) -> dict[str, float]:
    played = read(params if len(players) == 1 else params[POLICY])
    return {
      'eval/exploitability': tree.exploitability(game, played.moves),
      'eval/value_first_seat': float(tree.values(game, played.moves)[0]),
      'eval/legal': float(np.mean(played.legal)),
      **{
        f'eval/pay_against/{name}': tree.pay(game, played.moves, moves)
        for name, moves in opponents.items()
      },
    }

  return measure


def strategy(s: Experiment, game: GameTree) -> Callable[[PyTree], Strategy]:
  """Returns (full parameters) -> the policy's strategy, at temperature 1.

  p(a) is the chance of the very message that names a; the rest of the chance
  goes where c.env.illegal sends it: to all legal moves alike, or it gives the
  match up, and p is then the chance among messages that name a legal move.
  """
  world, plan = s.world, s.plan
  assert isinstance(world, jit_sizes.TokenizedEnv)
  assert isinstance(world.env, base.Match | base.Against)
  i, a = game.legal.shape
  tokens, length = demonstrations.moves(s)
  context, context_len = jit_context.first_context(world, jnp.asarray(game.obs))
  record = record_lib.empty(
    i * a, 1, context.shape[1], plan.message, (), np
  ).replace(
    context=np.repeat(context, a, axis=0)[:, None],
    context_len=np.repeat(context_len, a)[:, None],
    message=np.tile(tokens, (i, 1))[:, None],
    message_len=np.tile(length, i)[:, None],
    valid=np.ones((i * a, 1), bool),
  )
  record = jax.tree.map(jnp.asarray, record)
  rows = record_lib.rows(record, record_lib.per_turn(record), 0)
  apply = s.algorithm.context.modules[POLICY].apply

  @jax.jit
  def logp(params):
    out = microbatch.forward(apply, params, rows, ('logp',), i * a)
    return jnp.sum(jnp.where(rows.sampled, out.logp, 0), axis=1)

  random = world.env.illegal == base.RANDOM

  def read(params: PyTree) -> Strategy:
    p = np.exp(np.asarray(logp(params), np.float64)).reshape(i, a)
    p = np.where(game.legal, p, 0)
    sure = p.sum(axis=1)
    if random:
      moves = p + (1 - sure)[:, None] * tree.uniform(game)
    else:
      moves = p / np.maximum(sure, 1e-300)[:, None]
    moves /= moves.sum(axis=1, keepdims=True)  # rounding of float32
    return Strategy(np.maximum(moves, 0), sure)

  return read
