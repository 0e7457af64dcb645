"""Messages of slots: written down beforehand, or sampled from a policy.

Also by families of slots that hold one prompt: the same messages.
"""

import functools
import re
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import transformer
from agentrl.rollout import actor, distinct_prompts, sampling
from tests.nn import decoders

SHAPE = transformer.DecoderConfig(
  vocab=12, width=8, layers=1, heads=2, kv_heads=1, head_dim=4, mlp=8
)
EOT, M, N = 3, 4, 3


def prompt(temperature=1.0, idle=(False, False, True), seed=0):
  r = np.random.default_rng(1)
  return actor.Prompt(
    tokens=jnp.asarray(r.integers(4, 12, (N, 5)), jnp.int32),
    length=jnp.array([5, 3, 4]),
    start=None,
    keys=jax.random.split(jax.random.key(seed), N),
    temperature=jnp.full(N, temperature),
    idle=jnp.array(idle),
    traj=jnp.array([1, 0, 9]),
    turn=jnp.array([0, 1, 9]),
  )


def say(**settings):
  params = mesh.init(transformer.specs(SHAPE), jax.random.key(0))
  speaker = actor.model(SHAPE, params, message=M, eot=EOT, **settings)

  @jax.jit
  def run(heard):
    return speaker.say(speaker.cache(N, 16), heard)[0]

  return run


def test_scripted_messages_are_those_of_trajectory_and_turn():
  tokens = jnp.arange(2 * 2 * M).reshape(2, 2, M)
  length = jnp.array([[1, 2], [3, 4]])
  speaker = actor.scripted(tokens, length)
  message, _ = speaker.say(speaker.cache(N, 16), prompt())
  np.testing.assert_array_equal(message.tokens[:2], tokens[(1, 0), (0, 1)])
  np.testing.assert_array_equal(message.length, [3, 2, 0])


def test_a_sampled_message_ends_with_its_end_of_turn_or_is_full():
  run, ends = say(), []
  for seed in range(8):
    message = jax.device_get(run(prompt(seed=seed)))
    assert message.length[2] == 0
    for i in range(2):
      n, ids = message.length[i], message.tokens[i]
      ends.append(ids[n - 1] == EOT)
      assert 1 <= n <= M
      assert n == M or ends[-1]
      assert EOT not in ids[: n - 1]
      assert not ids[n:].any()
      assert (message.logp[i, :n] < 0).all()
      assert not message.logp[i, n:].any()
      assert message.entropy[i] > 0
  assert 2 < sum(ends) < 14


def test_given_turns_take_the_place_of_what_is_drawn():
  tokens = jnp.full((2, 2, M), EOT).at[1, 0].set(jnp.array([7, 8, 9, 10]))
  prefix = actor.ForcedPrefix(
    tokens=tokens,
    logp=jnp.full((2, 2, M), -0.25),
    version=jnp.zeros((2, 2, M), jnp.int32),
    entropy=jnp.zeros((2, 2)),
    length=jnp.full((2, 2), 3),
  )
  asked = prompt()._replace(given=jnp.array([True, False, False]))
  free, message = say()(prompt()), say(given=prefix)(asked)
  np.testing.assert_array_equal(message.tokens[0], [7, 8, 9, 0])
  np.testing.assert_array_equal(message.logp[0], [-0.25] * 3 + [0])
  np.testing.assert_array_equal(message.tokens[1], free.tokens[1])


SLOTS, GROUP = 12, 4
# Which prompt each slot has.
APART = np.repeat([0, 1, 2], GROUP)
MIXED = np.array([2, 0, 1, 1, 0, 2, 2, 1, 0, 0, 1, 2])
IMPURE = np.where(np.arange(SLOTS) == 5, 1, MIXED)


def heard(kinds, idle=()):
  """Prompts of slots; idle ones have some other."""
  r = np.random.default_rng(3)
  tokens, length = r.integers(4, 12, (4, 6)), np.array([6, 3, 5, 1])
  idle = np.isin(np.arange(SLOTS), idle)
  kinds = np.where(idle, 3, kinds)
  return actor.Prompt(
    tokens=jnp.asarray(tokens[kinds], jnp.int32),
    length=jnp.asarray(length[kinds], jnp.int32),
    start=None,
    keys=jax.random.split(jax.random.key(5), SLOTS),
    temperature=jnp.linspace(0.5, 1.5, SLOTS),
    idle=jnp.asarray(idle),
    traj=jnp.arange(SLOTS, dtype=jnp.int32),
    turn=jnp.zeros(SLOTS, jnp.int32),
    given=jnp.arange(SLOTS) % 5 == 1,
  )


@functools.cache
def program(shape, group, message=6):
  """(params, prompt) -> messages of slots, some of whose tokens are given."""
  r = np.random.default_rng(6)
  prefix = actor.ForcedPrefix(
    tokens=jnp.asarray(r.integers(4, 12, (SLOTS, 1, message)), jnp.int32),
    logp=jnp.full((SLOTS, 1, message), -0.25),
    version=jnp.zeros((SLOTS, 1, message), jnp.int32),
    entropy=jnp.zeros((SLOTS, 1)),
    length=jnp.full((SLOTS, 1), message - 2),
  )
  settings = dict(message=message, eot=EOT, given=prefix, group=group)

  def run(params, prompt):
    speaker = actor.model(shape, params, **settings)
    return speaker.say(speaker.cache(SLOTS, 6 + message), prompt)[0]

  return jax.jit(run)


