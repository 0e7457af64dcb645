"""Pytrees of the training loop.

Letters used for shapes everywhere:
  B trajectories, K turns, N rows, T tokens of a row, G group size, P pairs,
  D width, H heads, V vocabulary, S cache length, L layers.

Shapes are capacities. Masks and ids mark which entries are real: padding
carries -1 ids, weight 0 and log-prob 0, never NaN.
"""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.registry import OWN

Array = jax.Array
PyTree = Any


class Status(enum.IntEnum):
  """End of a trajectory."""

  SOLVED = 0
  FAILED = 1  # the environment ended it, unsolved
  TURN_LIMIT = 2  # truncated: no turns left of those a rollout has at most
  TOKEN_LIMIT = 3  # truncated: no room left in the context
  TIME_LIMIT = 4
  SCHEDULE = 5  # cut short on purpose: no turns left of the attempt's fewer
  ENV_ERROR = 6


class Span(enum.IntEnum):
  """Part of a message that a sampled token belongs to, or what a model reads.

  Logs hold the numbers: append only.
  """

  OTHER = 0
  THOUGHT = 1
  CALL = 2  # of a tool, less its arguments; see segment.in_span
  SUBGOAL = 3
  SWITCH = 4
  PREFIX = 6  # given to the policy, not sampled by it
  ARGUMENT = 7  # what a call is made with
  ANSWER = 8  # with its tags
  INFORMATION = 9  # read, never trained on: prompts, observations of hosts


class Agent(enum.IntEnum):
  """`Turns.agent` of a unit of `rollout.kind` 'host_proposed'."""

  PROPOSER = 0  # writes a task
  SOLVER = 1  # tries it


class Rows(struct.PyTreeNode):
  """Rows of tokens, the input of a model.

  Invariant: the sampled tokens of a (traj, turn) stand in exactly one row,
  contiguous and in order. A turn that several trajectories share belongs to
  the one of lowest index; other copies of it have weight 0.
  """

  tokens: Array  # [N, T] i32  ids in the vocabulary
  seg: Array  # [N, T] i32  attention stays inside equal ids; -1 padding
  traj: Array  # [N, T] i32  index into B; -1 padding
  turn: Array  # [N, T] i32  message and answer of turn k; -1 prompt, quote
  span: Array  # [N, T] i8   see Span
  sampled: Array  # [N, T] bool  written by the policy
  weight: Array  # [N, T] f32  trained on; not always what was sampled
  logp: Array  # [N, T] f32  behaviour log-prob, nats; 0 where not sampled
  version: Array  # [N, T] i32  policy version that wrote the token


class Turns(struct.PyTreeNode):
  """Turns, the input of credit assignment; small and replicated."""

  reward: Array  # [B, K] f32  what the turn earned, after the reward slot
  terms: dict[str, Array]  # [B, K] f32 each: reward terms, cost, progress...
  scored: Array  # [B, K] bool  False: failed, curated away, or given to a leaf
  valid: Array  # [B, K] bool  the turn happened
  state: Array  # [B, K] i32  equal: same observation
  node: Array  # [B, K] i32  equal: same turn, shared by branches
  agent: Array  # [B, K] i32  who acted, of several agents


class Pairs(struct.PyTreeNode):
  """Preferences between trajectories (turn -1) or turns. Padding: weight 0."""

  win: Array  # [P, 2] i32  (traj, turn)
  lose: Array  # [P, 2] i32  (traj, turn)
  weight: Array  # [P] f32  of the pair in a loss


class Written(struct.PyTreeNode):
  """Operations on a memory of texts; see `memory.texts.applied`."""

  tokens: Array  # [n, W] i32
  length: Array  # [n] i32  0: no text
  task: Array  # [n] i32  training task that the text is of
  entry: Array  # [n] i32  that it replaces; -1: none
  seen: Array  # [n] i32  step at which that entry was written
  reward: Array  # [n] f32  return of the attempt that the text is; 0: of none


