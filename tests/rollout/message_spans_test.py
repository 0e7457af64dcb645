"""Spans of host episodes: calls are what environments took as one.

Every family that can be played here is: by its demonstrations, by halves of
them, by several at once, behind thoughts and beside answers.
"""

import functools
import itertools
import json
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import chain
from agentrl.configs import base as base_config
from agentrl.configs import envs, grpo, toolpo
from agentrl.env import base
from agentrl.env.worlds.countdown import Countdown
from agentrl.env.worlds.shop.env import Shop
from agentrl.learner import policy_gradient
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.rollout import host, message_spans
from agentrl.rollout import record as record_lib
from agentrl.run.play import host_env
from agentrl.service.base import Function
from agentrl.signal.base import Context
from agentrl.task.base import make_attempts
from agentrl.text import chat_format, chat_template, tokenizer
from agentrl.types import Module, Outputs, RewardInputs, Span
from tests import checkpoints
from tests.rollout import hosted

WORDS = tokenizer.Embedded()
HISTORIES = {'full': ('full', 1), 'turn': ('turn', 1), 'window': ('turn', 3)}
TURNS = 4
GROUP = 3
MARKED = (Span.THOUGHT, Span.CALL, Span.ARGUMENT, Span.ANSWER)
# Those of other packages take too long to start; files, programs and games of
# several seats have tests of their own.
ELSEWHERE = (
  'commons', 'negotiation', 'norms',
  'alfworld', 'gymnasium_text', 'jsonl', 'minigrid', 'program',
  'mcp', 'openenv', 'pettingzoo', 'reasoning_gym',
  'scienceworld', 'textarena', 'textworld_coin', 'textworld_express',
  'verifiers',
)  # fmt: skip
by_family = pytest.mark.parametrize(
  'name', sorted(set(base.FAMILIES) - set(ELSEWHERE))
)
by_history = pytest.mark.parametrize('history', HISTORIES)


@functools.cache
def world(name):
  """(config, family, tasks) of a family; skips what cannot be played here."""
  c = grpo.get_config(f'tiny,env={name}')
  try:
    family = envs.family(c)
    family = base.with_services(
      family, {x: Function(c.service[x].function) for x in base.needs(family)}
    )
    tasks = list(family.tasks('train', 2, 0))
    family.env().close()
  except ValueError as error:
    pytest.skip(str(error))
  return c, family, tasks


