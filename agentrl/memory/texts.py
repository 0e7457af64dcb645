"""A bank of texts: written after an update, read before later attempts.

An entry has come from a training task, of another none is taken, and knows what
came of it: how often it was read, and how often what read it was solved. What
stands in the bank is read by components of the slot 'recall', and by nothing
else. It is a bounded array of tokens in the TrainState, so that checkpoints
hold it and a run that was killed goes on bit for bit.
"""

import functools
from collections.abc import Callable
from typing import Annotated, Any

import jax
import jax.numpy as jnp
from flax import struct

from agentrl import domain, mesh, registry, segment
from agentrl.advantage import returns
from agentrl.memory import likeness, trajectory_ring
from agentrl.memory.base import Memory
from agentrl.text import observation_tokens
from agentrl.types import (
  NOTE,
  NOTE_WRITTEN,
  Array,
  Batch,
  Credit,
  Metrics,
  Rows,
  Status,
  Written,
)

ASK = (
  'Compare the attempts at one task. Write down what would help next time, in a'
  ' sentence each.'
)
WRITES = 'note'  # term of turns whose message is a note
ABOUT = ('group', 'batch')  # what a service is asked about
_FORGOTTEN = 1e-6  # of a reader, decayed
_PRIOR = 16.0  # readers that every entry is taken to have had


class TextBank(struct.PyTreeNode):
  """C entries of at most W tokens. A length of 0: there is none."""

  tokens: Array  # [C, W] i32
  length: Array  # [C] i32
  task: Array  # [C] i32  training task it came from
  written: Array  # [C] i32  step that wrote it; -1: never
  read: Array  # [C] f32  trajectories that read it
  decisive: Array  # [C] f32  those of them that were solved
  earned: Array  # [C] f32  sum of the returns of those that read it
  reward: Array  # [C] f32  return of the attempt that it is; 0: of none
  tasks: Array  # [] i32  training tasks; held-out ones have the next numbers
  refused: Array  # [] i32  operations so far that another task was to write


def empty(capacity: int, width: int, tasks: int) -> TextBank:
  """Makes a bank without entries, for a number of training tasks."""
  return TextBank(  # a buffer each: a state is donated
    tokens=jnp.zeros((capacity, width), jnp.int32),
    length=jnp.zeros(capacity, jnp.int32),
    task=jnp.full(capacity, -1, jnp.int32),
    written=jnp.full(capacity, -1, jnp.int32),
    read=jnp.zeros(capacity),
    decisive=jnp.zeros(capacity),
    earned=jnp.zeros(capacity),
    reward=jnp.zeros(capacity),
    tasks=jnp.int32(tasks),
    refused=jnp.int32(0),
  )


def score(bank: TextBank):
  """Scores every entry by what came of it: [C] in (0, 1), .5 if unread.

    s = (decisive + 1) / (read + 2)

  The mean of a uniform prior after that evidence; EvolveR's score of its
  principles (2510.16079).
  """
  return (bank.decisive + 1) / (bank.read + 2)


def mean(bank: TextBank):
  """Returns the mean return of each entry's readers, 0 if unread: [C]."""
  some = bank.read > 0
  return (bank.earned / (bank.read + ~some)) * some


def worth(bank: TextBank):
  """Estimates what each entry earns, whose readers may be few: [C].

    (sum of its readers' returns + 16 m) / (readers + 16)

  m is the mean return of all that read an entry, so that one lucky group is not
  the best; an entry that is unread is worth m.
  """
  live = bank.length > 0
  read, earned = bank.read * live, bank.earned * live
  total = read.sum()
  every = earned.sum() / (total + (total == 0))
  return (earned + _PRIOR * every) / (read + _PRIOR)


