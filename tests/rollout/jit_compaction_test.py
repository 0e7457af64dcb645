"""Conversations that begin anew inside jit: as on hosts, token by token."""

import collections
import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import compaction_rl
from agentrl.nn import transformer
from agentrl.rollout import actor, jit, jit_compaction, jit_sizes
from agentrl.rollout import record as record_lib
from agentrl.rollout.scripted import ScriptedGenerator
from agentrl.run.check import validate
from agentrl.run.play import jit_env
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, chat_template
from agentrl.types import Copies, Notes, Prefix, Rows, Status
from tests import checkpoints
from tests.rollout import hosted
from tests.rollout.jit_compacted import (
  COUNT,
  KEY,
  MESSAGE,
  MODULE,
  RULES,
  SHAPE,
  SUMMARY,
  TURNS,
  WORDS,
  attempts,
  outside,
  params,
  played,
  played_outside,
  rows_of,
  rule,
  segments,
  sizes,
  world,
)

OTHERS = [
  pytest.param(x, marks=pytest.mark.nightly) for x in RULES if x != 'own'
]


@pytest.mark.slow
@pytest.mark.parametrize('name', ['own', *OTHERS])
def test_the_same_as_on_hosts(name):
  """One world, both rollouts: every token, weight, segment and end."""
  got = played(RULES[name])
  want = played_outside(RULES[name])[1]
  for field in (
    'valid', 'context_len', 'context', 'message_len', 'message', 'reward',
    'status', 'outcome',
  ):  # fmt: skip
    one, two = getattr(got, field), getattr(want, field)
    np.testing.assert_array_equal(one, two, err_msg=field)
  live = got.valid
  np.testing.assert_array_equal(got.seg[live], want.seg[live])
  np.testing.assert_array_equal(got.action[live] < 0, want.action[live] < 0)
  for column, values in want.columns.items():
    np.testing.assert_array_equal(got.columns[column], values)
  np.testing.assert_allclose(got.logp, want.logp, atol=1e-5)
  np.testing.assert_allclose(got.entropy, want.entropy, atol=1e-4)
  if name == 'masked':
    used = live[..., None] & (np.arange(MESSAGE) < got.message_len[..., None])
    np.testing.assert_array_equal(got.weight[used], want.weight[used])
  # Turns of one state on hosts are of one state here.
  meet = [[np.equal.outer(x.state[live], x.state[live])] for x in (got, want)]
  np.testing.assert_array_equal(*meet)


def test_some_are_compacted_often_and_some_never_end():
  """The cases that the comparisons stand on."""
  record = played(RULES['own'])
  made = record.columns['summary'].sum(axis=1)
  assert made.max() >= 3
  assert made.min() <= 2
  ends = {*map(int, record.status)}
  assert {Status.FAILED, Status.SCHEDULE} <= ends
  # A summary that nothing could follow is not asked for.
  last = record.valid.sum(axis=1) - 1
  assert not record.columns['summary'][np.arange(COUNT), last].any()
  cut = record.status == Status.SCHEDULE
  assert (record.valid[cut].sum(axis=1) < 7).any()


@jax.jit
def forward(ids, seg):
  """Log-probs of all tokens but the first of a context: [T - 1]."""
  hidden = transformer.forward(SHAPE, params(), ids[None], seg[None])
  logp = jax.nn.log_softmax(transformer.logits(params(), hidden, 0.0))[0]
  return jnp.take_along_axis(logp[:-1], ids[1:, None], axis=1)[:, 0]


def alone(tokens):
  """Log-probs of a single context, plainly: [64]."""
  pad = 65 - len(tokens)
  seg = np.array([0] * len(tokens) + [-1] * pad)
  return np.asarray(forward(np.array([*tokens, *[0] * pad]), seg))