# Attempts made, tokens that the policy sampled, environment steps.
SAMPLED = ('attempts', 'tokens', 'env_steps')


class Batch(struct.PyTreeNode):
  """Trajectories of an iteration, as rows to read and turns to credit."""

  rows: Rows  # what models read
  turns: Turns  # what credit is assigned to
  ids: dict[str, Array]  # [B] i32: task, group, arm, age; seat, match, role
  outcome: Array  # [B] f32  the task's own score; of cut leaves 0, unknown
  status: Array  # [B] i32  see Status
  # [] i32 each, see SAMPLED, with what was thrown away; empty: none sampled
  sampled: dict[str, Array] = struct.field(default_factory=dict)
  # [A] each, of every attempt made, with those that were thrown away: task i32,
  # outcome f32, counts bool. Empty where nothing was sampled.
  attempted: dict[str, Array] = struct.field(default_factory=dict)
  # The same actions in another context, by the reading's name.
  readings: dict[str, Rows] = struct.field(default_factory=dict)
  pairs: Pairs | None = None  # preferences, for losses over pairs
  written: Written | None = None  # by a service, for a memory of texts
  practice: PyTree = None  # memory.skills.Practice that tasks were chosen by

  def reading(self, name: str) -> Rows:
    """Returns the rows of a reading; OWN: those that were sampled."""
    return self.rows if name == OWN else self.readings[name]

  @classmethod
  def from_turns(
    cls, tokens, logp, *, reward, group, context=None, outcome=None, done=None
  ) -> 'Batch':
    """Builds a batch of ragged turns: one row of history for each trajectory.

    Args:
      tokens: [trajectory][turn][token], ids that the policy sampled
      logp: of the same form, their log-probs at that time, nats
      reward: [trajectory][turn]
      group: [trajectory], equal for attempts at one task
      context: [trajectory][turn][token], ids that were read before each
        message: the prompt, then observations; nothing by default
      outcome: [trajectory], the task's own score; the sum of rewards by default
      done: [trajectory], False where a limit cut it short; True by default
    Raises: ValueError, one sentence, for what does not fit together.
    """
    context = context or [[[] for _ in turns] for turns in tokens]
    outcome = [sum(x) for x in reward] if outcome is None else outcome
    done = [True] * len(tokens) if done is None else done
    each = {'group': group, 'outcome': outcome, 'done': done}
    _check_turns(tokens, {'logp': logp, 'context': context}, reward, each)
    b, k = len(tokens), max(map(len, tokens))
    # A row's tokens as (id, turn, sampled, logp). An observation belongs to the
    # turn it answers.
    rows: list[list[tuple]] = []
    for turns, seen, logps in zip(tokens, context, logp, strict=True):
      row, each_turn = [], zip(turns, seen, logps, strict=True)
      for i, (ids, read, nats) in enumerate(each_turn):
        row += [(token, i - 1, False, 0.0) for token in read]
        row += [(x, i, True, y) for x, y in zip(ids, nats, strict=True)]
      rows.append(row)
    width = max(map(len, rows))
    here = np.arange(width) < np.array([[len(row)] for row in rows])

    def fill(index, empty, dtype):
      out = np.full((b, width), empty, dtype)
      out[here] = [x[index] for row in rows for x in row]
      return jnp.asarray(out)

    def table(values, dtype):
      out = np.zeros((b, k), dtype)
      for i, row in enumerate(values):
        out[i, : len(row)] = row
      return jnp.asarray(out)

    valid = table([[True] * len(turns) for turns in tokens], bool)
    solved = np.where(np.asarray(outcome) > 0.5, Status.SOLVED, Status.FAILED)
    status = np.where(np.asarray(done, bool), solved, Status.TURN_LIMIT)
    sampled, node = fill(2, False, bool), np.arange(b * k, dtype=np.int32)
    return cls(
      rows=Rows(
        tokens=fill(0, 0, np.int32),
        seg=jnp.asarray(np.where(here, 0, -1).astype(np.int32)),
        traj=jnp.asarray(np.where(here, np.arange(b)[:, None], -1), jnp.int32),
        turn=fill(1, -1, np.int32),
        span=jnp.full((b, width), Span.OTHER, jnp.int8),
        sampled=sampled,
        weight=sampled.astype(jnp.float32),
        logp=fill(3, 0.0, np.float32),
        version=jnp.zeros((b, width), jnp.int32),
      ),
      turns=Turns(
        reward=table(reward, np.float32),
        terms={},
        scored=valid,
        valid=valid,
        state=jnp.asarray(node.reshape(b, k)),
        node=jnp.asarray(node.reshape(b, k)),
        agent=jnp.zeros((b, k), jnp.int32),
      ),
      ids={'group': jnp.asarray(group, jnp.int32)},
      outcome=jnp.asarray(outcome, jnp.float32),
      status=jnp.asarray(status, jnp.int32),
    )


