"""Readings of a config: their hints, what stands around them, mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import segment
from agentrl.configs import base, grpo
from agentrl.learner import update
from agentrl.model import policy
from agentrl.rollout import hinted
from agentrl.rollout import record as record_lib
from agentrl.run import build
from agentrl.run.play import collect, jit_sampler, readings, sampler
from agentrl.run.stage import stages
from agentrl.text import chat_template, observation_tokens, tokenizer
from agentrl.text.message import Message
from agentrl.types import Batch
from tests import checkpoints, errors
from tests.run.small_configs import countdown

FRAME = hinted.HintFrame((1,), (2,))


def lake(folder, **fields):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.data = str(folder)
  c.env.update(dict(train=8, test=2))
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=16)
  )
  c.rollout.update(dict(batch=8, group_size=4, slots=8, max_turns=3))
  c.sft.batch = c.micro_batch = 8
  base.reading(c, 'hinted', **fields)
  return c


def texts(s, name='hinted'):
  hint, words = s.hints[name], s.tokenizer
  return [
    words.decode(row[:n])
    for row, n in zip(hint.tokens.tolist(), hint.length, strict=True)
  ]


def test_a_demonstration_of_each_task(tmp_path):
  s = build.experiment(
    lake(tmp_path, source='demonstration', text='Do:', shift=1)
  )
  names = s.world.env.actions
  ways = [
    ''.join(f'{names[a]}\n' for a in row if a >= 0) for row in s.train.actions
  ]
  assert texts(s) == [f'Do:\n{way}' for way in ways[1:] + ways[:1]]


def test_texts_of_outcomes_and_fields(tmp_path):
  c = countdown(data=str(tmp_path))
  base.reading(c, 'both', source='outcome', text='Good.', failed='Bad.')
  base.reading(c, 'one', source='outcome', failed='Bad.')
  base.reading(c, 'goal', source='task', field='target', text='It is')
  base.reading(c, 'shown', source='demonstration')
  base.reading(c, 'all', text='Hm.\n')
  s = build.experiment(c)
  assert texts(s, 'both') == ['Bad.\n', 'Good.\n']
  assert texts(s, 'one') == ['Bad.\n', '']
  assert texts(s, 'all') == ['Hm.\n']
  targets = [task['target'] for task in s.train.tasks]
  assert texts(s, 'goal') == [f'It is\n{x}\n' for x in targets]
  shown = [''.join(f'{m}\n' for m in x) for x in s.train.demonstration]
  assert texts(s, 'shown') == shown


def test_a_task_without_a_demonstration_has_no_hint():
  words = tokenizer.Embedded()
  tasks = readings.host_tasks.HostTaskSet([{}, {}], [['a', 'b'], []], ['', ''])
  c = grpo.get_config('env=countdown')
  base.reading(c, 'hinted', source='demonstration', text='Do:')
  hint = readings.hints(c, words, None, '', tasks)['hinted']
  assert hint.length.tolist() == [len(words.encode('Do:\na\nb\n')), 0]


def collected(c):
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  stage = stages.rl_stage(s, 0, 2, jit_sampler.JitSampler(s))
  return s, stage.collect(state, stage.task(state, 0), 0)[0]


def assert_aligned(batch, rows):
  own, index = batch.rows, segment.index(batch)
  there = rows.sampled, segment.index(batch.replace(rows=rows))
  found = segment.align(rows.tokens, there, (own.sampled, index))
  np.testing.assert_array_equal(found, np.where(own.sampled, own.tokens, 0))


@pytest.mark.parametrize(
  'history', ['turn', pytest.param('full', marks=pytest.mark.nightly)]
)
def test_a_reading_of_what_was_sampled(tmp_path, history):
  """The text of its rows, and every sampled token where it belongs."""
  c = lake(tmp_path, source='demonstration', text='Do:')
  c.rollout.history = history
  c.micro_batch = 8
  s, batch = collected(c)
  rows = batch.readings['hinted']
  assert_aligned(batch, rows)
  assert not np.any(rows.weight)
  hints = texts(s)
  for n in range(rows.tokens.shape[0]):
    used = np.asarray(rows.seg[n]) >= 0
    if not used.any():
      continue
    read = s.tokenizer.decode(np.asarray(rows.tokens[n])[used].tolist())
    task = int(batch.ids['task'][int(rows.traj[n].max())])
    own = np.asarray(batch.rows.seg[n]) >= 0
    plain = np.asarray(batch.rows.tokens[n])[own].tolist()
    assert read == hints[task] + s.tokenizer.decode(plain)


def rows_of(hint, record, batch, eot, attempts=None):
  f = jax.jit(
    lambda r, batch: readings.hinted_rows(
      hint, r, batch, 0, attempts=attempts, eot=eot, t=None
    )
  )
  return jax.device_get(f(record, batch))


def blank(record, **fields):
  """A batch of which a reading may see no more than this."""
  b, k = record.valid.shape
  made = Batch.from_turns(
    [[[1]] * k] * b, [[[-1.0]] * k] * b, reward=[[0.0] * k] * b, group=[0] * b
  )
  turns = made.turns.replace(
    valid=record.valid,
    scored=record.valid,
    terms={'tokens': record.message_len},
  )
  return made.replace(turns=turns, **fields)


def test_solutions_are_those_of_siblings(tmp_path):
  c = lake(tmp_path, source='solution', text='Seen:')
  words = tokenizer.Embedded()
  hint = readings.hints(c, words, None, '', None)['hinted']
  r = np.random.default_rng(0)
  record = record_lib.empty(8, 2, 4, 3, ())
  record = record.replace(
    message=jnp.asarray(r.integers(20, 90, (8, 2, 3)), jnp.int32),
    message_len=jnp.full((8, 2), 3),
    context_len=jnp.full((8, 2), 2),
    valid=jnp.ones((8, 2), bool),
  )
  batch = blank(
    record,
    outcome=jnp.array([0.0, 1, 1, 0, 0, 0, 0, 0]),
    ids={'group': jnp.arange(8) // 4},
  )
  rows = rows_of(hint, record, batch, words.eot)
  for b, other in enumerate([1, 2, 1, 1, None, None, None, None]):
    row = rows.tokens[b * 2][rows.seg[b * 2] >= 0].tolist()
    text = [0, 0]
    if other is not None:
      text = [*words.encode('Seen:\n'), *record.message[other].ravel(), 0, 0]
    assert row == [*text, *record.message[b, 0].tolist()]


@pytest.mark.parametrize('system', ['', 'Play.'])
def test_in_a_chat_a_hint_is_the_systems_message(tmp_path, system):
  folder = checkpoints.chat(tmp_path, 'chatml')
  chat = chat_template.load(str(folder))
  c = countdown()
  base.reading(c, 'hinted', text='Think twice.')
  tasks = readings.host_tasks.HostTaskSet([{}], [[]], [''])
  hint = readings.hints(c, chat.words, chat, system, tasks)['hinted']
  begin = [Message('system', system)] if system else []
  own = chat_template.start(chat, [*begin, Message('user', 'Go on?')]).ids
  record = record_lib.empty(1, 2, len(own), 2, ())
  record = record.replace(
    context=jnp.asarray(own, jnp.int32)[None, None].repeat(2, 1),
    context_len=jnp.full((1, 2), len(own)),
    message_len=jnp.full((1, 2), 1),
    valid=jnp.array([[True, False]]),
  )
  rows = rows_of(hint, record, blank(record), chat.eot)
  text = f'{system}\nThink twice.\n' if system else 'Think twice.\n'
  both = [Message('system', text), Message('user', 'Go on?')]
  want = [*chat_template.start(chat, both).ids, 0]
  assert rows.tokens[0][rows.seg[0] >= 0].tolist() == want


@pytest.mark.parametrize('history', ['turn', 'full'])
@pytest.mark.parametrize('chatting', [False, True])
def test_what_stands_for_an_observation(tmp_path, history, chatting):
  """On hosts: as the environment would have said it."""
  chat, words = None, tokenizer.Embedded()
  if chatting:
    chat = chat_template.load(str(checkpoints.chat(tmp_path, 'chatml')))
    words = chat.words
  c = countdown(rollout__null_observation='nothing', rollout__history=history)
  null = readings.null_observation(c, words, chat, 'Play.', 99)
  begin = [Message('system', 'Play.'), Message('user', 'nothing')]
  if not chatting:
    text = 'Play.\nnothing\n' if history == 'turn' else 'nothing\n'
    assert null == (tuple(words.encode(text)), None)
  elif history == 'turn':
    assert null == (chat_template.start(chat, begin).ids, None)
  else:
    talk = chat_template.start(chat, [Message('user', 'Hello')])
    talk = chat_template.add_reply(chat, talk, (5, chat.eot))
    more = chat_template.add_messages(chat, talk, begin[1:])
    assert null == (more.ids[len(talk.ids) :], chat.eot)
    cut = chat_template.add_reply(
      chat, chat_template.start(chat, begin[:1] + begin[1:]), (5,)
    )
    more = chat_template.add_messages(chat, cut, begin[1:])
    assert more.ids[len(cut.ids) :] == (chat.eot, *null.tokens)
  with errors.raises(ValueError, '3'):
    readings.null_observation(c, words, chat, 'Play.', 3)


def test_hints_that_do_not_fit(tmp_path):
  c = lake(tmp_path, text='0123456789', max_tokens=10)
  with errors.raises(ValueError, 'max_tokens 10 11'):
    build.experiment(c)
  c.reading.hinted.max_tokens = 11
  width = build.experiment(c).capacity.row
  c.model.positions = width + 10
  with errors.raises(ValueError, f'hinted {width + 11}'):
    build.experiment(c)
  c = countdown(data=str(tmp_path))
  base.reading(c, 'goal', source='task', field='goal')
  with errors.raises(ValueError, 'field goal target'):
    build.experiment(c)


@pytest.mark.slow
def test_what_is_recalled_is_read_by_the_reading_alone(tmp_path):
  """Half of the tasks have an entry; the policy sees none of them."""
  c = lake(tmp_path, source='memory')
  c.memory, c.recall = ('texts',), 'ucb'
  base.hp(c, 'memory', 'texts', capacity=8, tokens=8)
  base.hp(c, 'recall', 'ucb', heading='Once:', least=0.99, tokens=16)
  s = build.experiment(base.fill(c))
  assert (s.plan.notes, s.hints['hinted'].tokens.shape) == (0, (1, 16))
  alg = s.algorithm
  state = collect.init_memory(s, update.init(alg, jax.random.key(0)))
  stage = stages.rl_stage(s, 0, 2, jit_sampler.JitSampler(s))
  plain, _ = stage.collect(state, stage.task(state, 0), 0)
  np.testing.assert_array_equal(plain.ids['note0'], -1)
  assert_same_text(plain.readings['hinted'], plain.rows)

  texts = [s.tokenizer.encode(f'go {i}') if i % 2 else [] for i in range(8)]
  tokens, length = observation_tokens.pad_lists([*texts, [0] * 8], 0)
  bank = state.memory['texts'].replace(
    tokens=jnp.asarray(tokens[:8]), length=jnp.asarray(length[:8]),
    task=jnp.arange(8), written=jnp.zeros(8, jnp.int32),
  )  # fmt: skip
  state = state.replace(memory={'texts': bank})
  batch, _ = stage.collect(state, stage.task(state, 0), 0)
  assert_same_text(batch.rows, plain.rows)
  assert_aligned(batch, batch.readings['hinted'])
  read, own = text_of(s, batch.readings['hinted']), text_of(s, batch.rows)
  same = 0
  for b, (task, entry) in enumerate(
    zip(batch.ids['task'].tolist(), batch.ids['note0'].tolist(), strict=True)
  ):
    alike = s.sketches @ s.sketches[task] >= 0.99
    assert entry == -1 if not texts[task] and alike.sum() == 1 else alike[entry]
    note = f'Once:\ngo {entry}\n' if entry >= 0 else ''
    for k in range(3):
      n = b * 3 + k
      assert read[n] == (note + own[n] if own[n] else '')
      same += bool(own[n])
  assert same > 8
  assert len({*batch.ids['note0'].tolist()}) > 1


def text_of(s, rows):
  used = np.asarray(rows.seg) >= 0
  return [
    s.tokenizer.decode(x[y].tolist())
    for x, y in zip(np.asarray(rows.tokens), used, strict=True)
  ]


def assert_same_text(rows, others):
  for x, y in zip(rows.tokens * (rows.seg >= 0), others.tokens, strict=True):
    width = min(x.size, y.size)
    np.testing.assert_array_equal(x[:width], y[:width])
    assert not np.any(x[width:])


def test_guidance_is_the_table_of_a_reading():
  hint = readings.Hint(
    'task', np.array([[5, 6], [7, 0], [0, 0]]), np.array([2, 1, 0]), FRAME, 0
  )
  made = readings.guidance(hint, 3)
  assert made.hints == [(5, 6), (7,), ()]
  assert made.frame == FRAME
  text = hint._replace(
    source='text', tokens=hint.tokens[:1], length=np.array([2])
  )
  assert readings.guidance(text, 3).hints == [(5, 6)] * 3


@pytest.mark.slow
def test_log_probs_of_hinted_attempts_are_those_behind_the_hint(tmp_path):
  """As the policy reads the hinted rows; behind the plain ones they differ."""
  c = countdown(data=str(tmp_path), micro_batch=8)
  c.collect = 'hinted_retry'
  base.reading(c, 'guidance', source='task', field='target', text='Make')
  c.rollout.update(dict(batch=8, group_size=4, max_turns=2))
  c.sft.batch = 8
  s = build.experiment(base.fill(c))
  state = update.init(s.algorithm, jax.random.key(0))
  with sampler.open_sampler(s) as playing:
    stage = stages.rl_stage(s, 0, 2, playing)
    batch, _ = stage.collect(state, stage.task(state, 0), 0)
  assert np.all(batch.ids['hinted'] == 1)  # an untrained policy solves nothing
  assert_aligned(batch, batch.readings['guidance'])
  model = policy.module(s.shape)
  gaps = []
  for rows in (batch.readings['guidance'], batch.rows):
    logp = model.apply(state.params['policy'], rows, ('logp',)).logp
    own = np.asarray(rows.sampled)
    gaps.append(np.asarray(logp)[own])
  mine = np.asarray(batch.rows.logp)[np.asarray(batch.rows.sampled)]
  np.testing.assert_allclose(gaps[0], mine, atol=1e-4)
  assert np.abs(gaps[1] - mine).max() > 1e-2
