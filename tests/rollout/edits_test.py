"""Conversations that the policy edits: what is read, and when not."""

import contextlib
import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.env.worlds.lookups import Lookups
from agentrl.rollout import keys
from agentrl.rollout import record as record_lib
from agentrl.rollout.chat_generator import (
  Conversations,
  WrittenMessage,
  generate_by,
)
from agentrl.rollout.edits import ContextEdits
from agentrl.rollout.engine.engine import Completion
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.rollout.threaded import ThreadedGenerator
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, chat_template
from agentrl.types import Copies, Prefix, Span, Status
from tests import checkpoints
from tests.rollout import hosted
from tests.rollout.compacted import COUNT, WORDS, attempts, engine, text
from tests.rollout.edited import RULES, edited, edits, played, rule

DROPS = (
  ['go', '<drop>1</drop>so', 'on', '<drop>3 1</drop>', '<drop>3 2</drop>', 'x'],
  ['<drop>1</drop>', '<drop></drop>', 'go', '<drop>1 2 3</drop>!', 'x', 'y'],
)


def scripted(script, made, **fields):
  """Messages of tokens that say what they are given to: -> episodes, world."""
  world = edited(made, **fields)
  limits = dataclasses.replace(world.limits, message=40, observation=60)
  world = world._replace(limits=limits)
  said = {
    b: [
      x if isinstance(x, list) else [*WORDS.encode(x), WORDS.eot] for x in own
    ]
    for b, own in enumerate(script)
  }
  some = make_attempts(np.arange(len(script)) % 3, 1, made.turns, 1.0)
  ended, _ = hosted.play(world, ScriptedGenerator(said, WORDS.eot), some)
  return ended, world


def expected(episode, made):
  """Whole contexts of all turns, from messages, answers and their numbers."""
  task = list(episode.turns[0].context)
  turns, out = {}, []
  for k, turn in enumerate(episode.turns):
    if k:
      heard = WORDS.encode(f'[{k}] {turn.observation}\n')
      before = episode.turns[k - 1]
      said = text(before.spoken.ids)
      good = before.info.get('edit') and not before.invalid
      if good and made.arm == 'own':
        (named,) = re.findall('<drop>(.*?)</drop>', said)
        for number in named.split():
          del turns[int(number)]
      turns[k] = [*before.spoken.ids, *heard]
    out.append([*task, *(i for ids in turns.values() for i in ids)])
  return out


def read(episode):
  """The context of every turn, as the record has it."""
  out, held = [], []
  for turn in episode.turns:
    held = ([] if turn.branch else held) + list(turn.context)
    out.append(held)
    held = held + list(turn.spoken.ids)
  return out


@pytest.mark.parametrize('arm', ['own', 'ignored'])
def test_what_is_read_is_what_the_rule_says(arm):
  made = rule(ContextEdits, context=600, turns=6, arm=arm)
  ended, world = scripted(DROPS, made)
  one, two = ended
  for episode in ended:
    assert read(episode) == expected(episode, made)
    sizes = [len(x) for x in read(episode)]
    assert [x.info['read'] for x in episode.turns] == sizes
    assert episode.status == Status.TURN_LIMIT
  assert edits(one) == [1, 3, 4]
  assert edits(two) == [0, 1, 3]
  invalid = [[x.invalid for x in e.turns] for e in ended]
  lacks = [False, False, False, True, False, False]
  assert invalid[0] == lacks
  assert invalid[1] == [True, True, False, False, False, False]
  assert [x.observation for x in two.turns[1:3]] == [
    'no turn 1; there is none to drop',
    'name turns by numbers, as in 1 2',
  ]
  begun = [[k for k, x in enumerate(e.turns) if x.branch] for e in ended]
  assert begun == ([[2, 5], [4]] if arm == 'own' else [[], []])
  # The environment heard the other messages alone, and nothing paid an edit.
  for episode in ended:
    own = [x for x in episode.turns if not x.info.get('edit')]
    assert [x.info['page'] for x in own] == list(range(1, len(own) + 1))
    assert not any(x.reward for x in episode.turns if x.info.get('edit'))
  # Calls are marked as such.
  call = one.turns[1]
  marked = [
    text([i])
    for i, x in zip(call.spoken.ids, call.span, strict=True)
    if x == Span.ARGUMENT
  ]
  assert marked == ['1']
  record = world.record(ended)
  size = (record.context_len + record.message_len) * record.valid
  assert size.sum(1).max() <= world.limits.capacity.row


