"""The library's policy: sampled, scored, differentiated and loaded."""

import functools
from concurrent import futures

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl as rl
from agentrl.nn import transformer
from agentrl.rollout.engine import engine
from tests import checkpoints, errors

SIZES = dict(
  vocab=9, width=16, layers=2, heads=2, kv_heads=1, head_dim=8, mlp=32
)
END = 8
PROMPTS = [[1, 2, 3], [4], [1, 2, 3], [5] * 40]


@pytest.fixture(scope='module')
def policy():
  return rl.Policy.init(eot=END, seed=1, **SIZES)


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
  path = tmp_path_factory.mktemp('checkpoint')
  checkpoints.model(checkpoints.chat(path, 'chatml'))
  return str(path)


@pytest.fixture(scope='module')
def spoken(checkpoint):
  return rl.Policy.load(checkpoint)


@functools.partial(jax.jit, static_argnums=0)
def logits(shape, params, tokens):
  hidden = transformer.forward(shape, params, tokens, jnp.zeros_like(tokens))
  return transformer.logits(params, hidden, 0.0)


def reference(policy, context, ids, temperature=1.0):
  """Log-probs of ids behind a context, by a softmax in float64."""
  behind = [0] * (48 - len(context + ids))  # which is not seen before it
  tokens = jnp.array([context + ids + behind])
  x = np.asarray(logits(policy.shape, policy.params, tokens)[0], np.float64)
  x /= temperature
  x -= x.max(-1, keepdims=True)
  x -= np.log(np.exp(x).sum(-1, keepdims=True))
  return x[np.arange(len(context) - 1, len(context + ids) - 1), ids]


@pytest.mark.slow
@pytest.mark.parametrize('temperature', [1.0, 0.7])
def test_what_is_sampled_has_the_log_probs_that_it_is_scored_with(
  policy, temperature
):
  samples = policy.sample(PROMPTS, n=3, max_tokens=6, temperature=temperature)
  assert [x.prompt for x in samples] == [x for x in PROMPTS for _ in range(3)]
  scored = policy.logp(
    [x.prompt for x in samples],
    [x.ids for x in samples],
    temperature=temperature,
  )
  for x, logp in zip(samples, scored, strict=True):
    np.testing.assert_allclose(x.logp, logp, atol=1e-5)
    want = reference(policy, x.prompt, x.ids, temperature)
    np.testing.assert_allclose(logp, want, atol=1e-5)


def test_samples_follow_the_seed_and_not_the_company(policy):
  whole = policy.sample(PROMPTS, n=2, max_tokens=6, seed=3)
  again = policy.sample(PROMPTS, n=2, max_tokens=6, seed=3, slots=2)
  ids = [x.ids for x in whole]
  assert ids == [x.ids for x in again]
  assert ids != [x.ids for x in policy.sample(PROMPTS, n=2, max_tokens=6)]
  alone = policy.sample([PROMPTS[3]], n=2, max_tokens=6, seed=3)
  assert [x.ids for x in alone] == ids[6:]
  # Equal prompts are as one that is sampled more often: none is a copy.
  equal = policy.sample([PROMPTS[0]], n=4, max_tokens=6, seed=3)
  assert [x.ids for x in equal] == ids[:2] + ids[4:6]
  assert len({tuple(x.ids) for x in equal}) > 1


def test_a_message_ends_by_its_end_of_turn_or_by_its_length(policy):
  samples = policy.sample([[1]], n=40, max_tokens=4)
  assert {x.finish for x in samples} == {'stop', 'length'}
  for x in samples:
    assert END not in x.ids[:-1]
    assert (x.finish == 'stop') == (x.ids[-1] == END)
    assert len(x.ids) == 4 or x.finish == 'stop'


def test_the_likeliest_tokens_at_temperature_0(policy):
  (x,) = policy.sample([[1, 2]], max_tokens=4, temperature=0)
  context = list(x.prompt)
  for token in x.ids:
    every = [reference(policy, context, [i])[0] for i in range(9)]
    assert token == np.argmax(every)
    context.append(token)