def test_every_sampled_token_stands_once_behind_its_own_context():
  """Log-probs of the sampler, of the packed rows, and of single contexts."""
  made = RULES['own']
  record = played(made)
  rows = rows_of(made, record)
  learned = np.asarray(MODULE.apply(params(), rows, ('logp',)).logp)
  sampled = np.asarray(rows.sampled)
  assert sampled.sum() == record.message_len[record.valid].sum()
  np.testing.assert_allclose(
    learned[sampled], np.asarray(rows.logp)[sampled], atol=1e-5
  )
  for b in range(COUNT):
    for tokens, said in segments(record, b):
      plain = alone(tokens)
      for k, place, size in said:
        mine = sampled[b] & (np.asarray(rows.turn[b]) == k)
        span = slice(place, place + size)
        assert np.asarray(rows.tokens[b])[mine].tolist() == tokens[span]
        np.testing.assert_allclose(
          learned[b][mine], plain[place - 1 : place - 1 + size], atol=1e-5
        )


def loss(p, rows, advantage):
  """Σ w A log π over rows [N, T], of trajectories' advantages."""
  logp = MODULE.apply(p, rows, ('logp',)).logp
  return jnp.sum(rows.weight * advantage[jnp.maximum(rows.traj, 0)] * logp)


def unfolded(record, masked):
  """Rows of one segment each, from nothing but its tokens."""
  each = [(b, *x) for b in range(COUNT) for x in segments(record, b)]
  shape = len(each), max(len(tokens) for _, tokens, _ in each)
  out = {name: np.zeros(shape, np.int32) for name in ('tokens', 'traj', 'turn')}
  seg, weight = np.full(shape, -1, np.int32), np.zeros(shape, np.float32)
  for i, (b, tokens, said) in enumerate(each):
    out['tokens'][i, : len(tokens)], out['traj'][i] = tokens, b
    seg[i, : len(tokens)] = 0
    for k, place, size in said:
      summary = record.columns['summary'][b, k]
      weight[i, place : place + size] = 1 - masked * summary
  return jax.tree.map(
    jnp.asarray,
    Rows(
      **out,
      seg=seg,
      span=np.zeros(shape, np.int8),
      sampled=weight > 0,
      weight=weight,
      logp=np.zeros(shape, np.float32),
      version=out['turn'],
    ),
  )


@pytest.mark.slow
@pytest.mark.parametrize('arm', ['own', 'masked'])
def test_the_gradient_is_of_the_single_contexts(arm):
  """The masked arm differs from the method in its weights alone."""
  record = jit_compaction.weigh(RULES[arm], played(RULES['own']))
  advantage = jnp.linspace(-1.0, 1.0, COUNT)
  grad = jax.jit(jax.grad(loss))
  got = grad(params(), rows_of(RULES[arm], record), advantage)
  want = grad(params(), unfolded(record, arm == 'masked'), advantage)
  other = grad(params(), unfolded(record, arm != 'masked'), advantage)
  largest = max(float(jnp.abs(x).max()) for x in jax.tree.leaves(want))
  assert largest > 0
  apart = 0.0
  for x, y, z in zip(*map(jax.tree.leaves, (got, want, other)), strict=True):
    np.testing.assert_allclose(x / largest, y / largest, atol=1e-5)
    apart = max(apart, float(jnp.abs(x - z).max()) / largest)
  assert apart > 1e-2


@pytest.mark.slow
def test_where_nothing_triggers_it_is_a_full_history():
  """Bit for bit, in caches of one size."""
  w, a = world(), attempts()
  made = rule(low=200, high=200)
  full = jit_sizes.RolloutSizes(
    slots=5, turns=TURNS, message=MESSAGE, history='full', context=made.context
  )

  @jax.jit
  def play(p, key):
    speaker = actor.model(SHAPE, p, message=MESSAGE, eot=WORDS.eot)
    return jit.rollout(w, full, speaker, a, key)

  want, got = jax.device_get(play(params(), KEY)), played(made)
  assert not got.columns['summary'].any()
  assert not got.seg.any()
  c = want.context.shape[2]
  assert not got.context[..., c:].any()
  for field in (
    'message', 'message_len', 'logp', 'entropy', 'action', 'reward', 'state',
    'valid', 'status', 'outcome', 'context_len',
  ):  # fmt: skip
    np.testing.assert_array_equal(getattr(got, field), getattr(want, field))
  np.testing.assert_array_equal(got.context[..., :c], want.context)


