"""Each token has the log-prob that its own version gives for all before it."""

import dataclasses
import functools

import jax
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import config, lora
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from tests.rollout.engine import engine_test
from tests.rollout.engine.engine_test import (
  EOT,
  KINDS,
  SHAPE,
  finish,
  how,
  tokens,
)

SIZES = Sizes(slots=3, capacity=60, burst=3, chunk=16, lanes=1)
SINGLE = dataclasses.replace(SIZES, burst=1)
MODES = pytest.mark.parametrize('drain', [True, False])


@functools.cache
def params(version):
  """Weights of a version: far from others', and well conditioned in float32."""
  found = mesh.init(config.specs(SHAPE), jax.random.key(version))
  return jax.tree.map(lambda x: 2 * x, found)


def engine(sizes=SIZES, weights=params):
  made = Engine(SHAPE, sizes, eot=EOT)
  put(made.update_weights, weights, 0)
  return made


def put(where, weights, version, **more):
  """Gives an engine the weights of a version; of every adapter."""
  given = weights(version)
  several = isinstance(given, tuple)
  where(given, (version,) * len(given) if several else version, **more)


def replay(context, spoken, asked: SamplingParams, weights=params):
  """Draws a message again: whole forward passes by each token's version."""
  drawn = (asked.key, np.float32(asked.temperature), asked.top_k, asked.top_p)
  drawn = tuple(map(np.asarray, drawn))
  ids, logps = list(context), []
  for t, version in enumerate(spoken.version):
    of = weights(version)
    of = of[asked.adapter] if isinstance(of, tuple) else of
    row = np.zeros(60, np.int32)
    row[: len(ids)] = ids
    token, logp = engine_test.following(of, row, len(ids), drawn, t)
    ids.append(int(token))
    logps.append(float(logp))
  assert spoken.ids == ids[len(context) :]
  # Relative too: another CPU sums in another order, 4e-6 of a log-prob of -3.
  np.testing.assert_allclose(spoken.logp, logps, atol=1e-5, rtol=1e-5)
  assert spoken.version == sorted(spoken.version)


def converse(e: Engine, swaps, *, drain, kinds, weights=params):
  """Plays three turns of eight sequences; weights change before some rounds.

  Args:
    swaps: round -> version
    kinds: of sequences in turn, what of how() they vary
  Returns: the versions of each message
  """
  rng, newest, at, seen = np.random.default_rng(1), 0, 0, []
  heads = [tokens(rng, 20), tokens(rng, 7)]  # each begins four of them
  talk = {i: list(heads[i % 2]) for i in range(8)}
  left, open_ = dict.fromkeys(talk, 3), {}
  while any(left.values()):
    for i in [i for i in talk if i not in open_ and left[i]]:
      talk[i] += tokens(rng, int(rng.integers(1, 4)))
      asked = how(rng, budget=int(rng.integers(2, 9)), **kinds[i % len(kinds)])
      open_[i] = asked, newest
      e.submit(i, talk[i], asked)
    if at in swaps:
      newest = swaps[at]
      put(e.swap_weights, weights, newest, drain=drain)
    e.dispatch()
    for spoken in e.collect():
      i = spoken.sequence
      asked, before = open_.pop(i)
      replay(talk[i], spoken, asked, weights)
      if drain:
        assert len(set(spoken.version)) == 1
      else:
        assert spoken.version[-1] == newest
      assert spoken.version[0] >= before  # published before it was asked for
      talk[i] += spoken.ids
      left[i] -= 1
      seen.append(spoken.version)
    at += 1
  assert not e.busy
  return seen


@pytest.mark.slow
@MODES
def test_tokens_are_those_of_a_replay_by_their_versions(drain):
  """Three slots for eight sequences, with prefixes that they share."""
  e = engine()
  seen = converse(e, {2: 1, 6: 2, 11: 3}, drain=drain, kinds=KINDS)
  assert {v for versions in seen for v in versions} == {0, 1, 2, 3}
  assert any(len(set(versions)) > 1 for versions in seen) != drain
  assert e.counts['swaps'] == 3
  assert e.counts['prefix_hits'] > 0
  assert e.counts['evicted'] > 0


@functools.cache
def adapters(version):
  """Two adapters on one base, as an update leaves them."""
  c = lora.Lora(rank=2, pattern='.*')
  specs = lora.specs(c, config.specs(SHAPE)['layers'])

  def one(seed):
    side = mesh.init(specs, jax.random.key(seed))
    side = jax.tree.map(lambda x: x + 0.3, side)
    return lora.attach(c, params(0), side)

  return one(2 * version), one(2 * version + 1)


@pytest.mark.slow
@MODES
def test_adapters_change_together(drain):
  e = engine(weights=adapters)
  kinds = [{'adapter': 0}, {'adapter': 0}, {'adapter': 1}, {'adapter': 1}]
  swaps = {2: 1, 6: 2}
  seen = converse(e, swaps, drain=drain, kinds=kinds, weights=adapters)
  assert {v for versions in seen for v in versions} == {0, 1, 2}


