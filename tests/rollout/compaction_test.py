"""Conversations that begin anew: where, with what, and when not."""

import contextlib
import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.worlds.errands import Errands
from agentrl.rollout import keys
from agentrl.rollout import record as record_lib
from agentrl.rollout.chat_generator import (
  Conversations,
  WrittenMessage,
  generate_by,
)
from agentrl.rollout.engine.engine import Completion
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.rollout.threaded import ThreadedGenerator
from agentrl.task.base import make_attempts
from agentrl.text import chat_format
from agentrl.types import Copies, Prefix, Rows, Status
from tests.rollout import hosted
from tests.rollout.compacted import (
  COUNT,
  LONG,
  MESSAGE,
  REQUEST,
  RULES,
  TASKS,
  TURNS,
  WORDS,
  ChaptersEnv,
  attempts,
  engine,
  host_keys,
  played,
  rule,
  stage,
  summaries,
  text,
)

# What is read.


def expected(b, episode, made):
  """The contexts of all turns, by the rule as it is written down."""
  out, tokens, kept = [], [], []
  world, task = ChaptersEnv(), None
  for k, turn in enumerate(episode.turns):
    if task is None:
      task = text(turn.context).removesuffix('\n')
      world.reset({'name': task.removeprefix('read ')}, 0)
      pending = task
    if turn.info.get('summary'):
      heard = [*WORDS.encode(f'{REQUEST}\n')]
    else:
      heard = [*WORDS.encode(f'{pending}\n')]
    if turn.branch:
      first = task if made.keep_task else REQUEST
      tokens = [*WORDS.encode(f'{first}\n'), *kept]
      out.append(tokens + heard)
    else:
      out.append(heard)
    tokens = tokens + heard + turn.spoken.ids
    if turn.info.get('summary'):
      key = host_keys()[0][b, k]
      kept = list(made.shown(turn.spoken.ids, key, WORDS.eot))
    else:
      said = chat_format.content(WORDS, turn.spoken.ids)
      pending = world.step(said).text
  return out


@pytest.mark.slow
@pytest.mark.parametrize('name', RULES)
def test_what_is_read_is_what_the_rule_says(name):
  """Contexts of a plain reconstruction: tokens of a summary as sampled."""
  ended, _, _ = played(RULES[name])
  written = 0
  for b, episode in enumerate(ended):
    contexts = [list(x.context) for x in episode.turns]
    assert contexts == expected(b, episode, RULES[name])
    written += len(summaries(episode))
    # Behind a summary comes its segment, and nothing else begins one.
    begins = [k for k, x in enumerate(episode.turns) if x.branch]
    assert begins == [k + 1 for k in summaries(episode)]
  assert written >= COUNT


@pytest.mark.slow
@pytest.mark.parametrize('keep', [True, False])
def test_without_summaries_the_past_is_dropped(keep):
  made = rule(arm='none', keep_task=keep)
  ended, _, _ = played(made)
  assert sum(x.branch for e in ended for x in e.turns) >= COUNT
  for episode in ended:
    task = text(episode.turns[0].context)
    assert not summaries(episode)
    for turn in episode.turns:
      if turn.branch:
        head = task if keep else ''
        assert text(turn.context) == f'{head}{turn.observation}\n'