@pytest.mark.nightly
def test_slots_do_not_matter():
  few, many = played(RULES['own']), played(RULES['own'], slots=12)
  for name in ('context', 'message', 'seg', 'valid', 'status'):
    np.testing.assert_array_equal(getattr(few, name), getattr(many, name))
  np.testing.assert_allclose(few.logp, many.logp, atol=1e-5)


def test_a_placebo_is_any_other_order_and_keeps_its_end():
  eot = WORDS.eot
  order = jax.jit(jax.vmap(jit_compaction.shuffle, (None, None, 0, None)))
  keys = jax.random.split(jax.random.key(0), 3000)

  def drawn(*ids):
    tokens = jnp.array([*ids, *[0] * 5][:5])
    made = order(tokens, jnp.int32(len(ids)), keys, eot)
    assert (np.asarray(made)[:, len(ids) :] == 0).all()
    return collections.Counter(map(tuple, np.asarray(made)[:, : len(ids)]))

  assert drawn(11, 12, eot).keys() == {(12, 11, eot)}
  assert drawn(11, 12).keys() == {(12, 11)}
  assert drawn(11, 11, eot).keys() == {(11, 11, eot)}
  assert drawn(eot).keys() == {(eot,)}
  three = drawn(11, 12, 13, eot)
  assert len(three) == 5
  assert (11, 12, 13, eot) not in three
  # Five orders of 600 each, which vary by 22.
  assert max(abs(n - 600) for n in three.values()) < 100


def told(record, b, k):
  """The summary as the segment that begins at turn k shows it, and as it was
  written."""
  size = int(record.message_len[b, k - 1])
  head = len(WORDS.encode('go\n'))
  shown = record.context[b, k, head : head + size].tolist()
  return shown, record.message[b, k - 1, :size].tolist()


def test_summaries_behind_one_state_are_of_one_state():
  """The state before is that of the turn before: column 0 in turn 1."""

  def ids(recorded, turn):
    slots = types.SimpleNamespace(
      record=types.SimpleNamespace(state=jnp.array(recorded, jnp.int32)),
      turn=jnp.array(turn),
      segments=types.SimpleNamespace(asks=jnp.array([True, True, False])),
    )
    world = types.SimpleNamespace(request=jnp.array([3, 4], jnp.int32))
    seen = jnp.array([7, 8, 9], jnp.int32)
    return jit_compaction.hash_states(world, slots, jnp.arange(3), seen)

  first, same, other = ids([[5, 1, 1], [5, 2, 2], [5, 3, 3]], [1, 1, 1])
  assert first == same
  assert other == 9
  first, same, _ = ids([[5, 1, 1], [6, 1, 1], [5, 3, 3]], [1, 1, 1])
  assert first != same
  first, same, _ = ids([[5, 1, 1], [6, 1, 1], [5, 3, 3]], [2, 2, 1])
  assert first == same


@pytest.mark.nightly
def test_arms_show_what_they_say():
  """The first summaries are the same: what comes of them differs."""
  own, placebo = played(RULES['own']), played(RULES['shuffled'])
  differ = 0
  for b in range(COUNT):
    marks = np.flatnonzero(own.columns['summary'][b])
    if not len(marks):
      continue
    k = marks[0]
    np.testing.assert_array_equal(own.message[b, k], placebo.message[b, k])
    shown, wrote = told(own, b, k + 1)
    assert shown == wrote
    shown, wrote = told(placebo, b, k + 1)
    body = wrote[: len(wrote) - (wrote[-1] == WORDS.eot)]
    assert sorted(shown) == sorted(wrote)
    assert (shown != wrote) == (len(set(body)) > 1)
    differ += shown != wrote
  assert differ