def _check_turns(tokens, nested, reward, each) -> None:
  """Raises ValueError, one sentence, for arguments of `from_turns`."""
  if not len(tokens) or not all(len(turns) for turns in tokens):
    raise ValueError(
      'tokens lacks a trajectory or a turn; give at least one trajectory, each'
      ' of at least one turn'
    )
  for name, x in {**nested, 'reward': reward, **each}.items():
    if len(x) != len(tokens):
      raise ValueError(
        f'{name} has {len(x)} trajectories and tokens has {len(tokens)}; give'
        ' one entry for each'
      )
  for i, turns in enumerate(tokens):
    for name, x in {**nested, 'reward': reward}.items():
      if len(x[i]) != len(turns):
        raise ValueError(
          f'{name}[{i}] has {len(x[i])} turns and tokens[{i}] has'
          f' {len(turns)}; give one entry for each'
        )
    for k, ids in enumerate(turns):
      logp, read = nested['logp'][i][k], nested['context'][i][k]
      if np.ndim(ids) != 1 or not len(ids) or np.ndim(read) != 1:
        raise ValueError(
          f'tokens[{i}][{k}]={ids!r} after context {read!r}; both are lists of'
          ' ids, and a turn has at least one sampled token'
        )
      if min([*ids, *read]) < 0:
        raise ValueError(
          f'tokens[{i}][{k}] or its context has a negative id; leave padding'
          ' out, turns may differ in length'
        )
      if np.shape(logp) != np.shape(ids):
        raise ValueError(
          f'logp[{i}][{k}] has shape {np.shape(logp)} and tokens[{i}][{k}] has'
          f' {np.shape(ids)}; give one log-prob for each sampled token'
        )
      if not np.all(np.isfinite(logp)) or np.max(logp) > 0:
        raise ValueError(
          f'logp[{i}][{k}]={logp!r}; log-probs are finite and at most 0 nats'
        )
    if not np.all(np.isfinite(reward[i])):
      raise ValueError(f'reward[{i}]={reward[i]!r}; rewards are finite numbers')


class Credit(struct.PyTreeNode):
  """Credit of actions. A token's advantage is its turn's + its own.

  Never differentiated: the learner puts it behind stop_gradient.
  """

  turn: Array  # [B, K] f32  advantage of the turn
  token: Array  # [N, T] f32  advantage of the token beside its turn's
  weight: Array  # [N, T] f32  starts as rows.weight; links may lower it
  target: dict[str, Array]  # what value heads should predict
  # Links that multiply turns keep it by chain.times; None: |turn|.
  size: Array | None = None  # [B, K] f32  Σ |summands|, for ops.rounding


_NOT_REQUESTED: Any = None  # an array if the field was requested


