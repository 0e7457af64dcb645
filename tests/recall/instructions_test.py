"""A population of instructions: who is drawn, what it earned, what is new."""

import functools
import json
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.env.worlds import door_codes
from agentrl.env.worlds.door_codes import DoorCodes
from agentrl.memory import texts
from agentrl.recall import base, operations
from agentrl.run.play import writing
from agentrl.text import tokenizer
from agentrl.text.message import Message
from agentrl.types import Batch, Status
from tests.recall import retrieval_test as recalls

WORDS = tokenizer.Embedded()
GROUP, GROUPS, FIRST = 4, 6, 'a1\nb1\nc1'


def draws(bank, groups=20_000, **fields):
  """The share of groups that read each entry."""
  hp = {x: fields.pop(x) for x in ('temperature', 'arm') if x in fields}
  none = np.zeros((1, 0), np.float32)
  x = base.RecallInputs(bank, np.zeros(groups, int), none, **fields)
  got = registry.bind('recall', 'rewarded', hp)(x)
  return np.bincount(got[:, 0] + 1, minlength=len(bank.length) + 1) / groups


def test_instructions_are_drawn_by_what_readers_earn():
  bank = recalls.bank(
    [[5], [6], [7], [8], []],
    read=np.array([4, 8, 0, 2, 9.0]),
    earned=np.array([1, 4, 0, -1, 9.0]),
  )
  # All readers earn 4 / 14; what is unread has the largest of the others.
  worth = (np.array([1, 4, 0, -1]) + 16 * 4 / 14) / (
    np.array([4, 8, 0, 2]) + 16
  )
  np.testing.assert_allclose(texts.worth(bank)[:4], worth, rtol=1e-6)
  worth[2] = worth[1]
  logits = worth / 0.2
  want = np.exp(logits) / np.exp(logits).sum()
  got = draws(bank, seed=0, step=3, temperature=0.2)
  np.testing.assert_allclose(got, [0, *want, 0], atol=0.015)
  assert np.any(got != draws(bank, seed=0, step=4, temperature=0.2))
  assert draws(bank, seed=0, step=-1)[2] == 1  # an evaluation
  assert draws(bank, seed=0, step=3, arm='empty')[0] == 1
  none = recalls.bank([[], []])
  assert draws(none, seed=0, step=3)[0] == 1
  new = recalls.bank([[5], [6]])
  np.testing.assert_allclose(
    draws(new, seed=0, step=3), [0, 0.5, 0.5], atol=0.02
  )


def test_what_was_earned_before_counts_less():
  """The means are those of discounted sums, in float64."""
  rng, bank = np.random.default_rng(0), texts.empty(3, 1, 9)
  bank = bank.replace(length=jnp.array([1, 1, 1]), written=jnp.array([0, 0, 0]))
  history = []
  credit = jax.jit(texts.credited, static_argnums=2)
  for _ in range(30):
    entry = rng.integers(0, 2, 5)  # the last is never read
    reward = rng.normal(size=5)
    history.append((entry, reward))
    bank = credit(bank, read_by(entry, [0] * 5, reward), 0.8)
  for i in range(3):
    weight = 0.8 ** np.arange(30)[::-1]
    n = sum(
      w * (e == i).sum() for w, (e, _) in zip(weight, history, strict=True)
    )
    r = sum(
      w * y[e == i].sum() for w, (e, y) in zip(weight, history, strict=True)
    )
    np.testing.assert_allclose(bank.read[i], n, rtol=1e-5)
    want = r / n if n else 0
    np.testing.assert_allclose(texts.mean(bank)[i], want, atol=1e-5)
  mean = texts.mean(bank)
  for _ in range(10):  # of what is not read it stays
    bank = credit(bank, read_by([-1], [-1], [9.0]), 0.8)
  np.testing.assert_allclose(texts.mean(bank), mean, rtol=1e-5)
  for _ in range(80):  # until it is forgotten
    bank = credit(bank, read_by([-1], [-1], [9.0]), 0.8)
  assert not np.any(bank.read)
  assert not np.any(texts.mean(bank))


def read_by(entry, written, reward):
  """Attempts of one turn, with the entry that each has read."""
  n = len(entry)
  made = Batch.from_turns(
    [[[1]]] * n, [[[-1.0]]] * n, reward=[[float(x)] for x in reward],
    group=[0] * n, outcome=[float(x > 0.5) for x in reward],
  )  # fmt: skip
  ids = {'note0': jnp.array(entry), 'note_written0': jnp.array(written)}
  ids['source'] = jnp.zeros(n, jnp.int32)
  status = jnp.full(n, Status.FAILED, jnp.int32)
  return made.replace(ids=made.ids | ids, status=status)


