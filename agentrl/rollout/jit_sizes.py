"""Sizes of rollouts inside jit, and the environment as tokens."""

import dataclasses
from typing import Any

from flax import struct

from agentrl.env.jit import base as env_base
from agentrl.rollout.compaction import Compaction
from agentrl.rollout.record import Capacity
from agentrl.text import action_parsing, jit_template, observation_tokens
from agentrl.types import Array


@dataclasses.dataclass(frozen=True)
class RolloutSizes:
  """Capacities of a rollout.

  history: 'turn' rebuilds the context of each turn from the last `window`
  observations (and the messages between them); 'full' keeps one growing
  context, in which a turn costs only its new tokens; 'compact' keeps one that
  begins anew behind a summary when room runs out.
  anchor: the share of an observation's places that its state id looks at; 1:
  turns of one state saw the same, less: they saw much the same.
  notes: tokens of a memory that stand before an observation, at most; of a full
  history before the first.
  """

  slots: int
  turns: int  # K
  message: int  # M, tokens of a message with its end of turn
  history: str = 'turn'
  window: int = 1
  context: int = 0  # tokens of a full history; 0: whatever K turns need
  anchor: float = 1.0
  notes: int = 0
  compaction: Compaction | None = None  # of history 'compact'

  def __post_init__(self):
    if self.history not in ('turn', 'full', 'compact'):
      raise ValueError(
        f"rollout.history={self.history!r} is unknown; choose 'turn' (context"
        " rebuilt from the last observations), 'full' (one growing context) or"
        " 'compact' (one that begins anew)"
      )
    if (self.history == 'compact') != (self.compaction is not None):
      raise ValueError(
        "rollout.history must be 'compact' where there is a compaction, and"
        f' nowhere else, got {self.history!r} with {self.compaction}'
      )
    for name in ('slots', 'turns', 'message', 'window'):
      if (value := getattr(self, name)) < 1:
        raise ValueError(f'rollout.{name}={value} must be at least 1')
    if not 0 < self.anchor <= 1:
      raise ValueError(
        f'rollout.state_hash_fraction={self.anchor} is a share of the'
        ' observation; set it above 0 and to at most 1, which tells every two'
        ' observations apart'
      )


@struct.dataclass
class TokenizedEnv:
  """An environment with the token tables of its observations and actions."""

  pieces: observation_tokens.PieceTable
  actions: action_parsing.ActionTable
  tasks: Any  # the task set: arrays [n_tasks, ...]
  env: env_base.JitEnv = struct.field(pytree_node=False)
  # Around turns; its `after` is the suffix of the pieces. None: nothing is.
  frame: jit_template.JitTemplate | None = None
  # The environment's own moves, which the actor is told; None: it writes.
  mover: env_base.Mover | None = struct.field(pytree_node=False, default=None)
  # [q] i32, asks for a summary, as an observation; None: nothing is asked for
  request: Array | None = None
  # (state) -> pieces of the summary in a demonstration; None: the actor's own
  expert: env_base.Expert | None = struct.field(pytree_node=False, default=None)

  @property
  def obs_tokens(self) -> int:
    """The most tokens of an observation, with what always stands behind it."""
    p = self.pieces
    around = p.prefix.shape[0] + p.suffix.shape[0]
    return around + self.env.obs_len * p.tokens.shape[1]

  @property
  def first_tokens(self) -> int:
    """Tokens before the first observation."""
    return self.frame.first.shape[0] if self.frame else 0

  @property
  def between_tokens(self) -> int:
    """The most tokens between a message and the next observation."""
    return self.frame.between if self.frame else 0


def turn_tokens(world: TokenizedEnv, plan: RolloutSizes) -> int:
  """Returns the most tokens that a later turn adds to a conversation."""
  return world.between_tokens + world.obs_tokens + plan.message


def context_tokens(world: TokenizedEnv, plan: RolloutSizes) -> int:
  """Returns C: the most tokens that are new to the model in a turn."""
  new = world.obs_tokens + plan.notes
  longest = max(world.first_tokens, world.between_tokens) + new
  if plan.history == 'full':
    return longest
  if plan.compaction is not None:
    return max(longest, plan.compaction.restart, plan.compaction.asking)
  extra = (plan.window - 1) * turn_tokens(world, plan)
  return world.first_tokens + new + extra


def row_tokens(world: TokenizedEnv, plan: RolloutSizes) -> int:
  """Returns T: tokens of a row of the plan's own layout."""
  if plan.history == 'turn':
    return context_tokens(world, plan) + plan.message
  if plan.compaction is not None:
    return plan.compaction.row
  begin = world.first_tokens - world.between_tokens + plan.notes
  return plan.context or begin + plan.turns * turn_tokens(world, plan)


def capacity(world: TokenizedEnv, plan: RolloutSizes) -> Capacity:
  """Sizes a slot's cache: a row, and a sampled token not yet prefilled.

  Of a row in segments it holds one at a time.
  """
  row, rule = row_tokens(world, plan), plan.compaction
  held = rule.context if rule is not None else row
  return Capacity(context_tokens(world, plan), row, held + 1)