@pytest.mark.slow
def test_attempts_that_go_on_are_compacted_where_they_were():
  """Cut at every turn, before and behind summaries, and played on."""
  w, plan, whole = world(), sizes(RULES['own']), attempts()

  @jax.jit
  def play(p, key, a):
    speaker = actor.model(SHAPE, p, message=MESSAGE, eot=WORDS.eot)
    return jit.rollout(w, plan, speaker, a, key)

  @jax.jit
  def go_on(p, key, a, record, turns, own):
    speaker = actor.model(SHAPE, p, message=MESSAGE, eot=WORDS.eot)
    of = Copies(
      rows=record_lib.rows(
        record, record_lib.full_history(record, RULES['own'].row), 0
      ),
      entropy=record.entropy,
      origin=jnp.arange(COUNT, dtype=jnp.int32),
      count=COUNT,
      key=own,
    )
    return jit.rollout(
      w, plan, speaker, a.replace(prefix=Prefix(turns, of)), key
    )

  want = play(params(), KEY, jax.tree.map(jnp.asarray, whole))
  own = jax.vmap(jax.random.fold_in, (None, 0))(KEY, jnp.arange(COUNT))
  own = jax.random.key_data(own)
  ended = np.asarray(want.valid).sum(axis=1)
  turns = jnp.asarray(np.arange(COUNT) % 7 + 1)
  turns = jnp.minimum(turns, jnp.asarray(ended) - 1)
  begun = want.columns['summary'][jnp.arange(COUNT), turns - 1]
  assert 0 < int(begun.sum()) < COUNT
  other = jax.random.key(99)  # of another iteration: theirs is their own
  a = jax.tree.map(jnp.asarray, whole)
  got = go_on(params(), other, a, want, turns, own)
  for name in ('context', 'message', 'seg', 'valid', 'status', 'action'):
    np.testing.assert_array_equal(getattr(got, name), getattr(want, name))
  np.testing.assert_allclose(got.logp, want.logp, atol=1e-5)


def test_demonstrations_write_their_summaries():
  """The expert's turns, with notes of the code where one is asked for."""
  w = dataclasses.replace(world(), expert=world().env.summary)
  plan, n = sizes(rule(low=26, high=34, keep_task=False)), 5
  codes = [w.env.codes[i] for i in range(len(w.env.codes))]
  index = [int(w.env._index(code)) for code in w.tasks['code']]
  script = [['wait'] * (w.env.turns - 1) + [codes[i]] for i in index]
  tokens = np.zeros((n, TURNS, MESSAGE), np.int32)
  length = np.zeros((n, TURNS), np.int32)
  for b, texts in enumerate(script):
    for k, text in enumerate(texts):
      ids = [*WORDS.encode(text), WORDS.eot]
      tokens[b, k, : len(ids)], length[b, k] = ids, len(ids)
  a = make_attempts(np.arange(n), 1, w.env.turns, 1.0)
  speaker = actor.scripted(jnp.asarray(tokens), jnp.asarray(length))
  record = jax.device_get(
    jax.jit(lambda key: jit.rollout(w, plan, speaker, a, key))(KEY)
  )
  assert (record.status == Status.SOLVED).all()
  made = record.columns['summary'].sum(axis=1)
  assert made.min() >= 1
  assert len(set(made)) > 1
  for b in range(n):
    said = [
      WORDS.decode(record.message[b, k, : record.message_len[b, k] - 1])
      for k in np.flatnonzero(record.valid[b])
    ]
    marks = record.columns['summary'][b][record.valid[b]] > 0
    own = [x for x, mark in zip(said, marks, strict=True) if not mark]
    notes = [x for x, mark in zip(said, marks, strict=True) if mark]
    assert own == script[b]
    # What is noted was read: where it was not, there is nothing to note.
    heard = np.cumsum(~marks)[marks] > 1
    assert notes == [script[b][-1] if x else '-' for x in heard]


