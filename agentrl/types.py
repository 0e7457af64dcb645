"""The pytrees that travel the loop.

Letters used for shapes everywhere:
  B trajectories, K turns, N rows, T tokens of a row, G group size, P pairs,
  D width, H heads, V vocabulary, S cache length, L layers.

Shapes are capacities. What really happened is said by masks and ids: padding
carries -1 ids, weight 0 and log-prob 0, never NaN.
"""

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from flax import struct

Array = jax.Array
PyTree = Any


class Status(enum.IntEnum):
  """How a trajectory ended."""

  SOLVED = 0
  FAILED = 1  # the environment ended it, unsolved
  TURN_LIMIT = 2  # truncated: no turns left
  TOKEN_LIMIT = 3  # truncated: no room left in the context
  TIME_LIMIT = 4
  SCHEDULE = 5  # cut short on purpose by a curriculum
  ENV_ERROR = 6


class Span(enum.IntEnum):
  """What a sampled token is part of."""

  OTHER = 0
  THOUGHT = 1
  CALL = 2
  SUBGOAL = 3
  SWITCH = 4
  MEMORY = 5
  PREFIX = 6  # forced, not sampled


@struct.dataclass
class Rows:
  """What a model reads.

  Invariant: the sampled tokens of a (traj, turn) stand in exactly one row,
  contiguous and in order. A turn that several trajectories share belongs to
  the one of lowest index; other copies of it have weight 0.
  """

  tokens: Array  # [N, T] i32
  seg: Array  # [N, T] i32  attention stays inside equal ids; -1 padding
  traj: Array  # [N, T] i32  index into B; -1 padding
  turn: Array  # [N, T] i32  message and answer of turn k; -1 prompt, quote
  span: Array  # [N, T] i8   see Span
  sampled: Array  # [N, T] bool
  weight: Array  # [N, T] f32  trained on; not always what was sampled
  logp: Array  # [N, T] f32  behaviour log-prob, nats; 0 where not sampled
  version: Array  # [N, T] i32  policy version that wrote the token


@struct.dataclass
class Turns:
  """What credit assignment reads. Small, replicated on every device."""

  reward: Array  # [B, K] f32  what the turn earned, after the reward slot
  terms: dict[str, Array]  # [B, K] f32 each: reward terms, cost, progress...
  scored: Array  # [B, K] bool  False: judge failed, or curated away; unused
  valid: Array  # [B, K] bool  the turn happened
  state: Array  # [B, K] i32  equal: same observation
  node: Array  # [B, K] i32  equal: same turn, shared by branches
  agent: Array  # [B, K] i32


@struct.dataclass
class Pairs:
  """Preferences between trajectories (turn -1) or turns. Padding: weight 0."""

  win: Array  # [P, 2] i32  (traj, turn)
  lose: Array  # [P, 2] i32
  weight: Array  # [P] f32


# Attempts made, tokens that the policy wrote, steps that worlds were asked for.
SAMPLED = ('attempts', 'tokens', 'env_steps')


@struct.dataclass
class Batch:
  rows: Rows
  turns: Turns
  ids: dict[str, Array]  # [B] i32: task, group, arm, domain, source, age
  outcome: Array  # [B] f32  the task's own score; filters and evaluation
  status: Array  # [B] i32  see Status
  # [] i32 each, see SAMPLED: what making the batch took, with what was thrown
  # away on the way; batches that nobody sampled for lack it.
  sampled: dict[str, Array] = struct.field(default_factory=dict)
  readings: dict[str, Rows] = struct.field(default_factory=dict)
  pairs: Pairs | None = None


@struct.dataclass
class Credit:
  """How good each action was. A token's advantage is its turn's + its own.

  Never differentiated: the learner puts it behind stop_gradient.
  """

  turn: Array  # [B, K] f32
  token: Array  # [N, T] f32
  weight: Array  # [N, T] f32  starts as rows.weight; links may lower it
  target: dict[str, Array]  # what value heads should predict


@struct.dataclass
class Outputs:
  """What a module says about rows; a field nobody asked for is None."""

  logp: Array | None = None  # [N, T] f32  of the row's own tokens, nats
  entropy: Array | None = None  # [N, T] f32  of the distribution there, nats
  value: Array | None = None  # [N, T, H] f32  before the token was chosen
  sum_sq_prob: Array | None = (
    None  # [N, T] f32  sum of squares of that distribution
  )


@struct.dataclass
class Prefix:
  """First turns that are said again as they stand in rows, not sampled."""

  rows: Rows  # of trajectories sampled before, A of them
  entropy: Array  # [A, K] f32  of their messages, summed over each, nats
  origin: Array  # [B] i32  in [0, A): whose messages, and whose world's luck
  turns: Array  # [B] i32  how many are repeated; 0: none
  count: int = struct.field(pytree_node=False)  # A


@struct.dataclass
class Attempts:
  """Trajectories to be sampled; members of a group share task and arm."""

  task: Array  # [B] i32  index into the task set
  group: Array  # [B] i32
  arm: Array  # [B] i32
  limit: Array  # [B] i32  turns
  temperature: Array  # [B] f32
  prefix: Prefix | None = None


@struct.dataclass
class TrainState:
  step: Array  # [] i32  optimizer steps' loop counter: the policy version
  params: dict[str, PyTree]  # by role
  opt: dict[str, PyTree]  # by trained role
  signal: dict[str, PyTree]  # states of signals that are not parameters
  memory: PyTree
  carry: PyTree  # unfinished episodes
  key: Array  # of the run; never changes, always folded


class Share(NamedTuple):
  """What a network needs beside its own parameters.

  role: whose parameters; they are never trained.
  join: (own parameters, those of the role) -> what `apply` takes.
  """

  role: str
  join: Callable[[PyTree, PyTree], PyTree]


class Module(NamedTuple):
  """A network: what its parameters are, and how they are used.

  specs: tree of mesh.Param, of its own parameters.
  apply: (params, rows, needs) -> Outputs, with the fields named in needs.
  share: whose parameters it needs too; None: nobody's.
  """

  specs: PyTree
  apply: Callable[..., Outputs]
  share: Share | None = None


# Signals: name -> array at a declared level ([N, T], [B, K] or [B]).
Signals = dict[str, Array]
# Metrics: name -> (sum, weight); devices and micro-batches only add.
Metrics = dict[str, tuple[Array, Array]]