def test_what_stays_stands_by_the_tokens_that_were_sampled():
  """A note that no tokenizer writes so, and one that was cut short."""
  spelled = [WORDS.encode(x)[0] for x in '<drop>1</drop>up']
  assert spelled != WORDS.encode('<drop>1</drop>up')
  odd = [*spelled, WORDS.eot]
  made = rule(ContextEdits, context=600, turns=5)
  script = [['go', odd, WORDS.encode('up'), '<drop>3</drop>', 'x']]
  (episode,), _ = scripted(script, made)
  assert read(episode) == expected(episode, made)
  assert edits(episode) == [1, 3]
  last = episode.turns[4]
  assert last.branch
  ids = list(last.context)
  places = [i for i in range(len(ids)) if ids[i : i + len(odd)] == odd]
  assert len(places) == 1
  agent = [x == Span.OTHER for x in last.context_span]
  assert all(agent[places[0] : places[0] + len(odd)])
  assert not any(agent[: places[0]])


@pytest.mark.parametrize('kind', ['chatml', 'headers'])
def test_a_chat_template_frames_what_stays(tmp_path, kind):
  """As if the turns that were dropped had never been."""
  checkpoints.chat(tmp_path, kind)
  talk = chat_format.framed(chat_template.load(str(tmp_path)))
  made = rule(ContextEdits, context=900, turns=5)
  world = edited(made)._replace(talk=talk, system='be brief')
  limits = dataclasses.replace(
    world.limits, message=40, observation=90, opening=60
  )
  world = world._replace(limits=limits)
  said = ['go', 'on', '<drop>1</drop>noted', '<drop>2</drop>', 'x']
  generator = hosted.scripted(talk.words, [said])
  some = make_attempts(np.zeros(1, int), 1, 5, 1.0)
  (episode,), _ = hosted.play(world, generator, some)
  turns = episode.turns
  opening = [
    chat_template.Message('system', 'be brief'),
    chat_template.Message('user', turns[0].observation),
  ]
  want = talk.start(opening)
  for k in (2, 3):  # what is left before the last: the notes
    want = talk.add_reply(want, turns[k].spoken.ids)
    heard = f'[{k + 1}] {turns[k + 1].observation}'
    want = talk.add_messages(want, [chat_template.Message('user', heard)])
  assert [x.branch for x in turns] == [False, False, False, True, True]
  assert tuple(turns[4].context) == want.ids


def test_another_model_reads_what_is_left():
  """One at an address, which is given messages and not tokens."""
  heard, said = [], iter(['go', '<drop>1</drop>noted', 'on'])

  def ask(messages, seed):
    heard.append(messages)
    return WrittenMessage(next(said))

  conversations = Conversations()
  world = edited(rule(ContextEdits, context=600, turns=3))
  limits = dataclasses.replace(world.limits, message=40, observation=60)
  world = world._replace(talk=conversations.recorded(world.talk), limits=limits)
  generate = generate_by(ask, conversations, WORDS)
  one = make_attempts(np.zeros(1, int), 1, 3, 1.0)
  with contextlib.closing(ThreadedGenerator(generate, 1)) as generator:
    hosted.play(world, generator, one, count=1)
  task = ('user', 'read dawn')
  assert heard[1][:2] == (task, ('assistant', 'go'))
  note = ('assistant', '<drop>1</drop>noted')
  assert heard[2] == (task, note, ('user', '[2] dropped 1'))


def test_there_is_an_end_to_edits_and_to_room():
  made = rule(ContextEdits, context=600, most=1, turns=6)
  said = ['a', '<drop>1</drop>', '<drop>2</drop>', 'b', 'c']
  (episode,), _ = scripted([said], made)
  turns = episode.turns
  assert [x.invalid for x in turns] == [False, False, True] + [False] * 3
  assert turns[3].observation == 'no more edits'
  assert sum(x.branch for x in turns) == 1
  # No edit makes room where none is made.
  made = rule(ContextEdits, context=130, turns=14)
  (episode,), _ = scripted([['a'] * 14], made)
  assert episode.status == Status.TOKEN_LIMIT
  # As many turns as there may be, an edit among them.
  for turns in (1, 2, 3):
    made = rule(ContextEdits, context=600, turns=turns)
    (episode,), _ = scripted([['a', '<drop>1</drop>', 'b']], made)
    assert len(episode.turns) == turns
    assert episode.status == Status.TURN_LIMIT


