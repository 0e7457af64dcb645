"""An update takes what stands in its batch, whatever the room for it."""

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.loss  # noqa: F401  registers the losses
from agentrl import loop, mesh, optimizer, registry
from agentrl.learner import sizes
from agentrl.learner import update as update_lib
from agentrl.learner.algorithm import POLICY, Algorithm
from agentrl.memory.base import Memory
from agentrl.model import policy
from agentrl.model.pieces import MicroBatch
from agentrl.nn import transformer
from agentrl.rollout import pack
from agentrl.rollout import record as record_lib
from agentrl.rollout.engine.engine import Completion
from agentrl.signal.base import Context
from agentrl.task.base import make_attempts
from agentrl.types import Batch, Status, TrainState
from tests import states

B, GROUP, WORDS, TURNS, CONTEXT, MESSAGE = 8, 4, 31, 4, 76, 20
SHAPE = transformer.DecoderConfig(
  vocab=WORDS, width=8, layers=1, heads=2, kv_heads=1, head_dim=4, mlp=8
)
MODULE = policy.module(SHAPE)


def episodes(seed: int) -> list[pack.Episode]:
  """Groups that read one prompt; turns and messages differ in length."""
  r = np.random.default_rng(seed)
  prompts = [r.integers(0, WORDS, CONTEXT).tolist() for _ in range(B)]

  def turn(b: int, k: int) -> pack.TurnData:
    ids = r.integers(0, WORDS, r.integers(1, MESSAGE + 1)).tolist()
    seen = r.integers(0, WORDS, r.integers(1, 9)).tolist()
    n = len(ids)
    spoken = Completion(0, ids, [-3.0] * n, [1.0] * n, [0] * n)
    context = seen if k else prompts[b // GROUP]
    return pack.TurnData(context, spoken, k, float(r.normal()), False, {})

  counts = [TURNS, *r.integers(1, TURNS + 1, B - 1)]
  return [
    pack.Episode([turn(b, k) for k in range(n)], Status.FAILED, 0.0)
    for b, n in enumerate(counts)
  ]


def batch(
  seed: int, history: str = 'full', *, turns: int = 1, tokens: int = 1
) -> Batch:
  """The episodes of the seed.

  Args:
    turns, tokens: times as much room as they need at most
  """
  k, c, m = TURNS * turns, CONTEXT * tokens, MESSAGE * tokens
  record = pack.record(episodes(seed), k, c, m, ())
  layout = (
    record_lib.per_turn(record)
    if history == 'turn'
    else record_lib.full_history(record, k * (c + m))
  )
  attempts = make_attempts(np.arange(B) // GROUP, 1, k, 1.0)
  attempts = attempts.replace(group=attempts.task)
  made = record_lib.batch(record, layout, attempts, 0)
  reward = jnp.asarray(record.reward)
  return made.replace(turns=made.turns.replace(reward=reward))


def learner(fold: bool = True, n: int = 2, rows: int = 4) -> Algorithm:
  spec = registry.MethodSpec(
    loss=('reinforce',),
    advantage=('a',),
    stream={'a': ('episode_return', 'center')},
    hp={'minibatch': {'minibatches': {'n': n}}},
  )
  rule = optimizer.OptimizerConfig('optax:sgd', lr=0.1)
  micro = MicroBatch(rows, fold=fold)
  context = Context({POLICY: MODULE}, {POLICY: rule}, micro)
  return Algorithm.from_spec(spec, context, sample=lambda aux, key: None)


def begun(alg: Algorithm) -> TrainState:
  params = {POLICY: mesh.init(MODULE.specs, jax.random.key(0))}
  rule = alg.context.rules[POLICY]
  opt = {POLICY: optimizer.init(rule, params[POLICY])}
  return states.state(params=params, opt=opt)


@pytest.fixture
def traced(monkeypatch):
  """Sizes of the programs that were compiled: rows, tokens, places."""
  out, update = [], update_lib.update

  def noted(alg, state, batch):
    out.append((*batch.rows.tokens.shape, alg.context.micro.places))
    return update(alg, state, batch)

  monkeypatch.setattr(update_lib, 'update', noted)
  return out


def updated(alg: Algorithm, made: Batch):
  """Parameters, and metrics."""
  run = loop.jit_update(alg, update_lib.update)
  state, metrics, _ = run(begun(alg), made)
  return jax.device_get((state.params, metrics))


@pytest.mark.parametrize(
  ('history', 'fold'),
  [
    ('full', True),
    pytest.param('full', False, marks=pytest.mark.nightly),
    pytest.param('turn', True, marks=pytest.mark.nightly),
  ],
)
def test_room_that_is_not_used_changes_neither_program_nor_numbers(
  history, fold, traced
):
  alg, tight = learner(fold), batch(0, history)
  want, *_ = jax.jit(functools.partial(update_lib.update, alg))(
    begun(alg), tight
  )
  traced.clear()
  start = begun(alg).params
  for room in ({}, {'turns': 8, 'tokens': 8}):
    params, metrics = updated(alg, batch(0, history, **room))
    moved, wanted = (
      jax.tree.map(jnp.subtract, x, start) for x in (params, want.params)
    )
    chex.assert_trees_all_close(moved, wanted, rtol=1e-4, atol=2e-6)
    assert metrics['policy/nonfinite_skips'][0] == 0
  assert len(set(traced)) == 1
  assert bool(traced[0][2]) == fold


def beginnings(made: Batch) -> int:
  """Distinct tokens: all that a token of a row has seen, and itself."""
  rows = jax.device_get(made.rows)
  return len(
    {
      tuple(tokens[: t + 1])
      for tokens, seg in zip(rows.tokens, rows.seg, strict=True)
      for t in np.flatnonzero(seg >= 0)
    }
  )


@pytest.mark.slow
def test_a_micro_batch_has_the_places_of_what_it_reads(traced):
  """Few tokens in place of the 4 x 384 of four rows."""
  for seed in range(3):
    made = batch(seed)
    updated(learner(n=1), made)
    assert traced[-1][2] == sizes.rounded(beginnings(made)) < 4 * 384


def test_a_micro_batch_is_never_larger_than_its_rows(traced):
  made = batch(0, 'turn')
  updated(learner(n=1, rows=5), made)
  assert beginnings(made) > 5 * 96 == traced[-1][2] < sizes.rounded(5 * 96)


def test_what_a_memory_keeps_is_not_cut(traced):
  made, alg = batch(0, turns=2), learner()
  kept = Memory(init=None, write=lambda state, *_: state)
  alg = alg._replace(memory={'some': kept})
  state = begun(alg).replace(memory={'some': ()})
  loop.jit_update(alg, update_lib.update)(state, made)
  assert traced[-1][:2] == made.rows.tokens.shape


def test_a_row_of_a_reading_fits(traced):
  """Also where it is longer than the tokens of all rows of a micro-batch."""
  made, wide = batch(0), batch(0, tokens=8).rows
  long = wide.replace(seg=jnp.zeros_like(wide.seg))
  updated(learner(n=1), made.replace(readings={'hinted': long}))
  assert traced[-1][2] >= long.seg.shape[1] > 4 * made.rows.seg.shape[1]


def test_a_size_is_one_of_few_and_less_than_half_as_large_again():
  asked = range(1, 1 << 14)
  given = [sizes.rounded(n) for n in asked]
  assert all(
    n <= x < max(1.5 * n, 17) for n, x in zip(asked, given, strict=True)
  )
  assert len(set(given)) == 2 * (14 - 4) + 1


def test_a_program_is_compiled_once_for_each_size(traced):
  alg = learner()
  run = loop.jit_update(alg, update_lib.update)
  state = begun(alg)
  for seed in range(12):
    state, *_ = run(state, batch(seed % 6, tokens=2))
  assert len(traced) == len(set(traced)) <= 6


@pytest.mark.parametrize('history', ['full', 'turn'])
def test_trimming_leaves_every_token_where_it_was(history):
  whole = batch(1, history, turns=3, tokens=2)
  whole = whole.replace(readings={'other': whole.rows})
  made = sizes.trimmed(whole, 4)
  for rows, old in (
    (made.rows, whole.rows),
    (made.readings['other'], whole.readings['other']),
  ):
    assert rows.tokens.size < old.tokens.size
    assert len(rows.tokens) % B == 0
    here, then = rows.seg >= 0, old.seg >= 0
    for name, x in vars(rows).items():
      np.testing.assert_array_equal(x[here], vars(old)[name][then])
    column = jnp.broadcast_to(jnp.arange(rows.seg.shape[1]), rows.seg.shape)
    there = jnp.broadcast_to(jnp.arange(old.seg.shape[1]), old.seg.shape)
    np.testing.assert_array_equal(column[here], there[then])
  chex.assert_trees_all_equal(made.turns, whole.turns)


def test_rows_of_tokens_are_not_taken_for_turns():
  """[N, T] and [B, K] are told apart by their shapes."""
  made = sizes.trimmed(batch(0, turns=192 // TURNS), 4)
  assert made.turns.valid.shape[1] == 192 == sizes.rounded(192)
  assert made.rows.seg.shape[1] > 192


def test_a_batch_of_nothing_is_cut_to_the_least():
  made = batch(0)
  nothing = jnp.full_like(made.rows.seg, -1)
  made = made.replace(rows=made.rows.replace(seg=nothing))
  assert sizes.trimmed(made, 4).rows.seg.shape == (B, sizes.LEAST)
