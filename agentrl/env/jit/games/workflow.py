"""Workflows: games whose roles, order, sights and pay are a table of a config.

  roles   'planner*3 tool'      name, most turns, kinds of message (acts)
          'executor*3 argument'
          'verifier*3 verdict'
          'generator answer'
  order   'planner executor'    who speaks after whom, the first line that fits:
          'executor verifier'   in which the role said that (behind a colon)
          'verifier:n planner'  and the next one has turns left. Where none fits
          'verifier generator'  the match is over
  hidden  'planner executor'    the first does not read what the second says
  pay     'planner own*0.5 outcome'

The first role begins. All read the question, what was said so far with what
the world answered to it, and at the end their own name; of a name with a dot,
such as generator.first, what stands before it. Each role is a seat, a
conversation of its own, and `rollout.seats` says which share parameters.

What seat s gets at the end is the sum of weight times term, over the different
terms of its one line in `pay`; without a line it is the outcome:

  outcome   right(last answer), 0 if there is none
  gain      right(last answer) - right(first answer)
  own       mean of right over its own messages, 0 if it never spoke
  cost      - cost x searches, everybody's
  esteem    mean of (score - 1) / 2 over all scores
  doubt     1 - esteem; both 0 if nothing was scored
"""

import dataclasses
import functools
import itertools
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from agentrl.env.jit.games import base
from agentrl.env.jit.games.problems import ANSWER, SCORE, STOP, Moves, Problem

TERMS = ('outcome', 'gain', 'own', 'cost', 'esteem', 'doubt')
# Columns of turns: how true a message is, whether it is a search, of a score
# (s - 1) / 2 less the truth of the answer (above 0 it favours the solver), and
# how many messages of the match went before.
RIGHT, SEARCHED, OVERRATED = 'right', 'searched', 'overrated'
MOMENT = 'moment'
MOST = 24  # messages of a match
_SEARCHED = 10_000  # most states in which lines of `order` are looked for
_ROLE = re.compile(r'([a-z_]+(?:\.[a-z_]+)?)(?:\*([1-9][0-9]?))?')
_TERM = re.compile(r'([a-z]+)(?:\*(-?[0-9]+(?:\.[0-9]+)?))?')


class Role(NamedTuple):
  """A line of `roles`."""

  name: str
  turns: int
  acts: tuple[str, ...]

  @property
  def shown(self) -> str:
    return self.name.partition('.')[0]


class Edge(NamedTuple):
  """A line of `order`; roles are numbers."""

  of: int
  said: str  # '': anything
  to: int


class Table(NamedTuple):
  """Who speaks when, what each of S roles reads, and what it gets."""

  roles: tuple[Role, ...]
  edges: tuple[Edge, ...]
  hidden: tuple[tuple[int, int], ...]  # who does not read whom
  pay: tuple[tuple[float, ...], ...]  # [S][len(TERMS)]


def read(
  problem: Problem,
  roles: Sequence[str],
  order: Sequence[str],
  hidden: Sequence[str] = (),
  pay: Sequence[str] = (),
) -> Table:
  """Reads a table.

  Raises:
    ValueError: a line is not in form, or names what there is not.
  """
  made = tuple(_role(problem, line) for line in roles)
  names = [x.name for x in made]
  if len(names) < 2 or len(set(names)) < len(names):
    raise ValueError(
      f'env.roles must be two or more of different names, got {tuple(roles)}'
    )
  most = sum(x.turns for x in made)
  if most > MOST:
    raise ValueError(
      f'env.roles must have at most {MOST} turns in all, got {most}'
    )
  edges = tuple(_edge(problem, made, line) for line in order)
  texts = tuple(_words(problem, x.acts) for x in made)
  fit, followed = _follow(made, edges, texts)
  reached = {0} | {edges[i].to for i in followed}
  if len(reached) < len(made):
    apart = [x.name for i, x in enumerate(made) if i not in reached]
    raise ValueError(
      f'env.order must lead from {names[0]!r} to every role, got no way to'
      f' {apart}, by the first line that fits'
    )
  if shadowed := fit - followed:
    raise ValueError(
      'env.order must have lines that can be the first that fits, got'
      f' {order[min(shadowed)]!r} behind lines of which one always fits'
    )
  unseen = []
  for line in hidden:
    words = line.split()
    if len(words) != 2 or not {*words} <= {*names}:
      raise ValueError(
        f'env.hidden must be lines of two roles of {names}, got {line!r}'
      )
    unseen.append((names.index(words[0]), names.index(words[1])))
  weights: dict[str, dict[str, float]] = {}
  for line in pay:
    name, *terms = line.split() or ['']
    if name not in names or not terms:
      raise ValueError(
        f'env.pay must be lines of a role of {names} and its terms, got'
        f' {line!r}'
      )
    if name in weights:
      raise ValueError(
        f'env.pay must have at most one line of a role, got a second one,'
        f' {line!r}'
      )
    read_terms = [_term(x) for x in terms]
    weights[name] = dict(read_terms)
    if len(weights[name]) < len(read_terms):
      raise ValueError(
        f'env.pay must have a term once in a line, got {line!r}; add its'
        ' weights up'
      )
  unpaid = {'outcome': 1.0}
  rows = tuple(
    tuple(weights.get(n, unpaid).get(x, 0.0) for x in TERMS) for n in names
  )
  by_answer = [row[TERMS.index(x)] for row in rows for x in ('outcome', 'gain')]
  if any(by_answer) and not any(ANSWER in x.acts for x in made):
    raise ValueError(
      f'env.roles must have one that may {ANSWER!r} where env.pay is of outcome'
      f' or gain, as it is by default, got {tuple(roles)}'
    )
  return Table(made, edges, tuple(unseen), rows)