def test_a_window_drops_the_oldest_until_there_is_room():
  made = rule(ContextEdits, context=130, turns=9, arm='window')
  said = ['a', '<drop>1</drop>' + 'x' * 25, 'b', 'c' * 9, 'd', '', 'e']
  (episode,), world = scripted([said], made)
  turns, contexts = episode.turns, read(episode)
  assert episode.status == Status.TURN_LIMIT
  task, parts = list(turns[0].context), []
  for k, turn in enumerate(turns):
    if k:
      heard = WORDS.encode(f'[{k}] {turn.observation}\n')
      parts.append([*turns[k - 1].spoken.ids, *heard])
    room = made.context - world.limits.message
    while len(task) + sum(map(len, parts)) > room:
      parts.pop(0)
    assert contexts[k] == [*task, *(i for x in parts for i in x)]
  begun = [k for k, x in enumerate(turns) if x.branch]
  assert begun
  assert 2 not in begun  # the call itself drops nothing


@pytest.mark.slow
@pytest.mark.nightly
def test_an_attempt_goes_on_where_it_was_cut():
  """At every turn, before and behind its edits: the same bits but rounding."""
  for made in (RULES['own'], RULES['window']):
    world = edited(made)
    _, whole, _ = played(made)
    own = keys.keys(
      jax.tree.map(jnp.asarray, attempts()), jax.random.key(7)
    ).own
    for limit in (2, 4, 7):
      cut = attempts().replace(limit=np.full(COUNT, limit, np.int32))
      one, _ = hosted.play(world, engine(), cut, count=5, key=7)
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


# Edits that matter.


class Finder(ScriptedGenerator):
  """Looks everyone up once and answers by what stands in its context alone.

  Args:
    drops: it notes what a page says and drops the page
  """

  def __init__(self, drops):
    super().__init__({}, WORDS.eot)
    self.drops, self.read, self.looked, self.known = drops, {}, {}, {}

  def submit(self, sequence, context, how):
    super().submit(sequence, context, how)
    self.read.setdefault(sequence, []).append(list(context))

  def collect(self):
    asked, self._pending = self._pending, []
    return [self.completion(x, self.reply(x)) for x in asked]

  def reply(self, sequence):
    read = text(self.read[sequence][-1])
    names = read.split('\n')[0].split()
    looked = self.looked.setdefault(sequence, [])
    known = dict(re.findall(r'>([A-Z][a-z]{2}) ([a-z]{3,4})<eot>', read))
    pages = re.findall(r'<look>(\w+)</look><eot>\[(\d+)\] (.*)\n', read)
    for name, number, page in pages:
      if name not in known:
        known[name] = re.findall(r'is (\w+)', page)[0]
        if self.drops:
          return f'<drop>{number}</drop>{name} {known[name]}'
    self.known[sequence] = len(known)
    if len(looked) < len(names):
      looked.append(names[len(looked)])
      return f'<look>{looked[-1]}</look>'
    return f'<answer>{" ".join(known.get(x, "tea") for x in names)}</answer>'

  def completion(self, sequence, said):
    ids = [*WORDS.encode(said), WORDS.eot]
    zero = [0.0] * len(ids)
    return Completion(sequence, ids, zero, zero, [0] * len(ids))


def found(arm, context, *, drops):
  """-> mean score of 100 tasks, what was known at the end, tokens read."""
  family = Lookups()
  tasks = [x.task for x in family.tasks('train', 100, 0)]
  made = rule(ContextEdits, context=context, turns=8, arm=arm)
  world = edited(made, family=family, tasks=tasks)
  limits = dataclasses.replace(world.limits, message=34, observation=76)
  world, finder = world._replace(limits=limits), Finder(drops)
  ended, counts = hosted.play(
    world, finder, make_attempts(np.arange(100), 1, 8, 1.0)
  )
  assert counts == {'cut': 0}
  tokens = [len(x) for b in finder.read.values() for x in b]
  known = set(finder.known.values())
  return np.mean([e.score for e in ended]), known, np.mean(tokens)


def test_who_drops_what_was_noted_finds_everything():
  """Full history, edits, a window, and calls that drop nothing."""
  room, value = 186, Lookups().value
  full, known, long = found('ignored', 600, drops=False)
  assert (full, known) == (1.0, {3})
  own, known, short = found('own', room, drops=True)
  assert (own, known) == (1.0, {3})
  assert short < 0.8 * long
  for arm, drops, most in (('ignored', True, 0), ('window', False, 1)):
    score, known, _ = found(arm, room, drops=drops)
    if most:
      assert known == {most}
    assert abs(score - (value(most) if most else 0.0)) < 0.06
