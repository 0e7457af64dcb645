"""Who does not count is as if not there: one law for the pieces of five slots.

Every registered link, signal, curate and memory piece gives to the others,
learns and stores, from a batch with members that do not count, what it does
from the batch without them; collect pieces are in collect/collect_laws_test.py.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.advantage
import agentrl.curate
import agentrl.memory
import agentrl.signal  # noqa: F401  all of these register their pieces
from agentrl import registry
from agentrl.advantage import chain
from agentrl.learner import update
from agentrl.memory import annotations, trajectory_ring
from agentrl.memory.skills import Practice
from agentrl.ops import counting
from agentrl.types import LinkInputs
from tests import counting_cases as cases
from tests import errors
from tests.counting_cases import KINDS, B, off

# Where a default would leave nothing to see in so small a batch.
HP = {
  'require_members': {'least': 2},
  'standardize': {'least': 2},
  'most_varied': {'share': 0.5},
  'implicit_prm': {'pairing': 'all_pairs', 'trajectory': 'mean'},
  'entropy_history': {'least': 1},
  'latent_reward': {'latents': 1, 'user': 'switch', 'users': 32},
  'principled_reward': {
    'readings': ('nulled',),
    'judged': ('env -progress',),
    'use': 'nulled',
  },
  'replay': {'capacity': 8, 'n': 4, 'history': 8},
  'replay_when_full': {'capacity': 8, 'n': 4, 'history': 8},
  'experience_replay': {'capacity': 30, 'n': 4, 'alpha': 1.0},
  'compensation': {'capacity': 8, 'n': 4},
  'priority_term': {'share': 0.5},
  'priority_turns': {'share': 0.5},
}
# Nothing here runs long, and most of the time is the compiler's.
QUICK = {
  'xla_backend_optimization_level': 0,
  'xla_llvm_disable_expensive_passes': True,
}
# Of preference.py, beside the default.
LOSSES = ('cross_entropy', 'detached', 'bon_outcome', 'bon_score')


@functools.cache
def made(kind):
  return cases.make(kind)


def by_kind(run):
  """run(case), compiled once, of every kind of case: {kind: host arrays}."""
  f = jax.jit(run).lower(made('without')).compile(QUICK)
  return {kind: jax.device_get(f(made(kind))) for kind in (*KINDS, 'without')}


def fast_and_slow(names, slow):
  return [
    pytest.param(name, marks=[pytest.mark.nightly] * (name in slow))
    for name in names
  ]


def others(x, kind='without'):
  """x [B, ...] or [N, T, ...] of the trajectories and tokens that count."""
  rows = made(kind).batch.rows
  if x.shape[:2] == rows.traj.shape:
    here = np.asarray(made('without').batch.rows.traj) >= 0
    return np.where(here.reshape(*here.shape, *(1,) * (x.ndim - 2)), x, 0)
  if x.shape[:1] == (B,):
    there = np.asarray(made('without').batch.turns.valid)
    some = ~off.reshape(-1, *(1,) * (x.ndim - 1))
    if x.shape[:2] == there.shape:
      some = there.reshape(*there.shape, *(1,) * (x.ndim - 2))
    return np.where(some, x, 0)
  return x


def alike(got, want):
  """To rounding: sums of float32 go another way."""
  assert jax.tree.structure(got) == jax.tree.structure(want)
  for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
    np.testing.assert_allclose(
      others(np.asarray(x)), others(np.asarray(y)), rtol=2e-4, atol=2e-5
    )


# ---- the notion


def test_a_trajectory_counts_if_all_its_turns_were_scored():
  batch = made('left_out').batch
  scored = np.asarray(batch.turns.valid).copy()
  scored[0, 0] = False
  whole = batch.replace(turns=batch.turns.replace(scored=jnp.asarray(scored)))
  valid = np.asarray(batch.turns.valid)
  np.testing.assert_array_equal(counting.counted(whole, 'turn'), scored)
  want = valid & (np.arange(B) > 0)[:, None]
  np.testing.assert_array_equal(counting.counted(whole, 'trajectory'), want)
  np.testing.assert_array_equal(counting.trajectories(whole), want.any(1))
  with errors.raises(ValueError, 'unit row'):
    counting.counted(batch, 'row')


def test_padding_does_not_count():
  np.testing.assert_array_equal(
    counting.trajectories(made('without').batch), ~off
  )


# ---- links


LINKS = registry.names('link')
# These take the compiler long. They go along single trajectories, or differ in
# one line from another that is not among them.
LONG = {
  *(name for name in LINKS if registry.get('link', name).leaves == 'token'),
  'center',
  'center_history',
  'drop_flat',
  'leave_one_out',
  'require_members',
  'scale_by_mean',
  'whiten',
}


def _links(names, case):
  out = {}
  for name in names:
    link = registry.bind('link', name, HP.get(name, {}))
    out[name] = link(
      LinkInputs(batch=case.batch, credit=case.credit, signals=case.signals)
    )
  return out


@functools.cache
def linked(long):
  names = [name for name in LINKS if (name in LONG) == long]
  return by_kind(functools.partial(_links, names))


@pytest.mark.slow
@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('name', fast_and_slow(LINKS, LONG))
def test_a_link(name, kind):
  """Credit, weights, targets and metrics; nobody else is credited."""
  found = linked(name in LONG)
  (got, told), (want, wanted) = found[kind][name], found['without'][name]
  alike((got, told), (want, wanted))
  a = chain.token_advantage(got, made(kind).batch.rows)
  theirs = np.asarray(made('without').batch.rows.traj) < 0
  assert not np.any(np.where(theirs, a * got.weight, 0))
  for goal in got.target:
    if goal.endswith('.weight'):
      assert not np.any(np.where(theirs, got.target[goal], 0))
  assert any(np.any(others(x)) for x in jax.tree.leaves(want))


SOURCES = (
  'turn_reward',
  'episode_return',
  'episode_outcome',
  'step_return',
  'add_signal',
  'add_term',
  'add_bounded_sum',
  'add_constant',
  'add_label',
  'add_token_signal',
  'kl_in_reward',
)


def _streams(case):
  bound = {name: [registry.bind('link', name, {})] for name in SOURCES}
  return chain.advantage(bound, {}, [], case.batch, case.signals)


def test_nobody_starts_with_credit_or_weight_who_does_not_count():
  found = by_kind(_streams)
  for kind in KINDS:
    credit, _ = found[kind]
    assert not credit.turn[off].any()
    theirs = np.asarray(made('without').batch.rows.traj) < 0
    a = chain.token_advantage(credit, made(kind).batch.rows)
    assert not np.any(np.where(theirs, a, 0))
    assert not np.any(np.where(theirs, credit.weight, 0))
    alike(found[kind], found['without'])


# ---- signals


# case of the test -> signal, hyper-parameters
PIECES = {name: (name, HP.get(name, {})) for name in registry.names('signal')}
PIECES |= {
  f'implicit_prm_{loss}': ('implicit_prm', {'loss': loss}) for loss in LOSSES
}
# What these learn from is a link's target or goes along single trajectories.
ALONE = (
  'blend',
  'heads',
  'policy_value',
  'reference',
  'restarted_prm',
  'value',
)


def _labelled(batch):
  """What memory `annotations` holds of a batch: labels of turns that count."""
  batch = batch.replace(readings={}, pairs=None)
  known = counting.counted(batch, 'turn')
  held = annotations.empty(batch, 2)
  b = len(batch.outcome)
  label = jnp.where(known, batch.turns.reward > 0, 0).astype(jnp.float32)
  return held.replace(
    trajectories=jax.tree.map(
      lambda new, old: old.at[:b].set(new),
      trajectory_ring.of_batch(batch),
      held.trajectories,
    ),
    label=held.label.at[:b].set(label),
    known=held.known.at[:b].set(known),
    born=held.born.at[:b].set(0),
  )


def _signals(labels, case):
  """What each signal says, the state after it has learned, and before."""
  learner, out = cases.learner(), {}
  state = update.init(learner, jax.random.key(0))
  # Every role starts as the policy, which has moved on since.
  policy = jax.tree.map(lambda x: x + 0.1, state.params['policy'])
  state = state.replace(params={**state.params, 'policy': policy})
  held = _labelled(case.batch)
  state = state.replace(memory={annotations.NAME: held})
  batch = registry.bind('curate', 'opposite_ranks', {})(case.batch)
  for label in labels:
    name, hp = PIECES[label]
    signal = registry.bind('signal', name, hp)(learner.context)
    before = signal.begin(state)
    fields, told = signal.score(before, batch, case.signals)
    after, learned = signal.update(
      before, batch, case.signals | fields, case.credit
    )
    states = [(s.params, s.opt, s.signal) for s in (before, after)]
    out[label] = fields, told | learned, states
  return out


@functools.cache
def signalled(alone):
  labels = [x for x in PIECES if (x in ALONE) == alone]
  return by_kind(functools.partial(_signals, labels))


LEARN = {
  'annotated_reward',
  'archer',
  'archer_by_head',
  'blend',
  'entropy_history',
  'heads',
  'implicit_prm',
  'latent_reward',
  'low_and_high',
  'moving_average',
  'multi_head_reward',
  'principled_reward',
  'prm_persistence',
  'progress',
  'restarted_prm',
  'reward_model',
  'td_error',
  'td_prm',
  'td_prm_by_outcome',
  'value',
}


@pytest.mark.slow
@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('label', fast_and_slow(PIECES, ALONE))
def test_a_signal(label, kind):
  """What it says, its metrics, and its parameters after learning."""
  found = signalled(label in ALONE)
  alike(found[kind][label], found['without'][label])
  before, after = found[kind][label][2]
  pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
  moved = any(not np.array_equal(x, y) for x, y in pairs)
  assert moved == (PIECES[label][0] in LEARN)


# ---- curate


def _curated(case):
  return {
    name: registry.bind('curate', name, HP.get(name, {}))(case.batch)
    for name in registry.names('curate')
  }


@pytest.fixture(scope='module')
def curated():
  return by_kind(_curated)


# These change weights of tokens alone, drop solvers of proposals, of whom there
# are none here, or make pairs.
KEEP_ALL = {'train_prefix', 'within_frontier'}
PAIRS = {
  'as_listed',
  'every_pair',
  'node_pairs',
  'opposite_ranks',
  'ranked_factors',
  'same_state',
}


def compared(pairs):
  """The halves of the pairs that weigh something: trajectory and turn."""
  here = np.asarray(pairs.weight) > 0
  halves = np.concatenate([pairs.win, pairs.lose], axis=1)[here]
  return sorted(
    half for x in halves.tolist() for half in (tuple(x[:2]), tuple(x[2:]))
  )


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('name', registry.names('curate'))
def test_who_is_kept(name, kind, curated):
  got, want = curated[kind][name], curated['without'][name]
  alike(got.rows.weight, want.rows.weight)
  alike(got.turns.scored, want.turns.scored)
  assert not got.turns.scored[off].any()
  if name in PAIRS:
    got, want = compared(got.pairs), compared(want.pairs)
    assert got == want
    assert got
    assert not np.isin([x for x, _ in got], np.flatnonzero(off)).any()
  if name in KEEP_ALL | PAIRS:
    return
  kept = want.turns.scored.any(1)
  assert 0 < kept.sum() < (~off).sum()
  assert not kept[4:8].any()  # they agree, but for one that does not count


# ---- memory

# All but the queue of groups that wait, which do not count on purpose, and
# texts and annotations, which go by what was played: a judge that failed says
# nothing of them.
APART = ('annotations', 'texts', 'unfinished')
MEMORIES = [x for x in registry.names('memory') if x not in APART]


def _practised(batch):
  """Tasks of two skills."""
  none, size = jnp.zeros(128, bool), len(batch.outcome)
  skill = jnp.arange(size, dtype=jnp.int32) % 2
  return Practice(skill, none, none, jnp.int32(1), jnp.int32(0))


def _remembered(case):
  out = {}
  for name in MEMORIES:
    memory = registry.bind('memory', name, HP.get(name, {}))()
    batch = case.batch.replace(readings={}, practice=_practised(case.batch))
    state = memory.init(batch, len(batch.outcome))
    for step in range(2):
      state = memory.write(state, batch, case.credit, jnp.int32(step))
    _, told = memory.read(state, batch, jnp.int32(2), jax.random.key(0))
    out[name] = state, told
  return out


@pytest.fixture(scope='module')
def remembered():
  return by_kind(_remembered)


@pytest.mark.parametrize('kind', KINDS)
@pytest.mark.parametrize('name', MEMORIES)
def test_what_is_remembered(name, kind, remembered):
  """What is stored, means of groups, and what is said of what comes back."""
  (state, told), want = remembered[kind][name], remembered['without'][name]
  for got, wanted in zip(
    jax.tree.leaves((state, told)), jax.tree.leaves(want), strict=True
  ):
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_replay_remembers_no_broken_trajectory_and_no_made_up_0(remembered):
  """Returns 1, 1, 1 and an error are remembered as 1, not as .75."""
  pool, _ = remembered['left_out']['replay']
  assert pool.groups == 2 * 4
  reward = np.where(
    made('without').batch.turns.valid, made('left_out').batch.turns.reward, 0
  )
  group = np.asarray(made('left_out').batch.ids['group'])
  want = [reward.sum(1)[(group == g) & ~off].mean() for g in range(4)]
  np.testing.assert_allclose(pool.means, 2 * want, rtol=1e-5)
  stored = pool.trajectories.ids['task'][pool.born >= 0]
  assert len(stored)
  assert not set(stored.tolist()) & set(cases.OFF)