class Outputs(struct.PyTreeNode):
  """Outputs of a module on rows; a field that was not requested is None."""

  logp: Array = _NOT_REQUESTED  # [N, T] f32  of the row's own tokens, nats
  entropy: Array = _NOT_REQUESTED  # [N, T] f32  of the distribution there, nats
  value: Array = _NOT_REQUESTED  # [N, T, H] f32  before the token was chosen
  sum_sq_prob: Array = _NOT_REQUESTED  # [N, T] f32  Σ p² of that distribution
  attention_logit: Array = _NOT_REQUESTED  # [N, L, H] f32  each head's largest
  # Where no log-prob is read it may hold anything finite.
  hidden: Array = _NOT_REQUESTED  # [N, T, D]  normed, predicts the row's token
  divergence: Array = _NOT_REQUESTED  # [N, T] f32  from a teacher, nats


class Messages(struct.PyTreeNode):
  """Messages that the policy did not write: demonstrated or stored ones.

  M tokens of a message.
  """

  tokens: Array  # [B, K, M] i32
  length: Array  # [B, K] i32
  state: Array | None = None  # [B, K] i32  hash of what was read; -1: unknown


class Copies(struct.PyTreeNode):
  """Messages that the policy sampled before.

  For other attempts of this iteration, whose randomness the environment
  repeats; or, with keys, for these attempts in earlier iterations.
  """

  rows: Rows  # of A trajectories
  entropy: Array  # [A, K] f32  of their messages, summed over each, nats
  origin: Array  # [B] i32  in [0, A): whose messages and env randomness
  count: int = struct.field(pytree_node=False)  # A
  key: Array | None = None  # [B, 2] u32  that an attempt with turns goes on by
  state: Array | None = None  # [A, K] i32  of turns, as in Messages
  drawn: Array | None = None  # [B, K] i32  whose luck a turn has; None: origin
  tokens: Array | None = None  # [B] i32  given of the next message, in jit


class Prefix(struct.PyTreeNode):
  """First turns of attempts, played as they are given and not sampled.

  Messages that the policy did not write are marked Span.PREFIX: not sampled,
  weight 0, log-prob 0. If an observation differs from the recorded one (state),
  the policy takes over.
  """

  turns: Array  # [B] i32  how many; 0: none
  messages: Messages | Copies  # whose they are, and what they say

  @property
  def forced(self) -> bool:
    """Whether the policy did not write the messages."""
    return isinstance(self.messages, Messages)

  @property
  def resumed(self) -> bool:
    """Whether these attempts wrote the messages in earlier iterations."""
    return isinstance(self.messages, Copies) and self.messages.key is not None


class Earlier(struct.PyTreeNode):
  """Trajectories of earlier iterations, one for each attempt.

  Of an attempt that is new it holds nothing; of one without turns to play, the
  whole trajectory.
  """

  batch: Batch  # of B trajectories, on the host
  key: Array  # [B, 2] u32  of the attempt
  goes_on: Array  # [B] bool  cut at its limit, it goes on later


class AttemptPlan(NamedTuple):
  """What the attempts of every step have in common."""

  tasks: int  # size of the task set, n
  group: int  # attempts at a task
  batch: int  # attempts, a multiple of group
  limit: int  # turns
  seed: int
  temperature: float

  @property
  def groups(self) -> int:
    return self.batch // self.group


# Ids of the i-th entry that a trajectory has read, with i behind them.
NOTE, NOTE_WRITTEN = 'note', 'note_written'


class Notes(struct.PyTreeNode):
  """Texts of a memory that attempts read; members of a group read the same."""

  tokens: Array  # [B, H] i32  before the first observation
  length: Array  # [B] i32  0: nothing is read
  entry: Array  # [B, k] i32  of the memory; -1: none
  written: Array  # [B, k] i32  step at which that entry was written


class Attempts(struct.PyTreeNode):
  """Trajectories to be sampled; members of a group share task and arm."""

  task: Array  # [B] i32  index into the task set
  group: Array  # [B] i32  attempts at one task are equal
  arm: Array  # [B] i32  of several ways to sample a task
  limit: Array  # [B] i32  turns, with those of a prefix; 0: not attempted
  temperature: Array  # [B] f32  of sampling; 0: greedy
  prefix: Prefix | None = None  # turns that are given; None: all is sampled
  hinted: Array | None = None  # [B] bool  sampled behind a hint; None: nobody
  earlier: Earlier | None = None  # for a collector; None: all are new
  notes: Notes | None = None  # what is read; None: nothing
  role: Array | None = None  # [B] i32  of Algorithm.players; None: by seats
  luck: Array | None = None  # [B] i32  equal: their environments draw alike
  texts: PyTree = None  # the bank that a service writes to; None: none does
  practice: PyTree = None  # as of the Batch that they make