def messages(r, demonstration):
  """Messages of an attempt: with a call or an answer, with neither, or both."""
  demo = demonstration or ('left', '<answer>six</answer>')
  out = []
  for text in demo[:TURNS]:
    half, other = text[: len(text) // 2], r.choice(demo)
    out += [
      r.choice(['<think>I', 'so']) + ' try ' + text + ' out</think> ' + half,
      f'{text} {other}',
      f'<think>{other}</think> {text}.',
      text,
    ]
  return [f'{demo[0]} {demo[0]}', *r.sample(out, TURNS - 2), demo[-1]]


def played(family, texts, tasks, *, c, history, talk=None):
  """The batch of attempts, each of its own messages; host arrays."""
  talk, system = talk or chat_format.bare(WORDS), family.system
  with c.unlocked():
    c.rollout.history, c.rollout.window = HISTORIES[history]
    c.rollout.context = 0
    c.rollout.max_turns, c.rollout.max_message_tokens = TURNS, 300
    c.host.max_observation_tokens = 150
  limits = host_env.limits(c, system, talk)
  stage = host.HostEnvBundle(family, tasks, talk, limits, system)
  task = np.arange(len(texts)) // GROUP
  made = make_attempts(task, GROUP, TURNS, 1.0)
  generator = hosted.scripted(talk.words, texts)
  ended, counts = hosted.play(stage, generator, made, count=2, worker='thread')
  assert not [x for x in counts if x.startswith('fault')]

  @jax.jit
  def laid(record):
    layout = (
      record_lib.full_history(record, limits.capacity.row)
      if history == 'full'
      else record_lib.per_turn(record)
    )
    return record_lib.batch(record, layout, made, 0)

  return jax.device_get(laid(hosted.record(stage, ended)))


@functools.cache
def episodes(name, history='full'):
  c, family, tasks = world(name)
  r = random.Random(0)
  texts = [
    messages(r, task.demonstration) for task in tasks for _ in range(GROUP)
  ]
  own = [task.task for task in tasks]
  return texts, played(family, texts, own, c=c, history=history)


def turns_of(batch):
  """(trajectory, turn, ids, spans) of every message, from the rows."""
  rows = batch.rows
  for b, k in np.argwhere(batch.turns.valid):
    here = rows.sampled & (rows.traj == b) & (rows.turn == k)
    yield b, k, rows.tokens[here].tolist(), rows.span[here].tolist()


@by_history
@by_family
def test_what_is_read_is_information_and_has_no_weight(name, history):
  texts, batch = episodes(name, history)
  rows = batch.rows
  read = rows.span == Span.INFORMATION
  assert read.any()
  assert not rows.weight[read].any()
  assert not rows.logp[read].any()
  assert not (read & rows.sampled).any()
  rest = (rows.traj >= 0) & ~rows.sampled & ~read
  if history != 'window':
    assert not rest.any()
    return
  # What is left are messages of the agent, in the context of later turns.
  for b, k in np.argwhere(batch.turns.valid):
    row = b * TURNS + k
    past = [WORDS.decode(WORDS.encode(x)) for x in texts[b][max(0, k - 2) : k]]
    ids = rows.tokens[row][rest[row]].tolist()
    assert WORDS.decode(ids) == ''.join(f'{x}<eot>' for x in past)


@by_family
def test_every_token_has_the_span_of_its_part(name):
  _, family, _ = world(name)
  texts, batch = episodes(name)
  for b, k, ids, span in turns_of(batch):
    text = texts[b][k]
    assert WORDS.decode(ids) == f'{text}<eot>'
    assert span[-1] == Span.OTHER
    for part in MARKED:
      mine = [i for i, x in zip(ids, span, strict=True) if x == part]
      want = [
        text[start:end]
        for start, end, own in base.spans(family, text)
        if own == part.name.lower()
      ]
      assert WORDS.decode(mine) == ''.join(want)


@by_family
def test_calls_are_those_that_the_environment_made(name):
  c, _, _ = world(name)
  _, batch = episodes(name)
  if not envs.spans(c):
    spans = batch.rows.span
    assert not np.isin(spans, (Span.CALL, Span.ARGUMENT)).any()
    return
  terms, several = batch.turns.terms, set()
  for b, k, _, span in turns_of(batch):
    count = runs(span, Span.ARGUMENT)
    if 'fault_malformed' not in terms:
      acted = count > 0 or runs(span, Span.ANSWER) == 1
      assert acted != bool(terms['invalid'][b, k]) or count == 1
      continue
    unread = terms['fault_malformed'][b, k]
    assert count == terms['calls'][b, k] - unread
    several.add(count)
    if not unread:
      assert runs(span, Span.ANSWER) == terms['answers'][b, k]
  if several:
    assert {0, 1, 2} <= several, 'some messages have several calls'


def runs(span, part):
  return sum(x == part for x, _ in itertools.groupby(span))


@pytest.mark.parametrize('form', ['hermes', 'llama_json', 'llama_pythonic'])
def test_calls_are_those_of_other_formats(form):
  family = Countdown(numbers=2, format=form)
  tasks = list(family.tasks('train', 1, 0))
  call, answer = tasks[0].demonstration
  texts = [[call, call[:-1], f'so {call}', answer]] * GROUP
  c = grpo.get_config('tiny,env=countdown')
  batch = played(family, texts, [tasks[0].task], c=c, history='full')
  terms, alone = batch.turns.terms, form != 'hermes'
  for b, k, ids, span in turns_of(batch):
    made = terms['calls'][b, k] - terms['fault_malformed'][b, k]
    assert runs(span, Span.ARGUMENT) == made == [1, 0, 1 - alone, 0][k]
    if k == 0:
      kinds = (Span.CALL, Span.ARGUMENT)
      mine = [i for i, x in zip(ids, span, strict=True) if x in kinds]
      assert WORDS.decode(mine) == call


def test_a_prompt_has_thought_and_answer(tmp_path):
  path = tmp_path / 'prompts.jsonl'
  rows = [{'prompt': f'{i}?', 'answer': str(i)} for i in range(20)]
  path.write_text('\n'.join(map(json.dumps, rows)), encoding='utf-8')
  c = grpo.get_config('tiny,env=jsonl')
  c.env.update(dict(path=str(path), verifier='exact'))
  family = envs.family(c)
  tasks = [task.task for task in family.tasks('train', 1, 0)]
  texts = [['<think>7?</think>so <answer>7</answer>']] * GROUP
  batch = played(family, texts, tasks, c=c, history='full')
  for _, _, ids, span in turns_of(batch):
    parts = [
      (Span(part), WORDS.decode([i for i, _ in run]))
      for part, run in itertools.groupby(
        zip(ids, span, strict=True), lambda x: x[1]
      )
    ]
    assert parts == [
      (Span.THOUGHT, '<think>7?</think>'),
      (Span.OTHER, 'so '),
      (Span.ANSWER, '<answer>7</answer>'),
      (Span.OTHER, '<eot>'),
    ]


@by_history
def test_in_a_chat_what_the_template_writes_is_information(history, tmp_path):
  path = checkpoints.chat(tmp_path / 'chat', 'chatml')
  talk = chat_format.framed(chat_template.load(path))
  c, family, tasks = world('countdown')
  texts = [messages(random.Random(b), tasks[0].demonstration) for b in range(3)]
  batch = played(
    family, texts, [tasks[0].task], c=c, history=history, talk=talk
  )
  rows = batch.rows
  read = rows.span == Span.INFORMATION
  assert not (read & rows.sampled).any()
  for i in np.flatnonzero((rows.traj >= 0).any(1)):
    text = talk.words.decode(rows.tokens[i][read[i]].tolist())
    assert 'user\n' in text
    own = texts[int(rows.traj[i].max())]
    assert not any(x in text for x in own if '<think>' in x)


def test_an_action_behind_a_prefix_is_what_is_read():
  mark = Countdown(numbers=2).spans
  text = (
    '<calculator>1</calculator><think>a</think>> <calculator>2</calculator>'
  )
  ids = [*WORDS.encode(text), WORDS.eot]
  span = message_spans.of_message(mark, WORDS, ids, '> ')
  for part, want in {
    Span.THOUGHT: '<calculator>1</calculator><think>a</think>',
    Span.CALL: '<calculator></calculator>',
    Span.ARGUMENT: '2',
  }.items():
    mine = [i for i, x in zip(ids, span, strict=True) if x == part]
    assert WORDS.decode(mine) == want
  # Without one nothing is taken off: the first call is a thought either way.
  whole = message_spans.of_message(mark, WORDS, ids)
  assert whole == [*span[:-1], Span.OTHER]


def test_a_shop_takes_one_action_alone():
  marked = [
    (part, text[start:end])
    for text in ('so search[a mug] now', 'search[a] click[b]', 'search a')
    for start, end, part in Shop().spans(text)
  ]
  assert marked == [
    ('call', 'search['),
    ('argument', 'a mug'),
    ('call', ']'),
  ]


def test_families_say_whether_they_mark_calls():
  def spans(name):
    return envs.spans(grpo.get_config(f'tiny,env={name}'))

  assert spans('countdown') == spans('shop') == ('call', 'argument')
  assert spans('interview') == spans('sokoban') == ()
  c = grpo.get_config('tiny,env=countdown,judge')
  assert envs.spans(c) == ('call', 'argument')
  text = '<calculator>2</calculator>'
  judged = envs.family(c)
  assert base.spans(judged, text) == base.spans(Countdown(), text) != []


# What training makes of it.


def credit_of(batch, streams, values):
  """Credit of streams, their pieces bound to hyper-parameters."""
  links = {
    stream: [
      registry.bind('link', n, values.get(stream, {}).get(n, {}), stream)
      for n in names
    ]
    for stream, names in streams.items()
  }
  credit, _ = chain.advantage(links, {}, (), batch, {})
  return credit


def as_double(batch):
  def cast(x):
    x = jnp.asarray(x)
    return x.astype(jnp.float64) if x.dtype == jnp.float32 else x

  return jax.tree.map(cast, batch)


def z_scores(x, group):
  """(x - mean) / std of each group in float64; 0 where all are alike."""
  out = np.zeros(len(x))
  for g in np.unique(group):
    mine = x[group == g].astype(np.float64)
    if mine.std():
      out[group == g] = (mine - mine.mean()) / (mine.std(ddof=1) + 1e-6)
  return out


def toolpo_advantage(name, batch):
  """The advantages [N, T] of the config's own reward and streams."""
  c, batch = toolpo.get_config(f'tiny,env={name}'), as_double(batch)
  assert c.hp.action.on_span.name == 'call'
  hp = c.hp.to_dict()
  (reward,) = c.reward
  pays = registry.bind('reward', reward, hp['reward'][reward], 'reward')
  inputs = RewardInputs(
    turns=batch.turns, outcome=batch.outcome, status=batch.status
  )
  batch = batch.replace(turns=batch.turns.replace(reward=pays(inputs)))
  credit = credit_of(batch, {x: tuple(c.stream[x]) for x in c.advantage}, hp)
  return np.asarray(chain.token_advantage(credit, batch.rows))


@pytest.mark.slow
@pytest.mark.parametrize(
  ('name', 'history'), [('fact_corpus', 'full'), ('countdown', 'window')]
)
def test_toolpo_pays_right_calls_on_calls_alone(name, history, float64):
  """A = z_group(outcome) + 1[call] z_group(right calls)."""
  _, batch = episodes(name, history)
  rows, terms, group = batch.rows, batch.turns.terms, batch.ids['group']
  right = terms.get('useful', terms['calls'] - terms['faults'])
  action = z_scores(np.where(batch.turns.valid, right, 0).sum(1), group)
  success = z_scores(batch.outcome, group)
  on_call = np.isin(rows.span, (Span.CALL, Span.ARGUMENT))
  traj = np.maximum(rows.traj, 0)
  want = success[traj] + np.where(on_call, action[traj], 0)
  got, here = toolpo_advantage(name, batch), rows.sampled
  np.testing.assert_allclose(got[here], want[here], atol=1e-12)
  assert np.abs(action).max() > 0
  assert (on_call & here).any()
  assert (~on_call & here).any()


def test_without_calls_toolpo_looks_at_what_has_no_part():
  for name in ('interview', 'sokoban'):
    c = toolpo.get_config(f'tiny,env={name}')
    assert c.hp.action.on_span.name == 'other'
    registry.check(base_config.wiring(c))


@pytest.mark.parametrize(
  ('history', 'span'),
  [
    ('window', None),
    *(('full', x) for x in (None, 'call', 'argument', 'answer')),
  ],
)
def test_no_gradient_reaches_what_is_read(history, span, float64):
  """Nor, with a span selected, any other part of a message."""
  _, batch = episodes('countdown', history)
  batch, shape = as_double(batch), batch.rows.tokens.shape
  places = jnp.arange(batch.rows.tokens.size).reshape(shape)
  rows = batch.rows.replace(tokens=places)
  batch = batch.replace(rows=rows)

  def apply(params, rows, needs):
    at = rows.tokens  # the place of a token, wherever its row is
    return Outputs(logp=params['logp'][at], entropy=params['entropy'][at])

  r = np.random.default_rng(0)
  params = {
    name: jnp.asarray(r.uniform(-2, -1, rows.tokens.size))
    for name in ('logp', 'entropy')
  }
  terms = ('reinforce', 'entropy')
  alg = Algorithm.from_spec(
    registry.MethodSpec(loss=terms),
    Context({POLICY: Module({}, apply)}, {}, shape[0]),
    select={x: {'span': Span[span.upper()]} for x in terms} if span else {},
  )
  token = jnp.asarray(r.uniform(1, 2, shape))
  credit = chain.zero(batch).replace(token=token)
  everywhere = jnp.ones(shape, bool)
  grads, _ = policy_gradient.gradient(
    alg, params, batch, {}, credit, everywhere, jax.random.key(0)
  )
  parts = {'call': (Span.CALL, Span.ARGUMENT)}
  trained = np.array(rows.sampled)
  if span:
    trained &= np.isin(rows.span, parts.get(span, (Span[span.upper()],)))
  for name in params:
    moved = np.asarray(grads[name]).reshape(shape) != 0
    np.testing.assert_array_equal(moved, trained)
  assert trained.any()