def standing(bank: TextBank):
  """Orders entries by what they earn, the one to drop first lowest: [C].

    worth                       if it was read
    the largest worth of those  if it is unread, so that it is tried first
    infinity                    for the best, read and of that worth

  Under a decay a score tends to .5 for what is not read, and where few solve
  that is above the score of the best. Worth tends to what all readers earn.
  """
  tried = (bank.length > 0) & (bank.read > 0)
  value = worth(bank)
  most = jnp.max(value, initial=-jnp.inf, where=tried)
  best = tried & (value >= most)
  return jnp.where(best, jnp.inf, jnp.where(tried, value, most))


def credited(bank: TextBank, batch: Batch, decay: float = 1.0) -> TextBank:
  """Counts what was read, what of it was solved, and sums what it earned.

    n <- decay n + readers now,   and so the sums; their mean earned / read is

    sum over updates s of decay^(now - s) r_s / sum of decay^(now - s)

  so that it follows a policy that changes. Unread, an entry keeps that mean,
  while its score goes to .5 and its worth to m, until it counts as unread.
  Fresh trajectories that were played, whether they are trained on or not, and
  only for the entry that they read: one that was written anew since has nothing
  to do with them.
  """
  known = decay * bank.read >= _FORGOTTEN
  read, decisive, earned = (
    jnp.where(known, decay * x, 0.0)
    for x in (bank.read, bank.decisive, bank.earned)
  )
  counts, solved = played(batch), batch.outcome > 0.5
  turns = batch.turns  # a return, also of what is not trained on
  total = jnp.sum(jnp.where(turns.valid, turns.reward, 0), axis=1)
  for slot, written in zip(*entries_read(batch), strict=True):
    at = jnp.maximum(slot, 0)
    same = bank.written[at] == written
    ok = (counts & (slot >= 0) & same).astype(read.dtype)
    read = read.at[at].add(ok)
    decisive = decisive.at[at].add(ok * solved)
    earned = earned.at[at].add(ok * total)
  return bank.replace(read=read, decisive=decisive, earned=earned)


def played(batch: Batch) -> Array:
  """Marks fresh trajectories whose environment did not break: [B] bool."""
  fresh = batch.ids['source'] == 0
  whole = batch.status != Status.ENV_ERROR
  return fresh & whole & jnp.any(batch.turns.valid, axis=1)


def entries_read(batch: Batch) -> tuple[Array, Array]:
  """Returns what trajectories have read, each entry once: [R, B] i32 twice.

  Entries, -1: none; and the steps at which they were written. They are named in
  ids, or in terms of the turns that read them.
  """
  b = batch.outcome.shape[0]
  entry, written = [jnp.full((0, b), -1)], [jnp.full((0, b), -1)]
  i = 0
  while f'{NOTE}{i}' in batch.ids:
    entry.append(batch.ids[f'{NOTE}{i}'][None])
    written.append(batch.ids[f'{NOTE_WRITTEN}{i}'][None])
    i += 1
  turns, i = batch.turns, 0
  while f'{NOTE}{i}' in turns.terms:
    of_turns = jnp.where(turns.valid, turns.terms[f'{NOTE}{i}'], -1)
    entry.append(of_turns.T)
    written.append(turns.terms[f'{NOTE_WRITTEN}{i}'].T)
    i += 1
  every, steps = (
    jnp.concatenate(x).astype(jnp.int32) for x in (entry, written)
  )

  def same(x):
    return x[:, None] == x[None]  # [R, R, B]

  earlier = jnp.tril(jnp.ones((len(every),) * 2, bool), -1)[..., None]
  again = jnp.any(same(every) & same(steps) & earlier, axis=1)
  return jnp.where(again, -1, every), steps


def retired(
  bank: TextBank, floor: float, reads: int, stay: int = 0
) -> TextBank:
  """Drops entries whose score is below `floor` after at least `reads` reads.

  The first `stay` places keep theirs.
  """
  poor = (bank.read >= reads) & (score(bank) < floor)
  poor &= jnp.arange(poor.size) >= stay
  return bank.replace(length=jnp.where(poor, 0, bank.length))