def _words(problem: Problem, acts: Sequence[str]) -> tuple[str, ...]:
  return tuple(x for act in acts for x in problem.acts[act])


@functools.lru_cache(maxsize=256)
def _follow(
  roles: tuple[Role, ...],
  edges: tuple[Edge, ...],
  texts: tuple[tuple[str, ...], ...],
) -> tuple[frozenset[int], frozenset[int]]:
  """Returns the lines that fit somewhere, and those that are followed.

  By all matches: a state is who has just spoken and how often each has. Where
  there are very many of them, all lines count as followed.

  Args:
    texts: what each role may say [S]
  """
  start = 0, tuple(int(i == 0) for i in range(len(roles)))
  seen, new = {start}, [start]
  fit: set[int] = set()
  followed: set[int] = set()
  while new and len(followed) < len(edges) and len(seen) < _SEARCHED:
    seat, spoken = new.pop()
    left = [x for x, role in enumerate(roles) if spoken[x] < role.turns]
    own = [i for i, x in enumerate(edges) if x.of == seat and x.to in left]
    fit.update(own)
    for text in texts[seat]:
      at = next((i for i in own if edges[i].said in ('', text)), None)
      if at is None:
        continue
      followed.add(at)
      to = edges[at].to
      after = to, tuple(n + (x == to) for x, n in enumerate(spoken))
      if after not in seen:
        seen.add(after)
        new.append(after)
  if new:
    followed = set(range(len(edges)))
  return frozenset(fit), frozenset(followed)


def _role(problem: Problem, line: str) -> Role:
  name, *acts = line.split() or ['']
  fits = _ROLE.fullmatch(name)
  if not fits or not acts or not {*acts} <= {*problem.acts}:
    raise ValueError(
      "env.roles must be lines such as 'solver*2 answer', of the acts"
      f' {tuple(problem.acts)}, got {line!r}'
    )
  texts = _words(problem, acts)
  if len(set(texts)) < len(texts):
    raise ValueError(
      f'env.roles must have no act twice, or two of one text, got {line!r}'
    )
  return Role(fits[1], int(fits[2] or 1), tuple(acts))


def _edge(problem: Problem, roles: Sequence[Role], line: str) -> Edge:
  names, words = [x.name for x in roles], line.split()
  of, _, said = words[0].partition(':') if words else ('', '', '')
  if len(words) != 2 or not {of, words[1]} <= {*names}:
    raise ValueError(
      "env.order must be lines such as 'verifier:n planner', of the roles"
      f' {names}, got {line!r}'
    )
  at = names.index(of)
  texts = _words(problem, roles[at].acts)
  if said and said not in texts:
    raise ValueError(
      f'env.order must name what {of!r} may say, one of {texts}, got {line!r}'
    )
  return Edge(at, said, names.index(words[1]))


def _term(text: str) -> tuple[str, float]:
  fits = _TERM.fullmatch(text)
  if not fits or fits[1] not in TERMS:
    raise ValueError(
      f"env.pay must have terms of {TERMS}, each as 'own' or 'own*0.5', got"
      f' {text!r}'
    )
  return fits[1], float(fits[2] or 1)


class FlowState(struct.PyTreeNode):
  """A match under way."""

  task: Any  # of the problem
  moves: Moves
  who: jax.Array  # [M] i32  the seat of each message; -1: not said yet
  seat: jax.Array  # [] i32  that speaks next; S: nobody, the match is over