@pytest.mark.slow
def test_a_loss_over_its_parameters_has_a_gradient(policy):
  batch = rl.Batch.from_turns(
    [[[3, 4]]], [[[-1.0, -1.0]]], reward=[[1]], group=[0], context=[[[1, 2]]]
  )

  def loss(params):
    return -jnp.sum(policy.forward(params, batch.rows).logp)

  (logp,) = policy.logp([[1, 2]], [[3, 4]])
  before, grads = jax.jit(jax.value_and_grad(loss))(policy.params)
  np.testing.assert_allclose(before, -logp.sum(), rtol=1e-5)
  size = sum(float(jnp.sum(x * x)) for x in jax.tree.leaves(grads))
  assert size > 0
  rate = 1e-3 / size  # so that the loss falls by 1e-3
  nearer = jax.tree.map(lambda x, g: x - rate * g, policy.params, grads)
  np.testing.assert_allclose(before - loss(nearer), 1e-3, rtol=0.1)


def test_new_parameters_are_what_is_sampled_from():
  policy = rl.Policy.init(eot=END, seed=1, **SIZES)
  other = rl.Policy.init(eot=END, seed=2, **SIZES)
  before = policy.sample([[1]], n=8, max_tokens=4)
  policy.params = other.params
  after = policy.sample([[1]], n=8, max_tokens=4)
  assert before != after == other.sample([[1]], n=8, max_tokens=4)


@pytest.mark.parametrize('where', ['collect', 'dispatch', 'update_weights'])
def test_a_call_that_was_interrupted_leaves_nothing_behind(where, monkeypatch):
  policy = rl.Policy.init(eot=END, seed=1, **SIZES)
  want = policy.sample(PROMPTS, max_tokens=6)
  policy.params = policy.params  # so that there is no engine
  with monkeypatch.context() as patched:
    patched.setattr(engine.Engine, where, interrupt)
    with pytest.raises(KeyboardInterrupt):
      policy.sample(PROMPTS, max_tokens=6)
  assert policy.sample(PROMPTS, max_tokens=6) == want


def test_parameters_set_while_an_engine_is_made_are_sampled_from(monkeypatch):
  policy = rl.Policy.init(eot=END, seed=1, **SIZES)
  other = rl.Policy.init(eot=END, seed=2, **SIZES)
  want = other.sample(PROMPTS, max_tokens=6)
  update = engine.Engine.update_weights

  def slow(self, *args):
    policy.params = other.params  # as another thread may
    return update(self, *args)

  with monkeypatch.context() as patched:
    patched.setattr(engine.Engine, 'update_weights', slow)
    policy.sample(PROMPTS, max_tokens=6)
  assert policy.sample(PROMPTS, max_tokens=6) == want


def interrupt(*_):
  raise KeyboardInterrupt


def test_threads_take_turns(policy):
  with futures.ThreadPoolExecutor(4) as pool:
    calls = [
      pool.submit(policy.sample, PROMPTS, max_tokens=6) for _ in range(4)
    ]
  assert len({str(call.result()) for call in calls}) == 1


def test_a_checkpoint_speaks_in_its_chat_template(spoken):
  policy = spoken
  chat = [{'role': 'user', 'content': 'up?'}]
  plain = (
    '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nup?<|im_end|>\n'
    '<|im_start|>assistant\n'
  )
  asked, written = policy.sample([chat, plain], max_tokens=5)
  assert asked.prompt == written.prompt
  assert policy.tokenizer.decode(asked.prompt) == plain
  # The same prompt twice, so the second message is another.
  assert policy.generate(chat, max_tokens=5) == asked.text
  assert policy.generate(plain, max_tokens=5) == asked.text
  by_text, by_ids = policy.logp(
    [chat, chat], ['left', policy.tokenizer.encode('left')]
  )
  np.testing.assert_array_equal(by_text, by_ids)


def test_the_dtype_is_of_the_computation(checkpoint):
  policy = rl.Policy.load(checkpoint, dtype='bfloat16')
  assert policy.shape.dtype == 'bfloat16'
  assert {x.dtype.name for x in jax.tree.leaves(policy.params)} == {'float32'}
  with errors.raises(ValueError, 'dtype float99'):
    rl.Policy.load(checkpoint, dtype='float99')