def test_the_first_ones_stay():
  bank = recalls.bank(
    [[5], [6], [7]],
    read=np.array([9, 9, 9.0]),
    decisive=np.array([0, 0, 5.0]),
    written=np.array([0, 1, 2], np.int32),
  )
  kept = texts.retired(bank, 0.5, 4, stay=1)
  assert kept.length.tolist() == [1, 0, 1]
  known = {0: 'x', 2: 'y'}
  answer = json.dumps(
    [{'op': 'UPDATE', 'entry': 0, 'text': 'b'}, {'op': 'DELETE', 'entry': 0},
     {'op': 'ADD', 'text': 'c'}, {'op': 'ADD', 'text': 'd'}]
  )  # fmt: skip
  made, _ = operations.parsed(answer, known)
  new = operations.written([(0, made)], bank, WORDS, 4)
  on_device = jax.tree.map(jnp.asarray, (bank, new))
  got = texts.applied(*on_device, 3, stay=1)
  assert got.tokens[0].tolist() == bank.tokens[0].tolist()
  assert got.written.tolist() == [0, 3, 3]


def test_failures_of_the_best_come_first():
  bank = recalls.bank(
    [[5], [6], [7]], read=np.array([4, 4, 4.0]), earned=np.array([1, 3, 4.0])
  )
  notes = base.nothing(base.Recall(1, 4, ''), 7)
  notes = notes.replace(entry=np.array([[0], [1], [1], [0], [1], [1], [-1]]))
  attempts = type('Attempts', (), {'notes': notes, 'texts': bank})
  played = np.array([0, 1, 2, 3, 4, 6])  # one was broken
  failed = np.array([1, 0, 0, 1, 1, 1], bool)
  got = writing.of_best(attempts, played, failed, 2)
  assert got.tolist() == [4, 1]  # nobody has read entry 2, which earned most
  attempts.notes = notes.replace(entry=np.full((7, 1), -1))
  got = writing.of_best(attempts, played, failed, 9)
  assert got.tolist() == [0, 3, 4, 6, 1, 2]
  attempts.notes = None
  assert writing.of_best(attempts, played, failed, 3).tolist() == [0, 3, 4]
  nobody = writing.of_best(attempts, played[:0], failed[:0], 3)
  assert nobody.size == 0


@functools.cache
def world(table):
  family = DoorCodes(table=table)
  return family, [x.task for x in family.tasks('train', 30, 0)]