def scripted(words):
  """Messages of all lengths, some of them cut: tokens, lengths."""
  rng = np.random.default_rng(0)
  letter, shape = words.encode('a')[0], (COUNT, TURNS)
  ends, length = rng.random(shape) < 0.8, rng.integers(1, MESSAGE + 1, shape)
  length = np.where(ends, np.minimum(length, SUMMARY), SUMMARY)
  tokens = np.full((*shape, MESSAGE), letter, np.int32)
  for b, k in np.argwhere(ends):
    tokens[b, k, length[b, k] - 1] = words.eot
  return tokens, length.astype(np.int32)


def noted(a):
  """Attempts of which some read two letters of a memory."""
  tokens = np.tile(WORDS.encode('xy\n'), (COUNT, 1)).astype(np.int32)
  length = np.where(np.arange(COUNT) % 2, 3, 0).astype(np.int32)
  entry = np.zeros((COUNT, 1), np.int32)
  return a.replace(notes=Notes(tokens, length, entry, entry))


@pytest.mark.slow
@pytest.mark.parametrize('keep', [True, False])
@pytest.mark.parametrize('arm', ['own', 'none'])
@pytest.mark.parametrize('kind', ['notes', 'chatml', 'headers'])
def test_frames_and_notes_are_those_of_hosts(tmp_path, kind, arm, keep):
  """Scripted messages in a chat template, or behind notes: every context."""
  chat, words, talk, a = None, WORDS, chat_format.bare(WORDS), attempts()
  if kind == 'notes':
    a = noted(a)
  else:
    checkpoints.chat(tmp_path, kind)
    chat = chat_template.load(str(tmp_path))
    words, talk = chat.words, chat_format.framed(chat)
  low = {'notes': 24, 'chatml': 110, 'headers': 110}[kind]
  c = compaction_rl.get_config('env=carried_code')
  c.env.update(dict(letters=3, size=2, fillers=5, length=4))
  c.rollout.update(dict(max_turns=TURNS, max_message_tokens=MESSAGE, slots=5))
  c.compaction.update(dict(summary=arm, keep_task=keep, tokens=SUMMARY))
  c.compaction.update(dict(threshold=(low, low + 12), most=4, request='Note?'))
  c.sft.update(dict(steps=0, batch=64))
  spec = jit_env.sized(validate.config(c), words, chat)
  plan = dataclasses.replace(spec.plan, notes=3 * (kind == 'notes'))
  made = dataclasses.replace(
    plan.compaction, restart=plan.compaction.restart + plan.notes
  )
  plan = dataclasses.replace(plan, compaction=made)
  w = spec.world.replace(tasks=world().tasks)
  tokens, length = scripted(words)
  speaker = actor.scripted(jnp.asarray(tokens), jnp.asarray(length))
  got = jax.device_get(
    jax.jit(lambda key: jit.rollout(w, plan, speaker, a, key))(KEY)
  )
  stage = outside(made, talk=talk, notes=plan.notes, observation=99)
  said = {
    b: [x[:n].tolist() for x, n in zip(*pair, strict=True)]
    for b, pair in enumerate(zip(tokens, length, strict=True))
  }
  generator = ScriptedGenerator(said, words.eot)
  ended, _ = hosted.play(stage, generator, a, count=5, key=7)
  want = stage.record(ended)
  assert got.seg.max() >= 2
  np.testing.assert_array_equal(got.valid, want.valid)
  np.testing.assert_array_equal(got.status, want.status)
  np.testing.assert_array_equal(got.context_len, want.context_len)
  size = min(got.context.shape[2], want.context.shape[2])
  np.testing.assert_array_equal(
    got.context[..., :size], want.context[..., :size]
  )
  assert got.context_len.max() <= got.context.shape[2]