@pytest.mark.parametrize(
  ('kinds', 'idle', 'group', 'found'),
  [
    (APART, (), GROUP, True),
    (MIXED, (), GROUP, True),
    # By four: of eight, twelve slots hold no families.
    pytest.param(MIXED, (), 8, True, marks=pytest.mark.nightly),
    (MIXED, (0, 3, 5, 6, 11), GROUP, True),
    (IMPURE, (), GROUP, False),
    (IMPURE, (5,), GROUP, True),
    (IMPURE, (1,), GROUP, False),
  ],
)
def test_families_say_what_slots_say(kinds, idle, group, found, monkeypatch):
  """To the last digits of float64; slots of no family are on their own."""
  monkeypatch.setattr(actor, 'HELD_ONCE', 1)
  prompt = heard(kinds, idle)
  args = prompt.tokens, prompt.length, prompt.idle, GROUP
  assert bool(distinct_prompts.families(*args).found) == found
  with decoders.float64(monkeypatch):
    shape, params = decoders.exact(SHAPE)
    want = program(shape, 1)(params, prompt)
    got = program(shape, group)(params, prompt)
  np.testing.assert_array_equal(got.tokens, want.tokens)
  np.testing.assert_array_equal(got.length, want.length)
  assert len({tuple(x) for x in np.asarray(got.tokens)}) > SLOTS - len(idle) - 2
  assert got.logp.dtype == np.float64
  np.testing.assert_allclose(got.logp, want.logp, atol=1e-12, rtol=0)
  np.testing.assert_allclose(got.entropy, want.entropy, atol=1e-12, rtol=0)


@pytest.mark.slow
def test_seeds_side_by_side_run_one_of_the_ways(monkeypatch):
  """Families only where those of every seed are found; never both ways."""
  monkeypatch.setattr(actor, 'HELD_ONCE', 1)
  params = decoders.random_parameters(SHAPE)
  run = functools.partial(program(SHAPE, GROUP), params)
  side_by_side = jax.jit(jax.vmap(run))
  alone = str(jax.make_jaxpr(run)(heard(MIXED)))
  for kinds in ((MIXED, APART), (MIXED, IMPURE)):
    each = [heard(k) for k in kinds]
    both = jax.tree.map(lambda *x: jnp.stack(x), *each)
    together = str(jax.make_jaxpr(side_by_side)(both))
    assert together.count(' cond[') == alone.count(' cond[') == 1
    got = side_by_side(both)
    for i, prompt in enumerate(each):
      want = program(SHAPE, 1)(params, prompt)
      np.testing.assert_array_equal(got.tokens[i], want.tokens)
      np.testing.assert_allclose(got.logp[i], want.logp, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
  ('group', 'least', 'start', 'ways'),
  [
    (GROUP, 6, None, 2),
    (8, 6, None, 2),  # by four
    (GROUP, 7, None, 1),  # short prompts
    (5, 6, None, 1),  # nothing of it divides twelve slots
    (GROUP, 6, 0, 1),  # a context that goes on
  ],
)
def test_a_second_loop_is_compiled_where_families_may_pay(
  group, least, start, ways, monkeypatch
):
  monkeypatch.setattr(actor, 'HELD_ONCE', least)
  params, prompt = decoders.random_parameters(SHAPE), heard(MIXED)
  if start is not None:
    prompt = prompt._replace(start=jnp.full(SLOTS, start))

  def draws(group):
    """How many draws are written into the program."""
    with mock.patch.object(sampling, 'draw', wraps=sampling.draw) as draw:
      jax.make_jaxpr(program.__wrapped__(SHAPE, group))(params, prompt)
    return draw.call_count

  assert draws(1) > 0
  assert draws(group) == ways * draws(1)


@pytest.mark.slow
def test_turns_copy_no_cache():
  """Of all positions that are allowed, a turn moves those that it uses."""
  params = mesh.init(transformer.specs(SHAPE), jax.random.key(0))
  speaker = actor.model(SHAPE, params, message=M, eot=EOT)
  one = prompt()

  @jax.jit
  def play(turns, cache, one):
    def turn(k, carry):
      length, (start, cache) = carry
      message, cache = speaker.say(cache, one._replace(start=start))
      return length + message.length, (start + 6, cache)

    start = jnp.zeros(N, jnp.int32), cache
    return jax.lax.fori_loop(0, turns, turn, (jnp.zeros(N, jnp.int32), start))

  cache = speaker.cache(N, 1111)
  last = {x.shape for x in jax.tree.leaves(cache) if 1111 - 1024 in x.shape}
  sizes = '|'.join(','.join(map(str, x)) for x in last)
  text = play.lower(jnp.int32(2), cache, one).compile().as_text()
  entry = text.index('\nENTRY')
  copies = re.findall(rf'f32\[(?:{sizes})\]\S* (\w[\w\-]*)\(', text[:entry])
  assert 'copy' not in copies
  assert 'get-tuple-element' in copies