def speak(e: Engine, context, asked, *, before, drain):
  """A message of sequence 0; `before` says which version comes at a round."""
  e.submit(0, context, asked)
  for at in range(100):
    for version in before.get(at, ()):
      put(e.swap_weights, params, version, drain=drain)
    e.dispatch()
    if out := e.collect():
      return out[0]
  raise AssertionError('it never ends')


@pytest.mark.parametrize('at', range(7))
def test_weights_change_before_any_token(at):
  """The first and the last one too; a message with a token may be finished."""
  rng = np.random.default_rng(2)
  context, asked = tokens(rng, 9), how(rng, budget=6)
  whole = speak(engine(SINGLE), context, asked, before={}, drain=False)
  assert len(whole.ids) == 6
  for drain in (False, True):
    e = engine(SINGLE)
    spoken = speak(e, context, asked, before={at: [1]}, drain=drain)
    replay(context, spoken, asked)
    size = len(spoken.ids)
    old = size if drain and at else min(at, size)
    assert spoken.version == [0] * old + [1] * (size - old)
    # What is due when a message ends is there for the next one.
    more, after = [*context, *spoken.ids, *tokens(rng, 3)], how(rng)
    last = speak(e, more, after, before={}, drain=drain)
    replay(more, last, after)
    assert set(last.version) == {1 if at < size else 0}


@MODES
def test_of_two_versions_between_two_rounds_the_last_counts(drain):
  rng, e = np.random.default_rng(3), engine(SINGLE)
  context, asked = tokens(rng, 9), how(rng, budget=6)
  before = {0: [1, 2], 3: [3, 4]}
  spoken = speak(e, context, asked, before=before, drain=drain)
  replay(context, spoken, asked)
  rest = 2 if drain else 4
  assert spoken.version == [2] * 3 + [rest] * (len(spoken.ids) - 3)
  assert e.counts['swaps'] == (1 if drain else 2)


def test_the_version_alone_may_change():
  """A step without a gradient gives the parameters back as they were."""
  rng, e = np.random.default_rng(4), engine(SINGLE)
  context, asked = tokens(rng, 9), how(rng, budget=5)
  e.submit(0, context, asked)
  e.dispatch()
  e.collect()
  e.swap_weights(params(0), 7, drain=False)
  (spoken,) = finish(e).values()
  assert spoken.version == [0] + [7] * (len(spoken.ids) - 1)
  engine_test.same(spoken, context, asked, params(0))
  assert e.counts['swaps'] == e.counts['prefilled_again'] == 0


@MODES
def test_a_request_that_is_half_prefilled_begins_anew(drain):
  """A long prompt is read beside eight that speak, chunk by chunk."""
  rng = np.random.default_rng(5)
  e = engine(Sizes(slots=9, capacity=60, burst=1, chunk=8, lanes=1))
  asked = {i: (tokens(rng, 4), how(rng, budget=12)) for i in range(8)}
  asked[8] = tokens(rng, 40), how(rng, budget=3)
  for i in range(8):
    e.submit(i, *asked[i])
  e.dispatch()
  out = e.collect()
  e.submit(8, *asked[8])
  before = e.counts['prefilled']
  e.dispatch()
  out += e.collect()
  assert 0 < e.counts['prefilled'] - before < 39
  put(e.swap_weights, params, 1, drain=drain)
  said = {x.sequence: x for x in out} | finish(e)
  assert set(said) == set(asked)
  for i, spoken in said.items():
    replay(asked[i][0], spoken, asked[i][1])
  assert set(said[8].version) == {1}


def test_what_needs_no_prefill_waits_for_new_weights_too():
  """The same context again: nothing of it is read by the old ones."""
  rng, e = np.random.default_rng(13), engine(SINGLE)
  context = tokens(rng, 9)
  e.submit(0, context, how(rng, budget=2))
  finish(e)
  e.submit(1, tokens(rng, 5), how(rng, budget=5))
  e.dispatch()
  e.collect()
  put(e.swap_weights, params, 1, drain=True)
  e.submit(0, context, asked := how(rng, budget=3))
  said = finish(e)
  assert set(said[1].version) == {0}
  assert set(said[0].version) == {1}
  replay(context, said[0], asked)


@MODES
def test_what_is_cancelled_at_a_swap_delays_no_other(drain):
  rng, e = np.random.default_rng(6), engine()
  asked = {i: (tokens(rng, 9), how(rng, budget=20)) for i in range(5)}
  for i, one in asked.items():
    e.submit(i, *one)
  e.dispatch()
  e.collect()
  put(e.swap_weights, params, 1, drain=drain)
  for i in (0, 1, 3):  # the last one still waits for a slot
    e.cancel(i)
  e.dispatch()
  e.cancel(2)  # while its round is under way
  out = {x.sequence: x for x in e.collect()} | finish(e)
  assert set(out) == {4}
  replay(asked[4][0], out[4], asked[4][1])
  assert set(out[4].version) == {1}


