"""What the roles of a workflow work on: sums, and chains of facts to look up.

A problem says what is asked, which kinds of message (*acts*) there are, what
the world answers to them and how true each is. Who speaks when, and what each
role reads, is a table's (workflow.py).
"""

import dataclasses
import string
from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

import chex
import jax
import jax.numpy as jnp
from flax import struct

from agentrl.env.jit.games import base, sums

ANSWER, SCORE, STOP = 'answer', 'score', 'stop'
VERDICTS = ('y', 'n')
SCORES = ('1', '2', '3')
MOST_THINGS, MOST_RELATIONS = 10, 4  # digits, and letters before n and y


class Moves(struct.PyTreeNode):
  """What has been said, in order."""

  act: jax.Array  # [M] i32  index into `Problem.acts`; -1: not said yet
  value: jax.Array  # [M] i32  index into the act's texts; -1


class Problem(Protocol):
  """A frozen dataclass whose methods are pure; calls are one match's.

  Loops have the same number of rounds for every task. Under vmap on a mesh the
  end of another loop is a question to all devices in every round.
  """

  title: ClassVar[str]
  costly: ClassVar[tuple[str, ...]]  # acts that are searches

  @property
  def acts(self) -> Mapping[str, tuple[str, ...]]:
    """Kinds of messages, and the texts of each; it has `answer`."""

  @property
  def deals(self) -> int:
    """How many different tasks there are."""

  @property
  def pieces(self) -> tuple[str, ...]:
    """Text pieces of questions and of what the world answers."""

  @property
  def shown(self) -> int:
    """The capacity of a question, in pieces."""

  @property
  def system(self) -> str:
    """What is asked, in words."""

  def deal(self, number: jax.Array) -> chex.ArrayTree:
    """Returns task i32[] in [0, deals)."""

  def ask(self, task: Any) -> jax.Array:
    """Returns the question: i32[shown], -1 past the end."""

  def replies(self, task: Any, moves: Moves) -> jax.Array:
    """Returns what the world answers to each message: i32[M], -1 nothing."""

  def right(self, task: Any, moves: Moves) -> jax.Array:
    """Returns how true each message is: f32[M] in [0, 1], 0 if not said."""

  def expert(self, task: Any, moves: Moves) -> dict[str, jax.Array]:
    """Returns what an expert says next, by act: weights f32[texts]."""


@dataclasses.dataclass(frozen=True)
class Sums:
  """Which of + - * makes a number of two others.

    answer   + - *       true if it makes the number
    verdict  y n         true if y says of the last answer that it is right
    score    1 2 3       1 - |(s - 1) / 2 - right(last answer)|

  Args:
    largest: of the two numbers
  """

  largest: int = 5

  title: ClassVar[str] = 'sums'
  costly: ClassVar[tuple[str, ...]] = ()
  acts: ClassVar[Mapping[str, tuple[str, ...]]] = {
    ANSWER: sums.OPERATIONS,
    'verdict': VERDICTS,
    SCORE: SCORES,
  }
  shown: ClassVar[int] = 6
  system: ClassVar[str] = (
    'Which of + - * makes the number behind = of the two before it? An answer'
    ' is its sign, a verdict y or n, a score 1 to 3.'
  )

  @property
  def deals(self) -> int:
    return self.largest**2 * len(sums.OPERATIONS)

  @property
  def pieces(self) -> tuple[str, ...]:
    return (
      ' ',
      '=',
      ':',
      *map(str, range(1 - self.largest, self.largest**2 + 1)),
    )

  def deal(self, number: jax.Array) -> sums.SumState:
    return sums.deal(number, self.largest, 0)

  def ask(self, task: sums.SumState) -> jax.Array:
    zero = self.pieces.index('0')
    x, y = zero + task.numbers
    space, equals, colon = map(self.pieces.index, ' =:')
    return jnp.stack([x, space, y, equals, zero + task.target, colon])

  def replies(self, task: sums.SumState, moves: Moves) -> jax.Array:
    del task
    return jnp.full_like(moves.act, -1)

  def right(self, task: sums.SumState, moves: Moves) -> jax.Array:
    answer, verdict, score = (moves.act == i for i in range(len(self.acts)))
    true = sums.correct(task, jnp.where(answer, moves.value, -1))  # [M]
    last = _latest(answer)
    fine = (last >= 0) & true[jnp.maximum(last, 0)]  # [M] of the last answer
    told = verdict & ((moves.value == 0) == fine)
    near = 1 - jnp.abs(moves.value / 2 - fine)
    return jnp.where(score, near, true | told).astype(jnp.float32)

  def expert(self, task: sums.SumState, moves: Moves) -> dict[str, jax.Array]:
    answer = moves.act == 0
    true = sums.correct(task, jnp.where(answer, moves.value, -1))
    last = jnp.max(jnp.where(answer, jnp.arange(answer.size), -1))
    fine = (last >= 0) & true[jnp.maximum(last, 0)]
    makes = sums.results(task.numbers) == task.target
    weights = {
      ANSWER: makes,
      'verdict': jnp.stack([fine, ~fine]),
      SCORE: jnp.stack([~fine, jnp.zeros((), bool), fine]),
    }
    return {act: x.astype(jnp.float32) for act, x in weights.items()}