def applied(
  bank: TextBank,
  new: Written,
  step,
  *,
  merge: float = 1.0,
  stay: int = 0,
  value: Callable[[TextBank], Array] = score,
) -> TextBank:
  """Applies operations: first updates and deletions, then additions.

    entry >= 0, length > 0   UPDATE: another text for the entry, its counts stay
    entry >= 0, length = 0   DELETE
    entry <  0, length > 0   ADD, unless an entry has the same text, or one
                             whose `likeness` to it is at least `merge`
    entry <  0, length = 0   NOOP

  An operation on an entry that was written anew since it was seen does nothing.
  One about a task that is not a training task is refused, and counted.
  Additions take empty places first, then those of the lowest value, of equal
  ones the oldest, but none that this step has written; what finds no place is
  left out.

  Args:
    new: n operations; of several on one entry the last is applied
    merge: 1: entries of the same text alone are one
    stay: the first places, whose entries no operation changes
    value: of every entry, [C]
  """
  capacity = bank.length.shape[0]
  known = (new.task >= 0) & (new.task < bank.tasks)
  refused = jnp.sum(~known & ((new.entry >= 0) | (new.length > 0)))
  old = known & (new.entry >= stay)
  old &= bank.written[jnp.maximum(new.entry, 0)] == new.seen
  later = jnp.triu(new.entry[:, None] == new.entry[None], 1) & old[None]
  again = jnp.any(later, axis=1)
  at = jnp.where(old & ~again, new.entry, capacity)
  bank = bank.replace(
    tokens=bank.tokens.at[at].set(new.tokens, mode='drop'),
    length=bank.length.at[at].set(new.length, mode='drop'),
    written=bank.written.at[at].set(step, mode='drop'),
  )
  add = known & (new.entry < 0) & (new.length > 0)
  there = likeness.alike(new, bank, merge) & (bank.length > 0)[None]
  add &= ~jnp.any(there, axis=1)
  earlier = jnp.tril(likeness.alike(new, new, merge), -1) & add[None]
  add &= ~jnp.any(earlier, axis=1)
  live = bank.length > 0
  now = live & (bank.written == step)
  now |= live & (jnp.arange(capacity) < stay)
  order = jnp.lexsort((bank.written, value(bank), live, now))
  rank = jnp.cumsum(add) - 1
  free = add & (rank < jnp.minimum(jnp.sum(~now), capacity))
  slot = jnp.where(free, order[jnp.clip(rank, 0, capacity - 1)], capacity)

  def put(x, y):
    return x.at[slot].set(y, mode='drop')

  return TextBank(
    tokens=put(bank.tokens, new.tokens),
    length=put(bank.length, new.length),
    task=put(bank.task, new.task),
    written=put(bank.written, step),
    read=put(bank.read, 0.0),
    decisive=put(bank.decisive, 0.0),
    earned=put(bank.earned, 0.0),
    reward=put(bank.reward, new.reward),
    tasks=bank.tasks,
    refused=bank.refused + refused,
  )


# What is written: (batch, W) -> operations.


def solutions(batch: Batch, width: int, least: float = 0.0) -> Written:
  """Adds the messages of every group's shortest solved attempt.

  Args:
    least: return of an attempt, at least
  """
  group, b = segment.compact_ids(batch.ids['group']), batch.outcome.shape[0]
  solved = played(batch) & (batch.outcome > 0.5)
  solved &= returns.episode(batch)[0] >= least
  tokens = jnp.sum(batch.turns.terms['tokens'], axis=1)
  shortest = -segment.segment_max(-tokens, group, solved)
  best, at = solved & (tokens == shortest), jnp.arange(b, dtype=tokens.dtype)
  chosen = best & (at == -segment.segment_max(-at, group, best))
  return added(batch, chosen[:, None] & batch.turns.valid, width)