def test_other_parameters_take_the_place_of_those_that_are_due():
  """A batch that begins forgets what the one before it was to go on with."""
  rng, e = np.random.default_rng(7), engine()
  context, asked = tokens(rng, 9), how(rng)
  put(e.swap_weights, params, 1, drain=True)
  put(e.update_weights, params, 2)
  e.submit(0, context, asked)
  spoken = finish(e)[0]
  assert set(spoken.version) == {2}
  replay(context, spoken, asked)


def test_no_prefix_of_other_weights_is_shared():
  """Neither of one who speaks, nor of one who waits, nor of one who left."""
  rng = np.random.default_rng(8)
  e = engine(dataclasses.replace(SIZES, slots=4))
  prompt = tokens(rng, 30)
  for i in range(2):  # both are idle then, and one is gone
    e.submit(i, prompt, how(rng, budget=2))
  finish(e)
  e.cancel(1)
  e.submit(2, prompt, long := how(rng, budget=12))
  e.dispatch()
  e.collect()
  put(e.swap_weights, params, 1, drain=False)
  e.submit(3, prompt, asked := how(rng, budget=4))
  before = dict(e.counts)
  said = finish(e)
  replay(prompt, said[3], asked)
  replay(prompt, said[2], long)
  # The one who speaks reads the prompt again, the other takes it from there.
  assert e.counts['prefix_hits'] - before['prefix_hits'] == 29


def test_a_swap_costs_what_was_cached():
  """A prompt of a group is read once more, and each message's own tokens."""
  rng = np.random.default_rng(12)
  e = engine(Sizes(slots=4, capacity=60, burst=2, chunk=16, lanes=1))
  prompt, wrote = tokens(rng, 20), {}

  def stop(i, ids):
    wrote[i] = list(ids)
    return 0

  for i in range(4):
    own = functools.partial(stop, i)
    e.submit(i, prompt, how(rng, budget=30, temperature=3.0, stop=own))
  for _ in range(3):
    e.dispatch()
    assert not e.collect()
  assert len({x[0] for x in wrote.values()}) == 4  # what they share is a prompt
  # The decoder reads the last token, of the prompt or of a message.
  cost = len(prompt) + sum(len(x) - 1 for x in wrote.values())
  before = e.counts['prefilled']
  put(e.swap_weights, params, 1, drain=False)
  for _ in range(2):
    e.dispatch()
    e.collect()
  again = e.counts['prefilled_again']
  assert again == e.counts['prefilled'] - before == cost
  finish(e)
  assert e.counts['prefilled_again'] == again


@pytest.mark.slow
def test_all_that_is_prefilled_but_the_first_time_is_counted_again():
  """A swap may come in the midst of what the last one began."""
  rng, size = np.random.default_rng(11), [30, *[4] * 16]
  e = engine(Sizes(slots=17, capacity=60, burst=1, chunk=8, lanes=1))
  for i, n in enumerate(size):  # they share no prefix
    e.submit(i, [3 + i, *tokens(rng, n - 1)], how(rng, budget=15))
  version, halves = 0, 0
  while e.busy:
    e.dispatch()
    e.collect()
    requests = e._scheduler.scheduled().values()
    halves += any(e._scheduler.pending(x) and x.spoken for x in requests)
    version += 1
    if version % 7 < 2:
      put(e.swap_weights, params, version, drain=False)
  assert halves > 1
  assert e.counts['prefix_hits'] == e.counts['evicted'] == 0
  first = sum(n - 1 for n in size)
  assert e.counts['prefilled_again'] == e.counts['prefilled'] - first > 99


def test_who_waits_for_a_world_pays_at_the_next_turn():
  rng, e = np.random.default_rng(10), engine()
  talk = tokens(rng, 15)
  e.submit(0, talk, how(rng, budget=4))
  talk += finish(e)[0].ids
  for version in (1, 2):  # what is dropped twice is read again once
    put(e.swap_weights, params, version, drain=False)
    e.dispatch()
    e.collect()
  assert e.counts['prefilled_again'] == 0
  before, cached = e.counts['prefilled'], len(talk) - 1
  talk += tokens(rng, 6)
  e.submit(0, talk, how(rng, budget=2))
  finish(e)
  assert e.counts['prefilled'] - before == len(talk) - 1
  assert e.counts['prefilled_again'] == cached
  for i in (1, 2, 3):  # who loses its slot by others pays nothing to a swap
    e.submit(i, tokens(rng, 30), how(rng, budget=2))
  finish(e)
  e.submit(0, talk, how(rng, budget=2))
  finish(e)
  assert e.counts['evicted'] > 0
  assert e.counts['prefilled_again'] == cached