@pytest.mark.parametrize(
  ('prompts', 'options', 'names'),
  [
    ([''], {}, 'prompts[0]'),
    ([[]], {}, 'prompts[0]'),
    (['up', []], {}, 'prompts[1]'),
    ('up', {}, 'prompts up'),
    ([1, 2], {}, 'prompts'),
    ([{'role': 'user', 'content': 'up'}], {}, 'prompts'),
    ([[{'role': 'user'}]], {}, 'prompts[0] role content'),
    ([[384]], {}, 'prompts[0] 384'),
    ([[-1]], {}, 'prompts[0] -1'),
    *(([x], {}, 'prompts[0]') for x in (None, [1.5], ['1'], b'1', {1, 2})),
    *((x, {}, 'prompts') for x in (5, None)),
    ([np.array([1.0])], {}, 'prompts[0]'),
    (['up'], {'n': 0}, 'n 0'),
    (['up'], {'n': 1.5}, 'n 1.5'),
    (['up'], {'max_tokens': 0}, 'max_tokens 0'),
    (['up'], {'temperature': -1}, 'temperature -1'),
    (['up'], {'temperature': 1e-30}, 'temperature 1e-30'),
    (['up'], {'seed': -1}, 'seed -1'),
    (['up'], {'slots': 0}, 'slots 0'),
  ],
)
def test_mistakes_of_prompts_are_one_sentence(spoken, prompts, options, names):
  with errors.raises(ValueError, names) as caught:
    spoken.sample(prompts, **options)
  assert '\n' not in str(caught.value)


def test_a_prompt_must_fit_the_positions_of_the_model():
  policy = rl.Policy.init(eot=END, positions=10, **SIZES)
  (x,) = policy.sample([[1] * 6], max_tokens=4)
  np.testing.assert_allclose(
    policy.logp([x.prompt], [x.ids])[0], x.logp, atol=1e-5
  )
  with errors.raises(ValueError, 'prompts[1] 7 4 10'):
    policy.sample([[1], [1] * 7], max_tokens=4)
  with errors.raises(ValueError, 'prompts[0] 7 4 10'):
    policy.logp([[1] * 7], [[1] * 4])


def test_mistakes_of_scoring_are_one_sentence(policy):
  with errors.raises(ValueError, 'messages[0]'):
    policy.logp([[1]], [[]])
  with errors.raises(ValueError, 'messages 1 2'):
    policy.logp([[1]], [[1], [2]])
  for temperature in (0, 1e-30):
    with errors.raises(ValueError, f'temperature {temperature}'):
      policy.logp([[1]], [[1]], temperature=temperature)


def test_a_policy_without_a_tokenizer_or_a_template_takes_no_text(
  policy, tmp_path
):
  with errors.raises(ValueError, 'prompts[0] up'):
    policy.sample(['up'])
  checkpoints.model(checkpoints.tokenizer(tmp_path))
  plain = rl.Policy.load(tmp_path)  # a path of pathlib
  with errors.raises(ValueError, 'prompts[0] template'):
    plain.sample([[{'role': 'user', 'content': 'up'}]])
  assert plain.sample(['up'], max_tokens=2)[0].prompt


def test_nothing_is_no_policy(tmp_path):
  with errors.raises(ValueError, str(tmp_path / 'nothing')):
    rl.Policy.load(str(tmp_path / 'nothing'))
  for source in (None, '', 3):
    with errors.raises(ValueError, 'source'):
      rl.Policy.load(source)


def test_parameters_of_other_shapes_are_refused(policy):
  held = policy.params
  name = next(iter(held))
  cut = jax.tree.map(lambda x: x[:1], held)
  for other in ({}, {**held, 'more': held[name]}, cut):
    with errors.raises(ValueError, 'params'):
      policy.params = other
  assert policy.params is held


def test_prompts_that_are_read_once_are_sampled_from(policy):
  want = policy.sample(PROMPTS, max_tokens=2)
  assert policy.sample(iter(PROMPTS), max_tokens=2) == want
  got = policy.logp(iter([[1]]), iter([[2]]))
  np.testing.assert_array_equal(got[0], policy.logp([[1]], [[2]])[0])


@pytest.mark.parametrize(
  ('changes', 'field'),
  [
    (dict(eot=9), 'eot 9'),
    (dict(eot=None), 'eot'),
    (dict(layers=0), 'layers 0'),
    (dict(width=-1), 'width -1'),
    (dict(seed=-1), 'seed -1'),
  ],
)
def test_a_policy_of_impossible_sizes_is_refused(changes, field):
  with errors.raises(ValueError, field):
    rl.Policy.init(**(SIZES | {'eot': END} | changes))
