"""A model as a service says what a plain engine says, whoever else asks."""

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import config, transformer
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from agentrl.rollout.engine.service import EngineService, conversation
from agentrl.service.base import ServiceFault
from agentrl.text import chat_format, chat_template, tokenizer
from agentrl.text.chat_template import Message
from tests import checkpoints, errors

WORDS = tokenizer.Embedded()
BARE = chat_format.bare(WORDS)
VOCAB = WORDS.vocab_size
SHAPE = transformer.DecoderConfig(
  vocab=VOCAB, width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32
)
SIZES = Sizes(slots=3, capacity=64, burst=4, chunk=8, lanes=3)


@functools.cache
def params(seed=0):
  found = mesh.init(config.specs(SHAPE), jax.random.key(seed))
  return jax.tree.map(lambda x: 3 * x, found)


@pytest.fixture
def model():
  with EngineService(SHAPE, SIZES, BARE) as made:
    made.update_weights(params())
    yield made


def user(text):
  return Message('user', text)


TOLD = [
  Message('system', 'You are 7.'),
  user('odd?'),
  Message('assistant', 'yes'),
  user('big?'),
]


def plainly(p, text, seed, temperature, budget):
  """What an engine of its own says behind a text."""
  engine = Engine(SHAPE, SIZES, eot=WORDS.eot)
  engine.update_weights(p, 0)
  key = np.asarray(jax.random.key_data(jax.random.key(seed)))
  engine.submit(0, WORDS.encode(text), SamplingParams(key, budget, temperature))
  while engine.busy:
    engine.dispatch()
    said = engine.collect()
  return chat_format.content(WORDS, said[0].ids)


def test_many_threads_get_what_each_would_alone(model):
  asked = [(f'Is it {i}?', i, (0.0, 0.9)[i % 2], 4 + i % 5) for i in range(12)]
  asked[3] = ('Is it red?', 2**31 - 1, 1.0, 32)
  with ThreadPoolExecutor(12) as pool:
    said = pool.map(
      lambda a: model([user(a[0])], seed=a[1], temperature=a[2], budget=a[3]),
      asked,
    )
    for (text, *rest), got in zip(asked, said, strict=True):
      assert got == plainly(params(), f'{text}\n', *rest)


@pytest.mark.slow
def test_two_on_a_mesh_answer_at_the_same_time():
  sizes = Sizes(slots=4, capacity=64, burst=4, chunk=8, lanes=2)
  given = params(0), params(1)
  with (
    jax.set_mesh(mesh.make({'data': 2, 'tensor': 2})),
    EngineService(SHAPE, sizes, BARE) as one,
    EngineService(SHAPE, sizes, BARE) as other,
    ThreadPoolExecutor(8) as pool,
  ):
    places = mesh.shardings(config.specs(SHAPE))
    for p, made in zip(given, (one, other), strict=True):
      made.update_weights(jax.device_put(p, places))
    said = [
      [pool.submit(x, [user(f'Is it {i}?')], seed=i) for x in (one, other)]
      for i in range(10)
    ]
    said = [[x.result(60) for x in both] for both in said]
  for i, both in enumerate(said):
    for p, got in zip(given, both, strict=True):
      assert got == plainly(p, f'Is it {i}?\n', i, 1.0, 32)


def test_a_longer_conversation_finds_what_was_read(model):
  first = [user('a long story to begin with')]
  said = model(first, seed=0, budget=3)
  before = dict(model._engine.counts)
  model([*first, Message('assistant', said), user('and?')], seed=0, budget=3)
  counts = model._engine.counts
  shared = counts['prefix_hits'] - before['prefix_hits']
  assert shared >= len(WORDS.encode(first[0].content))
  whole = WORDS.encode(f'{first[0].content}\n{said}.and?\n')
  assert counts['prefilled'] - before['prefilled'] <= len(whole) - shared


def test_a_copy_stays_as_it_was_until_it_is_swapped():
  give_away = jax.jit(
    lambda p: jax.tree.map(lambda x: x + 1, p), donate_argnums=0
  )
  mine = jax.tree.map(lambda x: x + 0, params())
  question = [user('Is it red?')]
  with (
    EngineService(SHAPE, SIZES, BARE) as frozen,
    EngineService(SHAPE, SIZES, BARE) as newest,
  ):
    frozen.update_weights(mine)
    newest.update_weights(mine)
    old = frozen(question, seed=0, temperature=0.0)
    assert newest(question, seed=0, temperature=0.0) == old
    give_away(mine)  # what an update does with the policy
    newest.update_weights(params(1))
    assert frozen(question, seed=0, temperature=0.0) == old
    new = newest(question, seed=0, temperature=0.0)
    assert new == plainly(params(1), 'Is it red?\n', 0, 0.0, 32) != old


def test_messages_become_one_conversation():
  made = conversation(BARE, TOLD)
  assert made.messages == tuple(TOLD)
  assert WORDS.decode(made.ids) == 'You are 7.\nodd?\nyes<eot>big?\n'
  longer = [*TOLD, Message('assistant', 'no'), user('3?')]
  assert conversation(BARE, longer).ids[: len(made.ids)] == made.ids


@pytest.mark.nightly
@pytest.mark.parametrize('kind', ['chatml', 'headers'])
def test_a_template_writes_the_same_conversation(tmp_path, kind):
  checkpoints.chat(tmp_path, kind)
  chat = chat_template.load(tmp_path)
  made = conversation(chat_format.framed(chat), TOLD)
  assert made.text == chat_template.start(chat, TOLD).text
  assert not made.rewritten


@pytest.mark.parametrize('roles', ['', 'a', 'ua', 'au', 'uaau'])
def test_who_speaks_when(model, roles):
  names = {'a': 'assistant', 'u': 'user'}
  with pytest.raises(ValueError):
    model([Message(names[r], 'x') for r in roles], seed=0)
  assert isinstance(model([user('x')], seed=0, budget=2), str)


def test_what_does_not_fit_is_a_fault(model):
  with errors.raises(ServiceFault, '61 4'):
    model([user('x' * 60)], seed=0, budget=4)
  assert isinstance(model([user('x' * 60)], seed=0, budget=3), str)


def test_an_engine_that_fails_costs_those_who_asked():
  with EngineService(SHAPE, SIZES, BARE) as model:
    for _ in range(2):
      with pytest.raises(ServiceFault):
        model([user('x')], seed=0)
    model.update_weights(params())
    said = model([user('Is it red?')], seed=0, temperature=0.0)
    assert said == plainly(params(), 'Is it red?\n', 0, 0.0, 32)


def test_closing_ends_who_waits():
  model = EngineService(SHAPE, SIZES, BARE)
  model.update_weights(params())
  entered = threading.Event()
  launch = model._engine.dispatch

  def slowly():
    entered.set()
    launch()

  model._engine.dispatch = slowly
  with ThreadPoolExecutor(6) as pool:
    long = [
      pool.submit(model, [user(f'{i}')], seed=i, budget=60) for i in range(6)
    ]
    entered.wait(20)
    model.close()
    faults = [f.exception(20) for f in long]
  assert any(isinstance(f, ServiceFault) for f in faults)
  assert not model._thread.is_alive()
  model.close()
  with pytest.raises(ServiceFault):
    model([user('x')], seed=0)
  with pytest.raises(ValueError):
    model.update_weights(params())