@pytest.mark.parametrize('name', ['own', 'shuffled', 'bare'])
def test_a_conversation_begins_anew_where_the_next_would_not_fit(name):
  made = RULES[name]
  ended, _, _ = played(made)
  for b, episode in enumerate(ended):
    length = made.length(b // 4)
    size = 0
    for k, turn in enumerate(episode.turns):
      size = len(turn.context) + (0 if turn.branch else size)
      asked = k in summaries(episode)
      assert size + (0 if asked else MESSAGE) <= made.context
      if asked:
        pending = len(WORDS.encode(f'{episode.turns[k + 1].observation}\n'))
        before = size - made.asking
        assert before + pending + MESSAGE > length
      else:
        assert size + MESSAGE <= length
      size += len(turn.spoken.ids)


def test_a_group_shares_its_length_and_tasks_differ():
  made = rule(high=72)
  lengths = [made.length(task) for task in range(200)]
  assert set(lengths) == set(range(56, 73))
  assert lengths == [rule(arm='none').length(task) for task in range(200)]
  # Attempts of a group are cut by one length, whatever their index is.
  shown = [x for x in range(3) if made.length(x) != made.length(0)]
  assert shown


@pytest.mark.slow
def test_nothing_is_compacted_where_all_fits():
  """Messages and rows equal the whole history's, to the bit."""
  _, want, plain = played(alone=True)
  _, got, rows = played(rule(low=LONG, high=LONG, most=1), alone=True)
  for field in dataclasses.fields(want):
    one, two = getattr(want, field.name), getattr(got, field.name)
    if field.name in ('context', 'context_span'):
      two = two[..., : one.shape[2]]
    if field.name == 'columns':
      assert not two.pop('summary').any()
    if field.name == 'seg':
      assert not two.any()
      continue
    jax.tree.map(np.testing.assert_array_equal, one, two)
  t = plain.tokens.shape[1]
  for field in dataclasses.fields(Rows):
    one, two = (np.asarray(getattr(x, field.name)) for x in (plain, rows))
    there = np.asarray(plain.seg) >= 0
    np.testing.assert_array_equal(one[there], two[:, :t][there])
  assert not (np.asarray(rows.seg)[:, t:] >= 0).any()


def test_another_model_reads_its_summary_as_its_own_message():
  """One at an address, which is given messages and not tokens."""
  heard = []

  def ask(messages, seed):
    heard.append(messages)
    note = messages[-1].content == REQUEST
    return WrittenMessage('notes' if note else 'up')

  conversations = Conversations()
  world = stage(rule(), tasks=TASKS[:1])
  world = world._replace(talk=conversations.recorded(world.talk))
  generate = generate_by(ask, conversations, WORDS)
  one = make_attempts(np.zeros(1, int), 1, TURNS, 1.0)
  with contextlib.closing(ThreadedGenerator(generate, 1)) as generator:
    (episode,), _ = hosted.play(world, generator, one, count=1)
  written = summaries(episode)
  assert written
  for k in written:
    asked, after = heard[k], heard[k + 1]
    assert asked[-1] == ('user', REQUEST)
    last = ('user', episode.turns[k + 1].observation)
    assert after == (asked[0], ('assistant', 'notes'), last)


# Ends.


def test_a_trajectory_is_compacted_so_often():
  made = rule(most=1)
  ended, record, _ = played(made)
  assert {len(summaries(e)) for e in ended} == {1}
  assert {e.status for e in ended} == {Status.SOLVED, Status.TOKEN_LIMIT}
  often = [len(summaries(e)) for e in played(RULES['own'])[0]]
  cut = [e.status == Status.TOKEN_LIMIT for e in ended]
  assert cut == [n > 1 for n in often]
  world = stage(made)
  size = (record.context_len + record.message_len) * record.valid
  assert size.sum(1).max() <= world.limits.capacity.row


@pytest.mark.slow
def test_summaries_count_as_turns_and_none_is_the_last():
  for turns in (2, 5, 6, 8):
    ended, record, _ = played(RULES['own'], turns=turns)
    for episode in ended:
      last = len(episode.turns) - 1
      assert last not in summaries(episode)
      assert len(episode.turns) <= turns
      assert episode.status == Status.TURN_LIMIT
      assert len(episode.turns) >= turns - 1
    assert record.valid.sum(1).max() <= turns


@pytest.mark.nightly
def test_an_attempt_goes_on_where_it_was_cut():
  """At every turn, before and behind its summaries."""
  made = RULES['shuffled']
  world = stage(made)
  _, whole, _ = played(made)
  own = keys.keys(jax.tree.map(jnp.asarray, attempts()), jax.random.key(7)).own
  for limit in range(2, 10):
    cut = attempts().replace(limit=np.full(COUNT, limit, np.int32))
    one, _ = hosted.play(world, engine(), cut, count=5, key=7)
    assert {x.status for x in one} == {Status.SCHEDULE}
    record = world.record(one)
    layout = record_lib.full_history(record, world.limits.capacity.row)
    batch = record_lib.batch(record, layout, cut, 5)
    copies = Copies(
      rows=batch.rows,
      entropy=batch.turns.terms['entropy'],
      origin=jnp.arange(COUNT),
      count=COUNT,
      key=jax.random.key_data(own),
      state=batch.turns.state,
    )
    turns = jnp.asarray(record.valid.sum(1))
    again = attempts().replace(prefix=Prefix(turns, copies))
    two, _ = hosted.play(world, engine(), again, count=5, key=8)
    got = world.record(two)
    for name in ('context', 'message', 'valid', 'status', 'reward', 'seg'):
      np.testing.assert_array_equal(getattr(got, name), getattr(whole, name))
    np.testing.assert_allclose(got.logp, whole.logp, atol=1e-5)


def test_summaries_behind_one_observation_are_one_state():
  ended, record, _ = played(RULES['own'])
  seen = {}
  for b, episode in enumerate(ended):
    for k in summaries(episode):
      before = episode.turns[k - 1].observation
      state = int(record.state[b, k])
      assert seen.setdefault(before, state) == state
      assert state != record.state[b, k - 1]
  assert len(set(seen.values())) == len(seen) > 1


# Memory that matters.


class Reader(ScriptedGenerator):
  """Runs errands by what stands in its context alone, and notes what counts."""

  def __init__(self, notes=True):
    super().__init__({}, WORDS.eot)
    self.notes, self.read = notes, {}

  def submit(self, sequence, context, how):
    super().submit(sequence, context, how)
    self.read[sequence] = text(context)

  def collect(self):
    asked, self._pending = self._pending, []
    return [self.completion(x, self.reply(self.read[x])) for x in asked]

  def reply(self, read):
    known = dict(re.findall(r'([A-Z][a-z]{2}):? ([a-z]{3,4})', read))
    # The task, and a summary behind it or in its place.
    head = read.split('<eot>')[0]
    names = dict.fromkeys(re.findall('[A-Z][a-z]{2}(?![a-z])', head))
    if read.endswith(f'{REQUEST}\n'):
      wanted = ' '.join(f'{x} {known.get(x, "")}'.strip() for x in names)
      return wanted if self.notes else 'nothing'
    if read.endswith('?\n'):
      return known.get(read[-5:-2], 'unknown')
    return 'ok'

  def completion(self, sequence, said):
    ids = [*WORDS.encode(said), WORDS.eot]
    zero = [0.0] * len(ids)
    return Completion(sequence, ids, zero, zero, [0] * len(ids))


def errands(made, generator):
  """Mean score of 40 tasks, and whether conversations began anew."""
  family = Errands(people=8, asked=2)
  tasks = [x.task for x in family.tasks('train', 40, 0)]
  world = stage(made, family=family, tasks=tasks, turns=20)
  limits = dataclasses.replace(world.limits, message=20, observation=12)
  some = make_attempts(np.arange(40), 1, 20, 1.0)
  world = world._replace(limits=limits)
  ended, _ = hosted.play(world, generator, some)
  began = [sum(x.branch for x in e.turns) for e in ended]
  return np.mean([e.score for e in ended]), min(began, default=0)


@pytest.mark.parametrize('keep', [True, False])
def test_who_notes_what_counts_remembers_it(keep):
  """Where the past is dropped or garbled the same reader guesses."""
  sizes = dict(tokens=20, asking=6, restart=46, keep_task=keep)
  assert errands(None, Reader()) == (1.0, 0)
  score, began = errands(rule(68, 76, **sizes), Reader())
  assert score == 1.0
  assert began > 0
  for arm, notes in (('none', True), ('shuffled', True), ('own', False)):
    score, began = errands(rule(68, 76, arm=arm, **sizes), Reader(notes))
    assert began > 0
    assert score < 0.5