@dataclasses.dataclass(frozen=True)
class Workflow:
  """Rules (base.py) of a table over a problem.

  Args:
    untaught: roles whose demonstrations are random; the others' are an expert's
    cost: of a search, for the term `cost`
  """

  problem: Problem
  table: Table
  untaught: tuple[str, ...] = ()
  cost: float = 0.0

  solvable = False
  columns = (RIGHT, SEARCHED, OVERRATED, MOMENT)

  @property
  def title(self) -> str:
    return f'workflow-{self.problem.title}'

  @property
  def seats(self) -> int:
    return len(self.table.roles)

  @property
  def deals(self) -> int:
    return self.problem.deals

  @property
  def turns(self) -> int:
    return max(x.turns for x in self.table.roles)

  @property
  def length(self) -> int:
    """M, the most messages of a match."""
    return sum(x.turns for x in self.table.roles)

  @property
  def actions(self) -> tuple[str, ...]:
    texts = (x for r in self.table.roles for a in r.acts for x in self._of(a))
    return tuple(dict.fromkeys(texts))

  def _of(self, act: str) -> tuple[str, ...]:
    return self.problem.acts[act]

  @property
  def pieces(self) -> tuple[str, ...]:
    names = dict.fromkeys(f' {x.shown}\n' for x in self.table.roles)
    return (*self.actions, *self.problem.pieces, *names)

  @property
  def obs_len(self) -> int:
    return self.problem.shown + 2 * self.length + 1

  @property
  def system(self) -> str:
    return f'{self.problem.system} The last line says which role you have.'

  def deal(self, number: jax.Array) -> FlowState:
    none = jnp.full(self.length, -1, jnp.int32)
    return FlowState(
      task=self.problem.deal(number),
      moves=Moves(act=none, value=none),
      who=none,
      seat=jnp.int32(0),
    )

  def seat(self, state: FlowState) -> jax.Array:
    return jnp.minimum(state.seat, self.seats - 1)

  def legal(self, state: FlowState) -> jax.Array:
    return jnp.asarray(self._meaning()[0] >= 0)[self.seat(state)]

  def play(self, state: FlowState, action: jax.Array) -> FlowState:
    at, seat = jnp.minimum(count(state), self.length - 1), self.seat(state)
    act, value = (jnp.asarray(x)[seat, action] for x in self._meaning())
    moves = Moves(
      act=state.moves.act.at[at].set(act),
      value=state.moves.value.at[at].set(value),
    )
    state = state.replace(moves=moves, who=state.who.at[at].set(seat))
    spoken = jnp.sum(state.who[None] == jnp.arange(self.seats)[:, None], axis=1)
    following = jnp.int32(self.seats)
    for edge in reversed(self.table.edges):
      fits = (seat == edge.of) & (
        spoken[edge.to] < self.table.roles[edge.to].turns
      )
      if edge.said:
        fits &= action == self.actions.index(edge.said)
      following = jnp.where(fits, edge.to, following)
    return state.replace(seat=following)

  def over(self, state: FlowState) -> jax.Array:
    return state.seat == self.seats

  def observe(self, state: FlowState, seat: jax.Array) -> jax.Array:
    """Shows question, record and role: 3ab:a3=5 planner."""
    problem, moves = self.problem, state.moves
    world = len(self.actions)  # where pieces of the problem begin
    sees = np.ones((self.seats, self.seats), bool)
    for reader, writer in self.table.hidden:
      sees[reader, writer] = False
    said = (state.who >= 0) & jnp.asarray(sees)[seat, state.who]  # [M]
    said &= ~self._is(moves, STOP)  # which tells nothing
    text = jnp.asarray(self._texts())[moves.act, moves.value]
    reply = problem.replies(state.task, moves)
    shown = [
      jnp.where(said, text, -1),
      jnp.where(said & (reply >= 0), world + reply, -1),
    ]
    asked = problem.ask(state.task)
    names = [self.pieces.index(f' {x.shown}\n') for x in self.table.roles]
    return base.packed(
      jnp.concatenate(
        [
          jnp.where(asked >= 0, world + asked, -1),
          jnp.stack(shown, axis=1).reshape(-1),
          jnp.asarray(names)[seat][None],
        ]
      )
    )

  def returns(self, state: FlowState) -> jax.Array:
    terms = jnp.stack([self._terms(state)[x] for x in TERMS])  # [T, S]
    paid = jnp.einsum('st,ts->s', jnp.asarray(self.table.pay), terms)
    return jnp.where(self.over(state), paid, 0.0).astype(jnp.float32)

  def solved(self, state: FlowState) -> jax.Array:
    """Returns whether the last answer is right, of every seat: bool[S]."""
    return self._terms(state)['outcome'] > 0.5

  def info(self, before: FlowState, after: FlowState) -> dict[str, jax.Array]:
    """Tells what `columns` name of the message between two states."""
    at = jnp.minimum(count(before), self.length - 1)
    made = count(after) > count(before)
    own = {
      RIGHT: self.problem.right(after.task, after.moves)[at],
      SEARCHED: self._searches(after.moves)[at],
      OVERRATED: jnp.float32(0),
      MOMENT: at.astype(jnp.float32),
    }
    if SCORE in self.problem.acts:
      terms, is_score = self._terms(before), self._is(after.moves, SCORE)[at]
      over = after.moves.value[at] / 2 - terms['outcome'][0]
      own[OVERRATED] = jnp.where(is_score, over, 0.0)
    return {name: jnp.where(made, x, 0.0) for name, x in own.items()}

  def taught_moves(self, state: FlowState) -> jax.Array:
    """Returns what demonstrations say next: probabilities f32[A]."""
    expert = self.problem.expert(state.task, state.moves)
    weights = jnp.concatenate(list(expert.values()))
    start = np.cumsum([0, *(len(x) for x in self.problem.acts.values())])
    act, value = self._meaning()
    at = np.where(act >= 0, start[act] + value, 0)
    seat = self.seat(state)
    own = jnp.where(self.legal(state), weights[jnp.asarray(at)[seat]], 0)
    taught = jnp.asarray(
      [x.name not in self.untaught for x in self.table.roles]
    )
    own = jnp.where(taught[seat] & (jnp.sum(own) > 0), own, self.legal(state))
    return own / jnp.sum(own)

  def _terms(self, state: FlowState) -> dict[str, jax.Array]:
    """Returns the terms of pay, f32[S] each."""
    moves = state.moves
    right = self.problem.right(state.task, moves)  # [M]
    answer = self._is(moves, ANSWER)
    when = jnp.arange(self.length)
    last = jnp.max(jnp.where(answer, when, -1))
    first = jnp.argmax(answer)  # 0 if there is none
    outcome = jnp.where(last >= 0, right[jnp.maximum(last, 0)], 0.0)
    gain = outcome - jnp.where(last >= 0, right[first], 0.0)
    own = state.who[None] == jnp.arange(self.seats)[:, None]  # [S, M]
    mean = jnp.sum(own * right[None], axis=1) / jnp.maximum(
      jnp.sum(own, axis=1), 1
    )
    searches = jnp.sum(self._searches(moves))
    score = self._is(moves, SCORE)
    scores = jnp.sum(score)
    esteem = jnp.sum(jnp.where(score, moves.value / 2, 0.0))
    esteem /= jnp.maximum(scores, 1)
    all_ = dict(
      outcome=outcome,
      gain=gain,
      cost=-self.cost * searches,
      esteem=esteem,
      doubt=jnp.where(scores > 0, 1 - esteem, 0.0),
    )
    terms = {x: jnp.broadcast_to(y, self.seats) for x, y in all_.items()}
    return terms | {'own': mean}

  def _searches(self, moves: Moves) -> jax.Array:
    """Returns which messages are searches, f32[M]."""
    which = [self._is(moves, act) for act in self.problem.costly]
    return sum(which, jnp.zeros(self.length)).astype(jnp.float32)

  def _is(self, moves: Moves, act: str) -> jax.Array:
    """Returns which messages are of an act, bool[M]; problems may lack it."""
    acts = list(self.problem.acts)
    if act not in acts:
      return jnp.zeros(self.length, bool)
    return moves.act == acts.index(act)

  def _meaning(self) -> tuple[np.ndarray, np.ndarray]:
    """Returns act and value of what each seat may say, [S, A] i32; -1: not."""
    actions, acts = self.actions, list(self.problem.acts)
    act = np.full((self.seats, len(actions)), -1, np.int32)
    value = act.copy()
    for seat, role in enumerate(self.table.roles):
      for name in role.acts:
        for i, text in enumerate(self._of(name)):
          at = seat, actions.index(text)
          act[at], value[at] = acts.index(name), i
    return act, value

  def _texts(self) -> np.ndarray:
    """Returns the piece of each act's texts, [acts, most texts] i32."""
    acts, actions = self.problem.acts, self.actions
    rows = (
      [actions.index(x) if x in actions else -1 for x in t]
      for t in acts.values()
    )
    columns = itertools.zip_longest(*rows, fillvalue=-1)
    return np.array(list(columns), np.int32).T


def count(state: FlowState) -> jax.Array:
  """Counts the messages said, i32[]."""
  return jnp.sum(state.who >= 0)
