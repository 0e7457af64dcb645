"""What turns read by what they observe, and what a follower makes of it."""

import collections
import dataclasses
import itertools
import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.env.worlds.door_codes import DoorCodes
from agentrl.memory import texts
from agentrl.model import microbatch
from agentrl.recall import base, observed
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Completion
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.task.base import make_attempts
from agentrl.types import Batch, Status
from tests.recall import retrieval_test as recalls
from tests.rollout import host_test, hosted

WORDS = recalls.WORDS
FAMILY = DoorCodes(rooms=3, numbered=False)
TASKS = [x.task for x in FAMILY.tasks('train', 40, 0)]
RIGHT = [f'{door}{x}' for door, x in zip('abc', FAMILY.lasting(), strict=True)]


def reader(k=1, tokens=16, **hp):
  given = base.Recall(k, tokens, 'Notes:', hp.get('every', 'turn'))
  hp |= dict(k=k, tokens=tokens)
  choose = registry.bind('recall', 'observed', hp)
  return observed.Reader(given, choose, WORDS, seed=0)


def bank(*entries):
  return recalls.bank([WORDS.encode(x) for x in entries])


def library(*entries, **hp):
  return observed.Library(reader(**hp), bank(*entries))


def test_entries_that_say_something_of_an_observation_are_read():
  some = library('b3', 'a1', '', 'c2')
  read = some.read('a')
  assert read[:3] == ('Notes:\na1\n', (1,), (8,))
  assert some.read('a') is read
  assert some.read('d') == observed.Recollection('', (-1,), (-1,), 0.0)
  assert library('b3').read('b').entry == (0,)  # what all say is not nothing
  assert library('', '').read('b').entry == (-1,)
  two = library('b3', 'a1', 'b1', k=2).read('b')
  assert two.text == 'Notes:\nb1\nb3\n'  # in which '1' is less rare
  assert two.columns == {
    'note0': 2, 'note_written0': 9, 'note1': 0, 'note_written1': 7,
  }  # fmt: skip
  names = observed.columns(reader(k=2).recall)
  assert names == (*two.columns, base.NOTE_MATCH)
  assert not observed.columns(base.Recall(2, 16, ''))
  assert len(WORDS.encode(library('b3' * 20).read('b').text)) <= 16
  assert library('b3', 'a1', arm='empty').read('b').text == ''
  assert library('b3', 'a1', arm='shuffled').read('b').entry == (1,)


def cosine(texts, query):
  """By dictionaries of n-grams, in plain Python."""

  def grams(x):
    return collections.Counter([*[(i,) for i in x], *itertools.pairwise(x)])

  df = collections.Counter(g for x in texts for g in set(grams(x)))

  def weights(x):
    rare = lambda g: math.log((2 + len(texts)) / (1 + df[g]))  # noqa: E731
    out = {g: math.log(1 + n) * rare(g) for g, n in grams(x).items()}
    size = math.sqrt(sum(w * w for w in out.values())) or 1
    return {g: w / size for g, w in out.items()}

  seen = weights(query)
  return [sum(w * seen.get(g, 0) for g, w in weights(x).items()) for x in texts]


def test_likeness_is_the_cosine_of_weighted_n_grams():
  rng = np.random.default_rng(0)
  for size in (1, 2, 30):
    given = [
      rng.integers(0, 9, rng.integers(0, 12)).tolist() for _ in range(size)
    ]
    index = observed.Index(given)
    for query in ([], [77, 78], *given, *rng.integers(0, 9, (9, 5)).tolist()):
      np.testing.assert_allclose(
        index.likeness(query), cosine(given, query), rtol=1e-12, atol=1e-15
      )


class Follower(ScriptedGenerator):
  """Follows the note of the door that stands last; 1 without one."""

  def __init__(self):
    super().__init__({}, WORDS.eot)
    self.prompts = {}

  def submit(self, sequence, context, how):
    prompt = WORDS.decode(list(context))
    self.prompts.setdefault(sequence, []).append(prompt)
    told = dict(re.findall(r'^([abc])(\d)$', prompt, re.MULTILINE))
    said = WORDS.encode(told.get(prompt.strip()[-1], '1'))
    self._pending.append((sequence, [*said, WORDS.eot]))

  def collect(self):
    done, self._pending = self._pending, []
    zero = [0.0, 0.0]
    return [Completion(b, ids, zero, zero, [0, 0]) for b, ids in done]


LIMITS = dataclasses.replace(
  host_test.LIMITS, turns=3, message=2, opening=16, notes=16, observation=16,
  context=64, history='turn', recalled=observed.columns(reader().recall),
)  # fmt: skip
ATTEMPTS = make_attempts(np.arange(len(TASKS)), 1, 3, 1.0)


def followed(entries, history='turn', **hp):
  limits = dataclasses.replace(LIMITS, history=history)
  made = host_test.stage(FAMILY, TASKS, limits, reader=reader(**hp))
  generator = Follower()
  attempts = ATTEMPTS.replace(texts=bank(*entries))
  ended, counts = hosted.play(made, generator, attempts)
  assert not counts['cut']
  return ended, generator.prompts, made


def solved(ended):
  return [x.status == Status.SOLVED for x in ended]