class Search:
  """A population under a policy that follows what it reads in most cases."""

  def __init__(self, seed, tables=(0,), temperature=0.05, decay=0.9):
    self.rng, self.seed, self.temperature = (
      np.random.default_rng(seed), seed, temperature,
    )  # fmt: skip
    self.tables = tables  # of codes; the first half of steps has the first
    hp = dict(write='service', service='x', first=(FIRST,), about='batch',
              decay=decay, tokens=8, capacity=6, operations=1)  # fmt: skip
    self.memory = registry.bind('memory', 'texts', hp)()
    self.bank = jax.device_get(texts.empty(6, 8, 9))
    self.write = jax.jit(self.memory.write)

  def play(self, steps, propose, every=4):
    """Returns which text each group has read, in every step."""
    out = []
    for step in range(steps):
      table = self.tables[step * len(self.tables) // steps]
      family, tasks = world(table)
      x = base.RecallInputs(self.bank, np.zeros(GROUPS, int),
                            np.zeros((1, 0)), self.seed, step)  # fmt: skip
      hp = {'temperature': self.temperature}
      chosen = registry.bind('recall', 'rewarded', hp)(x)[:, 0]
      tried, solved, entry = [], [], np.repeat(chosen, GROUP)
      for i in chosen:
        task = tasks[int(self.rng.integers(len(tasks)))]
        text = self.text(i)
        seen = f'Notes:\n{text}\n' * bool(text) + door_codes.observation(task)
        told = dict(line for line in text.split('\n') if len(line) == 2)
        for _ in range(GROUP):
          said = str(self.rng.integers(1, 4))
          if self.rng.random() < 0.9:
            said = told.get(task['door'][0], said)
          env = family.env()
          env.reset(task, 0)
          solved.append(env.step(said).score)
          tried.append(f'[user] {seen}\n\n[assistant] {said}')
      out.append([self.text(i) for i in chosen])
      made = self.asked(step, propose, every, entry, tried, solved)
      batch = read_by(
        entry, self.bank.written[np.maximum(entry, 0)] * (entry >= 0), solved
      )
      batch = batch.replace(written=jax.tree.map(jnp.asarray, made))
      self.bank = jax.device_get(
        self.write(self.bank, batch, None, jnp.int32(step))
      )
    return out

  def text(self, i):
    ids = base.entry_of(self.bank, i) if i >= 0 else []
    return WORDS.decode(np.asarray(ids, int).tolist())

  def asked(self, step, propose, every, entry, tried, solved):
    made = []
    if not np.any(self.bank.length):
      made = [operations.Operation(FIRST)]
    elif step % every == 0:
      notes = type('Notes', (), {'entry': entry[:, None]})
      x = type('Attempts', (), {'notes': notes, 'texts': self.bank})
      failed = np.array(solved) < 0.5
      some = writing.of_best(x, np.arange(len(tried)), failed, 16)
      known = operations.shown(self.bank, WORDS, 16, [])
      text = operations.question(
        'Write.', operations.earning(known, self.bank),
        [(tried[b], not failed[b]) for b in some],
      )  # fmt: skip
      seed = zlib.crc32(text.encode()) >> 1
      made, refused = operations.parsed(
        propose([Message('user', text)], seed=seed), known
      )
      assert not refused
    return operations.written([(0, made)], self.bank, WORDS, 1)


def true(table=0):
  codes = DoorCodes(table=table).lasting()
  return '\n'.join(f'{x}{y}' for x, y in zip('abc', codes, strict=True))


def plant(*planted):
  """Proposes these texts, one after another, then nothing."""
  left = list(planted)

  def propose(messages, *, seed):
    del messages, seed
    if not left:
      return json.dumps([{'op': 'NOOP'}])
    return json.dumps([{'op': 'ADD', 'text': left.pop(0)}])

  return propose


OTHERS = ('a2\nb2\nc2', 'a3\nb3\nc3', 'a1\nb1\nc2')


def share(steps, text):
  return np.mean([x == text for step in steps for x in step])


@pytest.mark.parametrize('seed', range(3))
def test_a_planted_instruction_takes_over_and_not_by_chance(seed):
  texts_in_turn = (*OTHERS[:2], true(), OTHERS[2])
  drawn = Search(seed).play(24, plant(*texts_in_turn), every=2)
  assert share(drawn[-8:], true()) > 0.85
  even = Search(seed, temperature=1e6).play(24, plant(*texts_in_turn), every=2)
  assert share(even[-8:], true()) < 0.5


def test_it_follows_a_policy_that_changes_because_it_forgets():
  assert true(0) != true(1)
  late = {0.7: [], 1.0: []}
  for seed in range(3):
    for decay, found in late.items():
      search = Search(seed, (0, 1), decay=decay)
      steps = search.play(60, plant(true(0), true(1)), every=2)
      assert share(steps[20:30], true(0)) > 0.8
      found.append(share(steps[-20:], true(1)))
  assert np.mean(late[0.7]) > np.mean(late[1.0]) + 0.3


def test_proposals_from_failures_find_what_is_true():
  found, blind = [], []
  for seed in range(3):
    steps = Search(seed).play(28, door_codes.rewrite, every=2)
    found.append(share(steps[-12:], true()))
    steps = Search(seed).play(28, door_codes.blind_rewrite, every=2)
    blind.append(share(steps[-12:], true()))
  assert np.mean(found) > 0.55
  assert np.mean(blind) < np.mean(found) - 0.25


def test_a_proposal_keeps_what_was_right():
  entries = {0: 'a1 b1 c1 (earned 0.333, read 9.0)',
             1: 'a2 b1 c3 (earned 0.667, read 9.0)',
             2: 'a2 b2 c2 (earned 0.000, read 0.0)'}  # fmt: skip
  seen = 'Notes:\na2\nb1\nc3\n12 '
  tried = [
    (f'[user] {seen}b\n\n[assistant] 1', False),
    (f'[user] {seen}b\n\n[assistant] 2', False),
    (f'[user] {seen}a\n\n[assistant] 2', True),
  ]
  text = operations.question('Write.', entries, tried)
  answer = json.loads(door_codes.rewrite([Message('user', text)], seed=5))
  assert answer == [{'op': 'ADD', 'text': 'a2\nb3\nc3'}]
  known = entries | {3: 'a2 b3 c3 (earned 0.000, read 3.0)'}
  for asked in ((known, tried), (entries, tried[-1:])):
    text = operations.question('Write.', *asked)
    answer = json.loads(door_codes.rewrite([Message('user', text)], seed=5))
    new = answer[0]['text'].replace('\n', ' ')
    assert sum(x != y for x, y in zip(new, 'a2 b1 c3', strict=True)) == 1
    assert not any(x.startswith(new) for x in asked[0].values())
  entries[1] = entries[1].replace('9.0', '40.0')
  text = operations.question('Write.', entries, tried[-1:])
  answer = json.loads(door_codes.rewrite([Message('user', text)], seed=5))
  assert answer == [{'op': 'NOOP'}]
  text = operations.question('Write.', {}, tried)
  answer = json.loads(door_codes.rewrite([Message('user', text)], seed=5))
  assert answer == [{'op': 'NOOP'}]
