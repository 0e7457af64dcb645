"""What is sampled beside a batch, or beyond it: on made-up records."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.collect  # noqa: F401  registers its pieces
from agentrl import registry
from agentrl.collect import dynamic
from agentrl.configs import base, dapo, grpo, grpo_roc
from agentrl.learner import update
from agentrl.rollout import record as record_lib
from agentrl.run import build, stages
from agentrl.run import collect as collect_lib
from agentrl.study import execute, spec
from agentrl.task.fixed import attempts as make_attempts

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
  assert collect_lib.attempted(grpo.get_config('tiny')) == 32
  c = dapo.get_config('tiny')
  assert collect_lib.attempted(c) == 64
  base.hp(c, 'collect', 'dynamic_sampling', times=3)
  assert collect_lib.attempted(c) == 96


def test_resampling_on_correct_is_the_half_that_curating_keeps():
  """Its groups are half as large; nothing that counts is left behind."""
  outcome = ([0, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 1, 1])
  f = registry.bind('collect', 'resample_on_correct', {})
  half = registry.bind('curate', 'correct_and_clean', {})

  @jax.jit
  def both(record, attempts, wrong):
    def sample(attempts, key):
      batch = _batch(record, attempts, 'turn')
      terms = batch.turns.terms | {'invalid': wrong}
      return batch.replace(turns=batch.turns.replace(terms=terms))

    got, _ = f(sample, _score, attempts, (), (), jax.random.key(0))
    curated = half(_score(sample(attempts, None)))
    kept = jnp.any(curated.turns.scored & curated.turns.valid, axis=1)
    # Of the third group, which goes as a whole, the first two fill the batch.
    here = kept | jnp.isin(jnp.arange(B), jnp.array([8, 9]))
    return got, dynamic.take(curated, jnp.flatnonzero(here, size=8)), kept

  attempts = make_attempts(np.repeat(np.arange(4) + 5, G), G, K, 1.0)
  wrong = np.random.default_rng(3).integers(0, 2, (B, K)).astype(np.float32)
  got, want, kept = jax.device_get(both(_record(outcome), attempts, wrong))
  assert kept.reshape(4, G).sum(1).tolist() == [2, 2, 0, 2]
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_array_equal(x, y)
  assert got.ids['group'].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
  trained = np.asarray(got.rows.weight).sum(1).reshape(8, -1).sum(1) > 0
  assert trained.tolist() == [True] * 4 + [False] * 2 + [True] * 2


def test_members_of_a_group_must_be_so_many_times_as_many():
  attempts = make_attempts(np.repeat(np.arange(4), G), G, K, 1.0)
  f = registry.bind('collect', 'resample_on_correct', {'group_times': 3})
  batch = _batch(_record(CASES['enough']), attempts, 'full')
  with pytest.raises(ValueError, match=r'group_times=3 .* do not divide 16'):
    f(lambda a, key: batch, _score, attempts, (), (), jax.random.key(0))


@pytest.mark.parametrize('method', ['dapo', 'grpo_roc'])
def test_what_a_study_sets_is_what_is_trained_on(method, tmp_path):
  """And the method's own oversampling multiplies it."""
  s = spec.Study(
    name='a', title='', question='', by='train', claims=(), threshold='a',
    reference='a', env_steps=1, tokens=1, grid=(1.0, 2.0), rate=1.0,
    arms=(spec.Arm('a', 'A', f'configs/{method}.py:tiny'),),
    envs={'e': spec.Env('E', {})}, warm='configs/grpo.py',
    changes={'rollout.batch': 16, 'rollout.group': 2},
  )  # fmt: skip
  ask = execute.Ask('e', 'a', 1.0, 0)
  c = execute._run(s, s.arms[0], str(tmp_path), ask).config
  assert (c.rollout.batch, c.rollout.group) == (16, 2)
  assert collect_lib.attempted(c) == 32
  deeper = 2 if method == 'grpo_roc' else 1
  assert collect_lib.attempted_group(c) == 2 * deeper


def test_a_batch_has_the_size_that_was_asked_for(tmp_path):
  """Of the stage's own attempts, by shapes alone: nothing is sampled."""
  c = grpo_roc.get_config('tiny')
  c.data = str(tmp_path)
  c.env.update(dict(train=8, test=2))
  c.rollout.update(dict(batch=16, group=4, slots=16, turns=3))
  c.sft.batch, c.micro = 16, 24
  s = build.setup(c)
  attempts = stages.rl_stage(s, 0, 1).tasks(0)
  state = update.init(s.learner, jax.random.key(0))
  size = collect_lib.attempted_group(c)
  assert np.unique(attempts.group).tolist() == list(range(32 // size))
  assert np.bincount(attempts.group).tolist() == [size] * (32 // size)
  batch = jax.eval_shape(
    functools.partial(collect_lib.collect, s),
    state.params['policy'], attempts, state.key, state.step,
  )  # fmt: skip
  assert batch.outcome.shape == (16,)
  assert batch.rows.tokens.shape[0] == 16 * 3


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
