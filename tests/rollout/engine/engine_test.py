"""Sequences in slots are those of each one alone, whatever shares the batch."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import mesh
from agentrl.nn import config, lora, transformer
from agentrl.rollout import sampling
from agentrl.rollout.engine import engine as engine_lib
from agentrl.rollout.engine.engine import Engine, SamplingParams, Sizes
from tests import errors

EOT = 2
SHAPE = transformer.DecoderConfig(
  vocab=24,
  width=16,
  layers=2,
  heads=2,
  kv_heads=2,
  head_dim=8,
  mlp=32,
  positions=64,
)
SIZES = Sizes(slots=3, capacity=60, burst=3, chunk=16, lanes=1)


@functools.cache
def params(seed=0):
  found = mesh.init(config.specs(SHAPE), jax.random.key(seed))
  return jax.tree.map(lambda x: 3 * x, found)  # sharp: tokens differ in logp


def engine(sizes=SIZES, seed=0):
  made = Engine(SHAPE, sizes, eot=EOT)
  made.update_weights(params(seed), 0)
  return made


@jax.jit
def following(p, tokens, length, how, t):
  """The token after the first `length` of a row, and its log-prob."""
  seg = jnp.where(jnp.arange(60) < length, 0, -1)[None]
  hidden = transformer.forward(SHAPE, p, tokens[None], seg)
  logits = transformer.logits(p, hidden, SHAPE.logit_cap)[:, length - 1]
  key = jax.random.wrap_key_data(how[0])
  rest = (x[None] for x in how[1:])
  token, logp, _ = sampling.draw(
    logits, jax.random.fold_in(key, t)[None], *rest
  )
  return token[0], logp[0]


def alone(context, how, p=None):
  """A message by whole forward passes: ids, log-probs."""
  ids, logps = list(context), []
  drawn = (how.key, np.float32(how.temperature), how.top_k, how.top_p)
  drawn = tuple(map(jnp.asarray, drawn))
  for t in range(how.budget):
    row = np.zeros(60, np.int32)
    row[: len(ids)] = ids
    token, logp = following(p or params(), row, len(ids), drawn, t)
    ids.append(int(token))
    logps.append(float(logp))
    if ids[-1] == EOT:
      break
    if how.stop and how.stop(ids[len(context) :]):
      break
  return ids[len(context) :], logps


def how(rng, **fields):
  key = np.asarray(rng.integers(2**32, size=2), np.uint32)
  return SamplingParams(key, **{'budget': 7, 'temperature': 0.9, **fields})


def finish(e):
  out = []
  while e.busy:
    e.dispatch()
    out += e.collect()
  return {s.sequence: s for s in out}


def same(spoken, context, asked, p=None):
  ids, logp = alone(context, asked, p)
  assert spoken.ids == ids
  np.testing.assert_allclose(spoken.logp, logp, atol=1e-5)
  assert len(spoken.version) == len(spoken.entropy) == len(ids)


def tokens(rng, n):
  return rng.integers(3, 24, size=n).tolist()


# Of sequences in turn.
KINDS = ({}, {'temperature': 0.0}, {'top_k': 4}, {'top_p': 0.5})


@pytest.mark.slow
def test_conversations_with_evictions_and_forks():
  """Three turns of eight sequences on three slots; two fork from another.

  Each samples as it would alone, by its own temperature and cuts.
  """
  rng, e = np.random.default_rng(1), engine()
  talk = {sequence: tokens(rng, 5) for sequence in range(6)}
  for turn in range(3):
    if turn == 1:
      talk[6], talk[7] = list(talk[2]), list(talk[2])[:-1]
    asked = {}
    for sequence in rng.permutation(list(talk)).tolist():
      talk[sequence] += tokens(rng, int(rng.integers(1, 5)))
      budget = int(rng.integers(1, 7))
      asked[sequence] = how(rng, budget=budget, **KINDS[sequence % 4])
      e.submit(sequence, talk[sequence], asked[sequence])
    for sequence, spoken in finish(e).items():
      same(spoken, talk[sequence], asked.pop(sequence))
      talk[sequence] += spoken.ids
    assert not asked
  assert e.counts['evicted'] > 5


def test_a_next_turn_costs_its_new_tokens():
  rng, e = np.random.default_rng(2), engine()
  talk = tokens(rng, 30)
  e.submit(0, talk, how(rng, budget=4))
  talk += finish(e)[0].ids
  before = e.counts['prefilled']
  e.submit(0, [*talk, *tokens(rng, 6)], how(rng, budget=2))
  finish(e)
  assert e.counts['prefilled'] - before <= 6


def test_a_group_reads_its_prompt_once():
  rng = np.random.default_rng(3)
  e = engine(Sizes(slots=4, capacity=60, burst=3, chunk=16, lanes=1))
  prompt = tokens(rng, 40)
  asked = {sequence: how(rng, budget=5) for sequence in range(4)}
  for sequence, one in asked.items():
    e.submit(sequence, prompt, one)
  for sequence, spoken in finish(e).items():
    same(spoken, prompt, asked[sequence])
  assert e.counts['prefilled'] < 41
  assert e.counts['prefix_hits'] == 3 * 39


@pytest.mark.parametrize('size', [3, 6, 13, 17, 40])
def test_a_prefill_is_at_most_twice_as_wide_as_what_it_reads(size):
  rng = np.random.default_rng(size)
  e = engine(Sizes(slots=4, capacity=60, burst=3, chunk=64, lanes=1))
  read, widths = e._run.read, []

  def counted(params, cache, slot, tokens, *rest):
    widths.append(tokens.shape[1])
    return read(params, cache, slot, tokens, *rest)

  e._run = e._run._replace(read=counted)
  context, asked = tokens(rng, size), how(rng, budget=2)
  e.submit(0, context, asked)
  same(finish(e)[0], context, asked)
  assert len(widths) == 1  # in one piece
  assert size - 1 <= widths[0] < max(2 * (size - 1), engine_lib.LEAST_CHUNK + 1)


def test_stop_texts_end_a_message_where_they_are_complete():
  rng, e = np.random.default_rng(4), engine()
  context = tokens(rng, 9)
  free = how(rng, budget=12, temperature=1.0)
  e.submit(0, context, free)
  ids = finish(e)[0].ids
  decode = lambda ids: ''.join(chr(97 + i) for i in ids)  # noqa: E731
  want = decode(ids[2:4])
  stop = engine_lib.texts([want, 'never'], decode)
  size = decode(ids).find(want) + 2
  e.submit(0, context, free._replace(stop=stop))
  assert finish(e)[0].ids == ids[:size]
  talk = [*context, *ids[:size], *tokens(rng, 3)]  # goes on from there
  after = how(rng)
  e.submit(0, talk, after)
  same(finish(e)[0], talk, after)


def test_a_swap_is_seen_by_what_is_said_after_it():
  rng, e = np.random.default_rng(5), engine()
  prompt = tokens(rng, 20)
  long = how(rng, budget=30, temperature=1.0, stop=None)
  e.submit(0, prompt, long)
  e.dispatch()
  e.update_weights(params(1), 1)  # while a burst is under way
  out = e.collect()
  while not out:
    e.dispatch()
    out = e.collect()
  versions = out[0].version
  assert versions[:3] == [0, 0, 0]
  assert set(versions[3:]) <= {1}
  fresh = how(rng)
  e.submit(1, prompt, fresh)  # nothing of it may come from the old policy
  same(finish(e)[1], prompt, fresh, params(1))


def test_an_update_that_changes_nothing_is_a_version_all_the_same():
  """A step without a gradient gives the parameters back as they were."""
  rng, made = np.random.default_rng(3), engine()
  for version in (0, 4, 5, 9):
    made.update_weights(params(), version)
    made.submit(1, [3, 4, 5], how(rng))
    (message,) = finish(made).values()
    assert message.version == [version] * len(message.ids)
    made.cancel(1)


def test_a_line_may_go_while_it_speaks():
  rng, e = np.random.default_rng(6), engine()
  for sequence in range(4):
    e.submit(sequence, tokens(rng, 4), how(rng, budget=20))
  e.dispatch()
  e.cancel(1)
  e.cancel(3)  # which still waited
  e.collect()
  assert set(finish(e)) <= {0, 2}
  assert not e.busy


def pieces(e: Engine) -> set[int]:
  """Into how many pieces the arrays of the cache are cut."""
  return {
    x.size // x.addressable_shards[0].data.size
    for x in jax.tree.leaves(e._cache)
  }


@pytest.mark.parametrize(
  'explicit', [True, pytest.param(False, marks=pytest.mark.nightly)]
)
def test_on_a_mesh(explicit):
  """Same messages; a device never holds more than its own slots and heads."""
  rng = np.random.default_rng(7)
  sizes = Sizes(slots=4, capacity=60, burst=3, chunk=16, lanes=1)
  made = mesh.make({'data': 2, 'tensor': 2}, explicit=explicit)
  with jax.set_mesh(made):
    with errors.raises(ValueError, 'slots 3 2'):
      Engine(SHAPE, SIZES, eot=EOT)
    laid = jax.device_put(params(), mesh.shardings(config.specs(SHAPE)))
    e = Engine(SHAPE, sizes, eot=EOT)
    e.update_weights(laid, 0)
    assert pieces(e) == {4}
    asked = {i: (tokens(rng, 6 + 5 * i), how(rng)) for i in range(5)}
    asked[5] = asked[4]  # which copies what was read
    for sequence, one in asked.items():
      e.submit(sequence, *one)
    said = finish(e)
    assert pieces(e) == {4}
  for sequence, spoken in said.items():
    same(spoken, *asked[sequence])


def test_what_does_not_fit_is_said():
  e, rng = engine(), np.random.default_rng(8)
  for context, budget in (([], 3), ([1] * 60, 1), ([1] * 50, 11), ([1], 0)):
    with errors.raises(ValueError, '60'):
      e.submit(0, context, how(rng, budget=budget))
  e.submit(0, [5], how(rng))
  with errors.raises(ValueError, '0'):
    e.submit(0, [5], how(rng))
  with pytest.raises(ValueError):
    Engine(SHAPE, SIZES, eot=EOT).dispatch()
  with errors.raises(ValueError, 'burst 0'):
    Sizes(slots=1, capacity=8, burst=0)
  with errors.raises(ValueError, '64'):
    Engine(SHAPE, Sizes(slots=1, capacity=65), eot=EOT)


@pytest.mark.slow
def test_adapters_on_one_base_share_an_engine():
  """Each message is its own adapter's; prefixes are of one adapter alone."""
  c = lora.Lora(rank=2, pattern='.*')
  specs = lora.specs(c, config.specs(SHAPE)['layers'])
  sides = [
    jax.tree.map(lambda x: x + 0.3, mesh.init(specs, jax.random.key(i)))
    for i in range(3)
  ]
  trees = tuple(lora.attach(c, params(), x) for x in sides)
  sizes = dataclasses.replace(SIZES, slots=6)
  e, rng = Engine(SHAPE, sizes, eot=EOT), np.random.default_rng(9)
  e.update_weights(trees, (7, 8, 9))
  prompt, asked = tokens(rng, 20), {}
  for sequence in range(6):
    asked[sequence] = how(rng, adapter=sequence % 3)
    e.submit(sequence, prompt, asked[sequence])
  said = finish(e)
  for sequence, message in said.items():
    one = asked[sequence]
    same(message, prompt, one, trees[one.adapter])
    assert set(message.version) == {7 + one.adapter}
  assert e.counts['prefix_hits'] == 3 * 19  # of the second of each adapter
  assert len({tuple(x.ids) for x in said.values()}) > 3
  # A sequence may change its adapter: nothing of the other's is read again.
  e.submit(0, prompt, other := how(rng, adapter=1))
  same(finish(e)[0], prompt, other, trees[1])