def notes(batch: Batch, width: int) -> Written:
  """Adds the note of every trajectory: its newest turn of the term `note`."""
  turns = batch.turns
  wrote = turns.valid & (turns.terms[WRITES] > 0) & played(batch)[:, None]
  k = jnp.arange(wrote.shape[1])
  newest = jnp.max(jnp.where(wrote, k[None], -1), axis=1, keepdims=True)
  return added(batch, wrote & (k[None] == newest), width)


def services(batch: Batch, width: int) -> Written:
  """Applies what a service wrote while the batch was collected."""
  del width  # the service was told
  assert batch.written is not None
  return batch.written


WRITERS: dict[str, Callable[[Batch, int], Written]] = {
  'solution': solutions,
  'note': notes,
  'service': services,
}


def added(batch: Batch, turns: Array, width: int) -> Written:
  """Adds the first `width` tokens of each trajectory's messages at some turns.

  Args:
    turns: [B, K] bool; trajectories without any add nothing
  """
  rows, b = trajectory_ring.by_trajectory(batch.rows, batch), len(turns)

  def f(rows: Rows, turns: Array) -> tuple[Array, Array]:
    tokens, turn = rows.tokens.reshape(-1), rows.turn.reshape(-1)
    keep = segment.in_message(rows).reshape(-1)
    keep &= (turn >= 0) & turns[jnp.maximum(turn, 0)]
    text, size = observation_tokens.compact(tokens, keep, 0)
    text = jnp.pad(text, (0, max(0, width - text.size)))[:width]
    return text, jnp.minimum(size, width).astype(jnp.int32)

  tokens, length = jax.vmap(f)(rows, turns)
  nothing = jnp.full(b, -1, jnp.int32)
  return Written(
    tokens=tokens,
    length=length,
    task=batch.ids['task'],
    entry=nothing,
    seen=nothing,
    reward=returns.episode(batch)[0],
  )


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Says what is wrong with who writes; '' if nothing is."""
  given = dict(spec.values('memory', texts.__name__))
  values = registry.get('memory', texts.__name__).defaults | given
  write, service = values['write'], values['service']
  most = values['operations'] if write == 'service' else 0
  first = [x.strip() for x in values['first']]
  if len(first) > most:
    return (
      'hp.memory.texts.first must be at most hp.memory.texts.operations texts,'
      f" with write='service', got {len(first)} with"
      f' operations={values["operations"]!r}, write={write!r}'
    )
  if first and len(first) >= values['capacity']:
    return (
      'hp.memory.texts.capacity must be above the number of texts of'
      ' hp.memory.texts.first, which stay, so that another has a place, got'
      f' {values["capacity"]!r} with {len(first)}'
    )
  if len({*first}) < len(first):
    return (
      'hp.memory.texts.first must be texts that differ, got'
      f' {max(first, key=first.count)!r:.80} twice'
    )
  if (write == 'service') != bool(service):
    return (
      'hp.memory.texts.service must name a service of c.service with write='
      f"'service', and be '' without, got {service!r} with write={write!r}"
    )
  if service and service not in config.service:
    return (
      'hp.memory.texts.service must be one of c.service,'
      f' {tuple(config.service)}, got {service!r}'
    )
  return ''


@registry.register('memory', gives=('memory:texts',), check=fits)
def texts(
  *,
  capacity: domain.Count = 256,
  tokens: domain.Count = 64,
  write: Annotated[str, domain.OneOf(*WRITERS)] = 'solution',
  service: Annotated[str, domain.Text('a service')] = '',
  instruction: Annotated[str, domain.Text('a text', empty=False)] = ASK,
  contrast: Annotated[bool, domain.Flag()] = True,
  operations: domain.Count = 2,
  shown: domain.Count = 16,
  about: Annotated[str, domain.OneOf(*ABOUT)] = 'group',
  every: domain.Count = 1,
  first: Annotated[
    tuple[str, ...], domain.Tuple(domain.Text('a text', empty=False))
  ] = (),
  decay: domain.Share = 1.0,
  least: Annotated[float, domain.Real()] = 0.0,
  merge: Annotated[float, domain.Real(0, 1, above=True, compiled=True)] = 1.0,
  floor: domain.Rate = 0.0,
  reads: domain.Count = 4,
) -> Memory:
  """Writes texts into a bank after each update, and drops those that mislead.

    s = (decisive + 1) / (read + 2);   dropped if s < floor and read >= reads

  The three of a step in this order: what was read is counted, entries are
  dropped, the operations of `write` are applied. Those about a held-out task
  are refused, and counted in `texts/refused`.

  Args:
    capacity: C, entries; the one of the lowest score makes room, with decay
      below 1 the one whose readers earn least (`standing`)
    tokens: W of an entry, what is longer is cut
    write: 'solution', the messages of a group's shortest solved attempt;
      'note', the messages of turns that the environment calls a note (a term
      of its turns); 'service', what `service` says about every group
    service: name in c.service, with write='service'
    instruction: what it is asked to do, before entries and attempts
    contrast: it is asked only about groups that have solved and failed
    operations: about a group, at most
    shown: entries that it sees, at most: those read, then the best scored
    about: 'group', it is asked about every group; 'batch', once, about the
      attempts that have read the best entry, failures first, `shown` at most,
      and entries stand with what they earned
    every: steps from one time that it is asked to the next
    first: texts that an empty bank begins with; they stay, each of at most
      `tokens`, no two alike, and fewer than `capacity`
    decay: of what came of earlier reads, at each update; below 1 counts,
      scores and worth follow a policy that changes
    least: return of an attempt that is written, at least, with
      write='solution'
    merge: likeness, from which a new text is one that is there, so that it is
      not written; 1: the same text alone
    floor: score below which an entry is dropped; 0: none is
    reads: trajectories that have read it by then
  """

  # Of run/play/writing and run/play/recalled.
  del service, instruction, contrast, operations, shown, about, every
  written = WRITERS[write]
  if write == 'solution':
    written = functools.partial(solutions, least=least)

  def value(bank):  # a decay may follow a schedule
    return jnp.where(decay < 1, standing(bank), score(bank))

  def put(bank: TextBank, batch: Batch, credit: Credit, step) -> TextBank:
    def f(bank, batch, step):
      stay = len(first)
      bank = retired(credited(bank, batch, decay), floor, reads, stay)
      new = written(batch, tokens)
      return applied(bank, new, step, merge=merge, stay=stay, value=value)

    return mesh.auto(f, None)(bank, batch, step)

  def init(batch: Batch, tasks: int) -> TextBank:
    check(batch, write)
    return empty(capacity, tokens, tasks)

  return Memory(init=init, write=put, measure=measure)


def check(batch: Batch, write: str) -> None:
  """Raises ValueError for batches that a rule cannot write from."""
  b, n = batch.outcome.shape[0], batch.rows.traj.shape[0]
  if n % b:
    raise ValueError(
      f"c.memory: 'texts' needs the same number of rows per trajectory, got"
      f" {n} rows for {b}; set rollout.history to 'turn' or 'full'"
    )
  if write == 'note' and WRITES not in batch.turns.terms:
    raise ValueError(
      "hp.memory.texts.write='note' needs an environment with the column"
      f' {WRITES!r}, got columns {tuple(sorted(batch.turns.terms))}; choose'
      " another, or write='solution'"
    )


def measure(bank: TextBank) -> Metrics:
  """Measures the bank: entries, their score, what was read at all."""
  live = (bank.length > 0).astype(jnp.float32)
  count, one = jnp.sum(live), jnp.ones(())
  return {
    'texts/entries': (count, one),
    'texts/score': (jnp.sum(live * score(bank)), count),
    'texts/read': (jnp.sum(live * (bank.read > 0)), count),
    'texts/tokens': (jnp.sum(live * bank.length), count),
    'texts/refused': (bank.refused, one),
  }