@pytest.mark.parametrize('history', ['turn', 'full'])
def test_a_follower_opens_every_room_by_what_each_turn_reads(history):
  """And by the first room's alone, or others', no more than luck has it."""
  ended, prompts, _ = followed(RIGHT, history)
  assert all(solved(ended))
  for b, task in enumerate(TASKS):
    told = [
      f'Notes:\n{RIGHT["abc".index(door)]}\n{door}' for door in task['door']
    ]
    if history == 'turn':
      assert [x.strip() for x in prompts[b]] == told
    else:
      assert [x.count('Notes:') for x in prompts[b]] == [1, 2, 3]
      for k, text in enumerate(told):
        assert prompts[b][k].strip().endswith(text)
  once, prompts, _ = followed(RIGHT, history, every='episode')
  lucky = RIGHT['abc'.index(next(x[0] for x in RIGHT if x[1] == '1'))][0]
  for got, task in zip(solved(once), TASKS, strict=True):
    first, *later = task['door']
    assert got == all(door in {lucky, first} for door in later)
  assert np.mean(solved(once)) < 0.6
  for arm in ('empty', 'shuffled'):
    none, _, _ = followed(RIGHT, history, arm=arm)
    assert np.mean(solved(none)) < 0.2


def test_a_trajectory_counts_once_for_an_entry_that_its_turns_read():
  ended, _, made = followed([*RIGHT, 'unread'])
  record = made.record(ended)
  state = bank(*RIGHT, 'unread')
  read = record.columns['note0']
  for b, task in enumerate(TASKS):
    assert read[b].tolist() == ['abc'.index(door) for door in task['door']]
  n = len(TASKS)
  batch = Batch.from_turns(
    [[[1]] * 3] * n, [[[-1.0]] * 3] * n, reward=[[1 / 3] * 3] * n,
    group=[0] * n, outcome=[b % 2 for b in range(n)],
  )  # fmt: skip
  ids = {'source': jnp.zeros(n, jnp.int32)}
  terms = {name: jnp.asarray(x) for name, x in record.columns.items()}
  turns = batch.turns.replace(terms=terms)
  batch = batch.replace(ids=batch.ids | ids, turns=turns)
  got = jax.jit(texts.credited)(jax.tree.map(jnp.asarray, state), batch)
  want = [[door in {*t['door']} for t in TASKS] for door in 'abc']
  assert got.read.tolist() == [*map(sum, want), 0]
  odd = [[x for x in row[1::2] if x] for row in want]
  assert got.decisive.tolist() == [*map(len, odd), 0]
  np.testing.assert_allclose(got.earned[:3], [*map(sum, want)], rtol=1e-5)
  # Of another text in its place nothing is known.
  other = state.replace(written=state.written + 1)
  got = texts.credited(jax.tree.map(jnp.asarray, other), batch)
  assert not np.any(got.read)
  # Nor of turns that did not happen.
  turns = turns.replace(valid=turns.valid.at[:, 1:].set(False))
  got = texts.credited(
    jax.tree.map(jnp.asarray, state), batch.replace(turns=turns)
  )
  first = [sum(t['door'][0] == door for t in TASKS) for door in 'abc']
  assert got.read.tolist() == [*first, 0]


@pytest.mark.parametrize(
  'history', ['turn', pytest.param('full', marks=pytest.mark.slow)]
)
def test_log_probs_are_those_behind_what_each_turn_reads(history):
  """In the rows that are trained on, which say so."""
  limits = dataclasses.replace(
    host_test.LIMITS, opening=16, notes=16, turns=3, history=history,
    recalled=observed.columns(reader().recall),
  )  # fmt: skip
  tasks = [{'it': jax.tree.map(lambda x, i=i: x[i], host_test.inside().tasks)}
           for i in range(3)]  # fmt: skip
  made = host_test.stage(
    host_test.Outside(), tasks, limits, reader=reader(least=0.0)
  )
  entries = ['SX', 'PX', 'XO']  # who stands on a goal, or beside a box
  attempts = make_attempts(np.repeat([0, 1, 2, 0], 2), 2, 3, 1.0)
  engine = host_test.engine(3)
  engine.update_weights(host_test.params(), 5)
  ended, _ = hosted.play(
    made, engine, attempts.replace(texts=bank(*entries)), count=3, key=7
  )
  record = hosted.record(made, ended)
  layout = record_lib.per_turn(record)
  if history == 'full':
    layout = record_lib.full_history(record, limits.context)
  rows = jax.tree.map(jnp.asarray, record_lib.rows(record, layout, 0))
  out = microbatch.forward(
    host_test.MODULE.apply, host_test.params(), rows, ('logp',),
    rows.tokens.shape[0],
  )  # fmt: skip
  np.testing.assert_allclose(out.logp, rows.logp, atol=1e-5, rtol=0)
  read = record.columns['note0']
  assert len({*read[record.valid].tolist()}) > 1
  for b, k in zip(*np.nonzero(record.valid), strict=True):
    text = WORDS.decode(ended[b].turns[k].context)
    note = f'Notes:\n{entries[int(read[b, k])]}\n'
    assert note in text
    seen = text.split(note)[1]
    assert library(*entries, least=0.0).read(seen.rstrip('\n')).text == note