class Seen(struct.PyTreeNode):
  """What a rollout reads of a TrainState, of one policy version."""

  step: Array  # [] i32  the policy version
  params: dict[str, PyTree]  # of the roles that rollouts ask and that change
  memory: dict[str, PyTree]  # of the memories that tasks are chosen by


class TrainState(struct.PyTreeNode):
  """State of training, as a checkpoint holds it."""

  step: Array  # [] i32  optimizer steps' loop counter: the policy version
  params: dict[str, PyTree]  # by role
  opt: dict[str, PyTree]  # by trained role
  signal: dict[str, PyTree]  # states of signals that are not parameters
  memory: PyTree  # by memory component; () without any
  key: Array  # of the run; never changes, always folded
  past: tuple[Seen, ...] = ()  # of the versions before, the newest first


class Share(NamedTuple):
  """Parameters that a network uses beside its own.

  role: whose parameters; they are never trained.
  join: (own parameters, those of the role) -> what `apply` takes.
  """

  role: str
  join: Callable[[PyTree, PyTree], PyTree]


class Module(NamedTuple):
  """A network: the specs of its parameters, and its functions.

  specs: tree of mesh.Param, of its own parameters.
  apply: (params, rows, needs) -> Outputs, with the fields named in needs.
  share: whose parameters it needs too; None: its own alone.
  head: what apply takes -> the matrix that makes logits of Outputs.hidden, and
    its nn.vocab_blocks.HeadConfig; None: no language model.
  """

  specs: PyTree
  apply: Callable[..., Outputs]
  share: Share | None = None
  head: Callable[[PyTree], tuple[Array, Any]] | None = None


Signals = dict[str, Array]  # by name, [N, T], [B, K] or [B] as declared
# Metrics: name -> (sum, weight); devices and micro-batches only add.
Metrics = dict[str, tuple[Array, Array]]


class NewestPolicy(NamedTuple):
  """The policy as it is now, where older ones sample a batch."""

  sample: Callable[[Attempts, Array], Batch]  # as that of CollectInputs
  read: Callable[[Rows], tuple[Array, Array]]  # log-probs, entropies [N, T]


@dataclasses.dataclass(frozen=True, kw_only=True)
class CollectInputs:
  """Inputs of a collector, which makes a batch of them."""

  sample: Callable[[Attempts, Array], Batch]  # (attempts, key); no rewards yet
  score: Callable[[Batch], Batch]  # fills turns.reward
  attempts: Attempts
  key: Array
  newest: NewestPolicy | None = None  # for who gives 'newest_branches'
  scan: Callable | None = None  # jax.lax.scan inside jit; None: on the host


class RewardInputs(struct.PyTreeNode, kw_only=True):
  """Inputs of a reward."""

  turns: Turns  # their reward is not read: rewards are what makes it
  outcome: Array  # [B] f32  the task's own score
  status: Array  # [B] i32  see Status


class LinkInputs(struct.PyTreeNode, kw_only=True):
  """Inputs of a link."""

  batch: Batch
  credit: Credit  # of the stream so far
  signals: Signals


class LossInputs(struct.PyTreeNode, kw_only=True):
  """Inputs of a loss, and of the function that gives its weights."""

  outputs: Outputs
  batch: Batch
  credit: Credit  # token: the whole advantage of a token, its turn's included
  signals: Signals
  key: Array  # for what a loss samples


# Value of each token [N, T], before weights and reduction, and metrics.
Loss = tuple[Array, Metrics]
# Credit after a link, and metrics.
Linked = tuple[Credit, Metrics]
