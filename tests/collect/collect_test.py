"""What is sampled beside a batch, or beyond it: on made-up records."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.collect  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.rollout import record as record_lib
from agentrl.task.fixed import attempts as make_attempts
from configs import base, dapo, grpo
from experiments import rollouts

B, G, K, C, M = 16, 4, 3, 3, 2
# Outcomes of the four groups; the second case has one that differs.
CASES = {
  'enough': ([0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 1, 1], [1, 0, 1, 1]),
  'too_few': ([0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 1]),
}
KEPT = {'enough': (1, 3), 'too_few': (3, 0)}
HISTORY = ('turn', 'full')


def _record(outcome):
  """Trajectories of one to K turns, all numbers different."""
  r = np.random.default_rng(0)
  turns = 1 + np.arange(B) % K
  valid = np.arange(K)[None] < turns[:, None]
  number = lambda *shape: r.normal(size=shape).astype(np.float32)  # noqa: E731
  token = lambda *shape: r.integers(1, 99, shape, dtype=np.int32)  # noqa: E731
  return record_lib.Record(
    context=token(B, K, C),
    context_len=r.integers(1, C + 1, (B, K), dtype=np.int32),
    message=token(B, K, M),
    message_len=r.integers(1, M + 1, (B, K), dtype=np.int32),
    span=np.zeros((B, K, M), np.int8),
    logp=-1 - np.abs(number(B, K, M)),
    entropy=number(B, K),
    action=r.integers(-1, 3, (B, K), dtype=np.int32),
    reward=number(B, K),
    columns={'progress': number(B, K)},
    state=token(B, K),
    valid=valid,
    status=r.integers(0, 3, B, dtype=np.int32),
    outcome=np.asarray(outcome, np.float32).reshape(B),
  )


def _batch(record, attempts, history):
  layout = record_lib.per_turn(record)
  if history == 'full':
    layout = record_lib.full_history(record, K * (C + M))
  return record_lib.batch(record, layout, attempts, 7)


def _score(batch):
  turns = batch.turns.replace(reward=batch.turns.terms['env'])
  return batch.replace(turns=turns)


@pytest.fixture(scope='module')
def kept():
  """Every case and layout, compiled once for each layout."""
  attempts = make_attempts(np.repeat(np.arange(4) + 5, G), G, K, 1.0)
  f = registry.bind('collect', 'dynamic_sampling', {'times': 2})
  out = {}
  for history in HISTORY:

    @jax.jit
    def collect(record, attempts, history=history):
      def sample(attempts, key):
        return _batch(record, attempts, history)

      return f(sample, _score, attempts, (), (), jax.random.key(0))[0]

    for case, outcome in CASES.items():
      out[case, history] = jax.device_get(collect(_record(outcome), attempts))
  return attempts, out


@pytest.mark.parametrize('history', HISTORY)
@pytest.mark.parametrize('case', CASES)
def test_dynamic_sampling_is_the_batch_of_its_groups(case, history, kept):
  """As if only these attempts had been made, but for weights and nodes.

  What it took is that of all of them.
  """
  attempts, found = kept
  order = np.concatenate([np.arange(G * g, G * g + G) for g in KEPT[case]])
  some = lambda tree: jax.tree.map(lambda x: x[order], tree)  # noqa: E731
  record = some(_record(CASES[case]))
  want = jax.device_get(_score(_batch(record, some(attempts), history)))
  got = found[case, history]
  differ = np.array([True] * G + [case == 'enough'] * G)
  of = np.where(want.rows.traj >= 0, differ[want.rows.traj], False)
  weight = np.where(of, want.rows.weight, 0)
  scored = want.turns.scored & differ[:, None]
  assert got.sampled['attempts'] == B == 2 * want.sampled['attempts']
  want = want.replace(
    sampled=got.sampled,
    rows=want.rows.replace(weight=weight),
    turns=want.turns.replace(scored=scored, node=got.turns.node),
  )
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_array_equal(x, y)
  assert len(np.unique(got.turns.node)) == got.turns.node.size
  assert (weight > 0).any()


def test_times_must_divide_the_attempts():
  attempts = make_attempts(np.repeat(np.arange(4), G), G, K, 1.0)
  f = registry.bind('collect', 'dynamic_sampling', {'times': 3})
  batch = _batch(_record(CASES['enough']), attempts, 'full')
  with pytest.raises(ValueError, match=r'times=3 .* do not divide 16'):
    f(lambda a, key: batch, _score, attempts, (), (), jax.random.key(0))


def test_a_run_attempts_what_its_collect_piece_asks_for():
  assert rollouts.attempted(grpo.get_config('tiny')) == 32
  c = dapo.get_config('tiny')
  assert rollouts.attempted(c) == 64
  base.hp(c, 'collect', 'dynamic_sampling', times=3)
  assert rollouts.attempted(c) == 96


def test_greedy_companion_tells_its_return_and_nothing_else():
  attempts = make_attempts(np.arange(B), 1, K, 0.7)
  record = _record(CASES['enough'])
  f = registry.bind('collect', 'greedy_companion', {})
  keys = []

  def sample(attempts, key):
    """At temperature 0 a turn pays its task's number, and all turns happen."""
    keys.append(key)
    cold = jnp.asarray(attempts.temperature == 0)[:, None]
    paid = jnp.where(cold, attempts.task[:, None], record.reward)
    there = dataclasses.replace(
      record, reward=paid, valid=jnp.asarray(record.valid) | cold
    )
    return _batch(there, attempts, 'full')

  got, _ = f(sample, _score, attempts, (), (), jax.random.key(0))
  want = _score(sample(attempts, jax.random.key(0)))
  terms = dict(got.turns.terms)
  back = np.asarray(terms.pop('greedy_return'))
  valid = np.asarray(record.valid)
  np.testing.assert_array_equal(
    back, np.where(valid, K * np.arange(B)[:, None], 0)
  )
  got = got.replace(turns=got.turns.replace(terms=terms), sampled=want.sampled)
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_array_equal(x, y)
  assert keys[0] != keys[1]