class Chain(struct.PyTreeNode):
  """A chain of facts: path[k](... path[0](start))."""

  facts: jax.Array  # [R, E] i32
  start: jax.Array  # [] i32
  path: jax.Array  # [H] i32  relations; -1 past the end
  length: jax.Array  # [] i32


class _Walk(struct.PyTreeNode):
  """How far a chain is known before each of M messages and behind the last."""

  at: jax.Array  # [M + 1] i32  the thing that it has come to
  step: jax.Array  # [M + 1] i32  relations behind it
  reply: jax.Array  # [M] i32  the fact that a message has found; -1: none


@dataclasses.dataclass(frozen=True)
class Lookups:
  """What is behind a chain of relations, whose facts have to be looked up.

    3ab:       which thing is b of a of 3; every match has other facts
    3ab:a3=5   a was looked up of 3

  Things are digits, relations letters. The facts of the first `known` relations
  are the same in all matches, so that they can be learned by heart.

    tool      a b ...  names a relation; true if it is the next one
    argument  0 1 ...  looks the relation named last up of a thing; true if it
                       is the thing that the chain has come to
    search    a b ...  both at once, of that thing
    verdict   y n      true if y says that the answer is known
    stop      .        true if the answer is known; nobody reads it
    answer    0 1 ...  true if it is the end of the chain

  Args:
    things: E
    relations: R
    known: relations whose facts are always the same
    hops: H, relations of a chain at most
    deals: different tasks
  """

  things: int = 6
  relations: int = 2
  known: int = 0
  hops: int = 2
  deals: int = 2**20

  title: ClassVar[str] = 'lookups'
  costly: ClassVar[tuple[str, ...]] = ('argument', 'search')

  @property
  def acts(self) -> Mapping[str, tuple[str, ...]]:
    things, letters = self._things, self._letters
    return {
      'tool': letters,
      'argument': things,
      'search': letters,
      'verdict': VERDICTS,
      STOP: ('.',),
      ANSWER: things,
    }

  @property
  def _things(self) -> tuple[str, ...]:
    return tuple(string.digits[: self.things])

  @property
  def _letters(self) -> tuple[str, ...]:
    return tuple(string.ascii_lowercase[: self.relations])

  @property
  def pieces(self) -> tuple[str, ...]:
    found = (f'={x}' for x in self._things)
    return (*self._things, *self._letters, ':', *found)

  @property
  def shown(self) -> int:
    return self.hops + 2

  @property
  def system(self) -> str:
    return (
      'A digit and letters: which digit is behind the chain of relations? Each'
      ' letter is a relation, whose facts are looked up and stand behind =.'
    )

  def deal(self, number: jax.Array) -> Chain:
    keys = jax.random.split(jax.random.fold_in(jax.random.key(0), number), 4)
    r, e, h = self.relations, self.things, self.hops
    facts = jax.random.randint(keys[0], (r, e), 0, e)
    always = (jnp.arange(e)[None] + 1 + jnp.arange(r)[:, None]) % e
    known = jnp.arange(r)[:, None] < self.known
    length = jax.random.randint(keys[1], (), 1, h + 1)
    path = jax.random.randint(keys[2], (h,), 0, r)
    return Chain(
      facts=jnp.where(known, always, facts).astype(jnp.int32),
      start=jax.random.randint(keys[3], (), 0, e),
      path=jnp.where(jnp.arange(h) < length, path, -1).astype(jnp.int32),
      length=length,
    )

  def ask(self, task: Chain) -> jax.Array:
    letters = jnp.where(task.path >= 0, self.things + task.path, -1)
    colon = self.pieces.index(':')
    asked = [task.start[None], letters, jnp.array([colon])]
    return base.packed(jnp.concatenate(asked))

  def replies(self, task: Chain, moves: Moves) -> jax.Array:
    reply, first = self._walk(task, moves).reply, self.pieces.index('=0')
    return jnp.where(reply >= 0, first + reply, -1)

  def right(self, task: Chain, moves: Moves) -> jax.Array:
    walk = self._walk(task, moves)
    at, needed, over = (x[:-1] for x in self._next(task, walk))
    truth = task.start
    for k in range(self.hops):  # as many for every task: see `Problem`
      truth = jnp.where(k < task.length, task.facts[task.path[k], truth], truth)
    is_ = {act: moves.act == i for i, act in enumerate(self.acts)}
    right = (is_['tool'] | is_['search']) & (moves.value == needed)
    right |= is_['argument'] & (moves.value == at)
    right |= is_['verdict'] & ((moves.value == 0) == over)
    right |= is_[STOP] & over
    right |= is_[ANSWER] & (moves.value == truth)
    return right.astype(jnp.float32)

  def expert(self, task: Chain, moves: Moves) -> dict[str, jax.Array]:
    at, needed, over = (
      x[-1] for x in self._next(task, self._walk(task, moves))
    )
    here = jnp.arange(self.things) == at
    named = jnp.arange(self.relations) == needed  # none once it is over
    weights = {
      'tool': named | over,
      'argument': here,
      'search': named,
      'verdict': jnp.stack([over, ~over]),
      STOP: over[None],
      ANSWER: here | ~over,  # a guess
    }
    return {act: x.astype(jnp.float32) for act, x in weights.items()}

  def _next(self, task: Chain, walk: _Walk):
    """Returns thing, needed relation (-1: none) and end, [M + 1] each."""
    over = walk.step >= task.length
    needed = task.path[jnp.minimum(walk.step, self.hops - 1)]
    return walk.at, jnp.where(over, -1, needed), over

  def _walk(self, task: Chain, moves: Moves) -> _Walk:
    tool, argument, search = (
      list(self.acts).index(x) for x in ('tool', 'argument', 'search')
    )

    def follow(at, step):
      """Goes on by what is known."""
      for _ in range(self.hops):
        relation = task.path[jnp.minimum(step, self.hops - 1)]
        on = (step < task.length) & (relation < self.known)
        at = jnp.where(on, task.facts[relation, at], at)
        step += on
      return at, step

    def one(carry, move):
      at, step, named = carry
      act, value = move
      runs = (act == search) | ((act == argument) & (named >= 0))
      relation = jnp.where(act == search, value, named)
      of = jnp.where(act == search, at, value)
      fact = task.facts[jnp.maximum(relation, 0), jnp.maximum(of, 0)]
      needed = task.path[jnp.minimum(step, self.hops - 1)]
      on = runs & (step < task.length) & (relation == needed) & (of == at)
      new = follow(jnp.where(on, fact, at), step + on)
      named = jnp.where(act == tool, value, named)
      return (*new, named), (at, step, jnp.where(runs, fact, -1))

    begun = follow(task.start, jnp.int32(0))
    last, (at, step, reply) = jax.lax.scan(
      one, (*begun, jnp.int32(-1)), (moves.act, moves.value)
    )
    return _Walk(
      at=jnp.append(at, last[0]), step=jnp.append(step, last[1]), reply=reply
    )


def _latest(mask: jax.Array) -> jax.Array:
  """Returns where the mask held last before each place: i32[M], -1 nowhere."""
  here = jnp.where(mask, jnp.arange(mask.size), -1)
  latest = jax.lax.cummax(here)
  return jnp.concatenate([jnp.array([-1]), latest[:-1]])
