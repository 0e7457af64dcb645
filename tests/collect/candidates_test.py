"""Candidates of a state: who is played, what a batch holds, who counts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import loop, registry
from agentrl.advantage import chain
from agentrl.collect import candidates
from agentrl.configs import base, gigpo, vpr
from agentrl.curate import select
from agentrl.learner import update
from agentrl.model import microbatch
from agentrl.ops import counting
from agentrl.rollout import record as record_lib
from agentrl.run import build
from agentrl.run.play import collect as collect_lib
from agentrl.task.base import make_attempts
from agentrl.types import Batch, CollectInputs, Span, Status
from tests import errors
from tests.rollout import jit_test as rollouts

B, K, G, k = 16, 4, 8, 4  # attempts, turns, group, candidates
EACH = K * k  # trajectories of a tree
LIMITS = (0, 2)  # of the first tree, and of the third; the others have K


def config(folder, env='frozen_lake', history='turn', **hp):
  """A slippery lake, where one action may come to several states."""
  c = vpr.get_config(f'tiny,env={env}')
  c.data = folder
  c.env.update(dict(train=4, test=2))
  if env == 'frozen_lake':
    c.env.slip = True
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=16)
  )
  sizes = dict(batch=B, group_size=G, slots=6, max_turns=K, history=history)
  c.rollout.update(sizes)
  c.hp.collect.candidates.update(hp)
  c.sft.batch, c.micro_batch = B, 16
  return c


def collected(c, limits=None):
  """Setup, a policy that acts, and the batch that it makes."""
  s = build.experiment(c)
  attempts = make_attempts(np.arange(B) // G, G, K, 1.0)
  if limits is not None:
    attempts = attempts.replace(limit=np.asarray(limits, np.int32))
  params = update.init(s.algorithm, jax.random.key(0)).params['policy']
  params = rollouts.taught(params, s.shape, s.tokenizer, s.world)
  f = jax.jit(functools.partial(collect_lib.rollout_and_score, s))
  return s, params, f(params, attempts, jax.random.key(5), jnp.int32(0))


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


@pytest.fixture(scope='module')
def batch(folder):
  return jax.device_get(collected(config(folder))[2])


def owners(batch):
  """(tree, turn) -> trajectories whose own turn it is, the path first."""
  out: dict[tuple[int, int], list[int]] = {}
  for i, t in zip(*np.nonzero(batch.turns.scored), strict=True):
    out.setdefault((int(i) // EACH, int(t)), []).append(int(i))
  return out


def said(batch, i, t):
  rows = batch.rows
  here = (rows.traj == i) & (rows.turn == t)
  here &= rows.sampled | (rows.span == Span.PREFIX)
  return rows.tokens[here].tolist()


def seen(batch, i, t):
  """What stands before a message: behind its observation, in its row."""
  rows = batch.rows
  here = (rows.traj == i) & (rows.turn == t)
  here &= rows.sampled | (rows.span == Span.PREFIX)
  n, first = (int(x[0]) for x in np.nonzero(here))
  return rows.tokens[n, :first].tolist()


def test_every_state_of_a_path_has_its_candidates(batch):
  """One of them goes on, and the others end there."""
  found = owners(batch)
  assert len(found) > 2 * B // k  # more than the first turns and the second
  path = batch.ids['unplayed'] == 0
  np.testing.assert_array_equal(np.flatnonzero(path) % EACH, 0)
  assert path.sum() == B // k
  for (tree, t), members in found.items():
    assert len(members) == k
    first, *leaves = members
    assert path[first]
    for i in leaves:
      assert batch.turns.valid[i].sum() == t + 1
      assert batch.ids['group'][i] == batch.ids['group'][tree * EACH]
    assert len({batch.turns.state[i, t] for i in members}) == 1
    assert len({tuple(seen(batch, i, t)) for i in members}) == 1
  for i in np.flatnonzero(path):  # whole paths, in order
    assert [(i // EACH, t) in found for t in range(K)] == [
      bool(x) for x in batch.turns.valid[i]
    ]
  kinds = {
    len({str(said(batch, i, t)) for i in m}) for (_, t), m in found.items()
  }
  assert max(kinds) > 1


def test_the_one_that_is_played_is_among_the_best(batch):
  worth, varied = batch.turns.terms['progress'], 0
  for (_, t), members in owners(batch).items():
    values = worth[members, t]
    assert values[0] >= values.max() - 1e-6
    varied += np.ptp(values) > 0
  assert varied > 3


def test_leaves_repeat_the_path_and_no_token_is_sampled_twice(batch):
  node, rows, repeated = batch.turns.node, batch.rows, 0
  for (tree, t), (path, *leaves) in owners(batch).items():
    assert path == tree * EACH
    for i in leaves:
      for j in range(t):
        repeated += 1
        assert node[i, j] == node[path, j]
        assert said(batch, i, j) == said(batch, path, j)
        assert seen(batch, i, j) == seen(batch, path, j)
        assert batch.turns.state[i, j] == batch.turns.state[path, j]
  assert repeated > B
  np.testing.assert_array_equal(rows.weight, rows.sampled)
  own = np.zeros((len(node), K), int)
  np.add.at(own, (rows.traj[rows.sampled], rows.turn[rows.sampled]), 1)
  np.testing.assert_array_equal(own > 0, batch.turns.scored)
  np.testing.assert_array_equal(
    own, np.where(batch.turns.scored, batch.turns.terms['tokens'], 0)
  )
  owned = node[batch.turns.scored]
  assert len(set(owned.tolist())) == len(owned)


def test_candidates_that_act_alike_come_to_the_same(batch):
  """In a slippery lake: the tree has one luck, messages do not."""
  alike = 0
  for (_, t), members in owners(batch).items():
    by_message: dict[str, set] = {}
    for i in members:
      told = by_message.setdefault(str(said(batch, i, t)), set())
      told.add(
        (
          float(batch.turns.terms['progress'][i, t]),
          float(batch.turns.terms['env'][i, t]),
        )
      )
    assert all(len(x) == 1 for x in by_message.values())
    alike += len(by_message) < len(members)
  assert alike


def test_calls_are_counted_and_so_are_turns_that_are_played_again(batch):
  turns = [t for (_, t), members in owners(batch).items() for _ in members]
  assert batch.sampled['attempts'] == len(turns)
  assert batch.sampled['tokens'] == batch.rows.sampled.sum()
  assert batch.sampled['env_steps'] == sum(t + 1 for t in turns)


def test_what_was_not_played_has_no_end_that_counts(batch):
  path = batch.ids['unplayed'] == 0
  np.testing.assert_array_equal(counting.trajectories(batch), path)
  np.testing.assert_array_equal(
    counting.counted(batch, 'trajectory'), batch.turns.valid & path[:, None]
  )
  np.testing.assert_array_equal(batch.attempted['counts'], path)
  told = jax.device_get(loop.observe(batch))
  want = (batch.outcome[path] > 0.5).sum(), path.sum()
  assert told['rollout/success'] == tuple(map(float, want))
  assert told['rollout/unscored'][0] == 0
  assert told['rollout/turns'][0] == batch.turns.valid[path].sum()
  # A baseline over trajectories is of the paths, and gives nothing to others.
  made = batch.replace(outcome=np.where(path, batch.outcome, 99.0))
  credit = chain.compute_advantage(['episode_outcome', 'center'], made)
  assert not np.any(credit.turn[~path])
  assert np.abs(credit.turn).max() <= 1


def test_only_ends_have_outcomes(batch):
  cut = (batch.status == Status.SCHEDULE) & (batch.ids['unplayed'] == 1)
  assert cut.sum() > B
  assert not batch.outcome[cut].any()
  path = batch.ids['unplayed'] == 0
  assert not np.isin(batch.status[path], [Status.SCHEDULE]).any()


@pytest.mark.slow
def test_paths_are_as_long_as_their_attempts(folder):
  """A tree that is not attempted is empty; one of two turns ends there."""
  limits = np.repeat([LIMITS[0], K, LIMITS[1], K], k)
  _, _, made = collected(config(folder, 'sokoban'), limits)
  made = jax.device_get(made)
  turns = made.turns.valid[::EACH].sum(axis=1)
  assert turns[0] == 0
  assert not made.turns.valid[:EACH].any()
  assert turns[2] <= LIMITS[1]
  assert turns[1] > LIMITS[1]
  of_third = slice(2 * EACH, 3 * EACH)
  assert made.turns.valid[of_third].any(axis=1).sum() == 1 + turns[2] * (k - 1)
  assert (made.turns.valid.sum(axis=1)[of_third] <= LIMITS[1]).all()


@pytest.mark.slow
def test_trees_depend_on_their_key_alone(folder, batch):
  """Not on slots, and it is all a function of the key."""
  c = config(folder)
  c.rollout.slots = B
  _, _, again = collected(c)
  jax.tree.map(
    lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5),
    (again.turns, again.outcome, again.ids, again.rows.tokens),
    (batch.turns, batch.outcome, batch.ids, batch.rows.tokens),
  )


@pytest.mark.parametrize(
  'history', ['full', pytest.param('turn', marks=pytest.mark.slow)]
)
def test_log_probs_are_the_learners(folder, history):
  c = config(folder, 'sokoban', history)
  s, params, made = collected(c)
  apply = s.algorithm.context.modules['policy'].apply
  out = microbatch.forward(apply, params, made.rows, ('logp',), 16)
  made, logp = jax.device_get((made, out.logp))
  sampled = made.rows.sampled
  assert sampled.sum() == made.sampled['tokens'] > 2 * B
  np.testing.assert_allclose(logp[sampled], made.rows.logp[sampled], atol=1e-5)
  np.testing.assert_array_equal(made.rows.logp[~sampled], 0)


def candidates_of(value, scored=None):
  """A batch of [n, k] terms at the second of two turns."""
  value = jnp.asarray(value, jnp.float32).reshape(-1)
  b = len(value)
  one = [[[7]] * 2] * b
  logp = [[[-1.0]] * 2] * b
  made = Batch.from_turns(
    one, logp, reward=[[0.0, 0.0]] * b, group=list(range(b))
  )
  scored = jnp.ones(b, bool) if scored is None else scored.reshape(-1)
  turns = made.turns.replace(
    terms={'worth': jnp.stack([jnp.arange(b) * 1.0, value], axis=1)},
    scored=jnp.stack([jnp.ones(b, bool), scored], axis=1),
  )
  return made.replace(turns=turns)


def test_the_choice_is_uniform_among_the_best():
  value = [[1, 3, 3 * (1 + 1e-7), 2], [5, 5, 5, 5], [9, 1, 1, 1]]
  scored = np.array([[1, 1, 1, 1], [1, 0, 1, 1], [0, 1, 1, 0]], bool)
  made = candidates_of(value, jnp.asarray(scored))
  noise = jax.random.uniform(jax.random.key(0), (4000, 12))

  def count(play):
    f = functools.partial(candidates.chosen, k=4, by='worth', play=play)
    got = jax.vmap(lambda noise: f(made, 1, noise))(noise)
    return [np.bincount(x, minlength=4) / 4000 for x in np.asarray(got).T]

  for play, among in (
    ('best', [[0, 1, 1, 0], [1, 0, 1, 1], [0, 1, 1, 0]]),
    ('any', [[1, 1, 1, 1], [1, 0, 1, 1], [0, 1, 1, 0]]),
  ):
    for got, these in zip(count(play), among, strict=True):
      want = np.array(these) / sum(these)
      np.testing.assert_allclose(got, want, atol=0.04)
      assert not got[want == 0].any()
  nobody = candidates_of([value[0]], jnp.zeros((1, 4), bool))
  how = dict(k=4, by='worth', play='best')
  assert 0 <= int(candidates.chosen(nobody, 1, noise[0, :4], **how)[0]) < 4


def test_groups_are_whole_trees():
  c = vpr.get_config('tiny')
  registry.check(base.wiring(c), c)
  c.hp.collect.candidates.k = 3
  with errors.raises(ValueError, 'hp.collect.candidates.k group_size 3 8'):
    registry.check(base.wiring(c), c)
  c.hp.collect.candidates.k = 2
  registry.check(base.wiring(c), c)
  c.rollout.history = 'compact'
  with errors.raises(ValueError, 'rollout.history compact'):
    registry.check(base.wiring(c), c)
  c.rollout.history, c.prefix = 'turn', 'random_prefix'
  with errors.raises(ValueError, 'c.prefix random_prefix'):
    registry.check(base.wiring(c), c)
  c.prefix = 'none'
  read = base.wiring(c)._replace(recall='newest')
  errors.check(candidates.fits(read, c), 'recall none newest')
  assert not candidates.fits(base.wiring(c), c)


def fitting():
  c = vpr.get_config('tiny')
  return base.wiring(c), c


@pytest.mark.parametrize(
  'link',
  [
    'differences',
    'episode_mean',
    'episode_return',
    'gae_bilevel',
    'gae_tokens',
    'gae_turns',
    'new_best',
    'return_to_go',
    'return_to_go_tokens',
    'scale_by_count',
    'share_outcome',
    'step_return',
  ],
)
def test_links_from_turn_to_turn_are_refused(link):
  """A leaf has no turn behind it, and none before it that is scored."""
  spec, c = fitting()
  assert not candidates.fits(spec, c)
  spec = spec._replace(stream={'step': (*spec.stream['step'], link)})
  errors.check(candidates.fits(spec, c), f'c.stream.step {link} c.collect once')


@pytest.mark.parametrize('signal', ['information', 'td_error', 'td_prm'])
def test_signals_from_turn_to_turn_are_refused(signal):
  spec, c = fitting()
  errors.check(
    candidates.fits(spec._replace(signal=(signal,)), c), f'c.signal {signal}'
  )


def test_a_method_of_returns_to_go_is_refused():
  c = gigpo.get_config('tiny')
  registry.check(base.wiring(c), c)
  c.collect = 'candidates'
  with errors.raises(ValueError, 'c.stream.episode c.collect once'):
    registry.check(base.wiring(c), c)


def test_all_that_is_collected_stays():
  """Curation by groups keeps trajectories that count, and leaves are none."""
  spec, c = fitting()
  wrong = spec._replace(curate=('most_varied',))
  errors.check(candidates.fits(wrong, c), 'c.curate most_varied none')


def test_judges_are_of_turns():
  """Others would be asked about the path once for each of its turns."""
  spec, c = fitting()
  units = {
    name: registry.get('judge', name).takes for name in registry.names('judge')
  }
  for unit in ('trajectory', 'group'):
    name = next(x for x, takes in units.items() if takes == unit)
    wrong = spec._replace(judge=(name,))
    errors.check(candidates.fits(wrong, c), f'c.judge {name} {unit}')
  assert not candidates.fits(spec._replace(judge=('column',)), c)
  c.judging.budget = 3
  errors.check(candidates.fits(spec, c), 'judging.budget 3 0')


A = 2 * k  # attempts of two trees in a world of which rounds are told apart


def told(breaks, clock=False):
  """Trees of a world that fails, or that shows the time at its second turn.

  Args:
    breaks: (round, [A] places) -> [A] bool, whose worlds fail
  """

  def sample(attempts, key):
    limit = np.asarray(attempts.limit)
    t, place, turn = limit.max() - 1, np.arange(A), np.arange(K)
    late = (place < k)[:, None] & (turn == 1) & clock
    status = np.where(limit < K, Status.SCHEDULE, Status.TURN_LIMIT)
    made = record_lib.Record(
      context=np.ones((A, K, 2), np.int32),
      context_len=np.full((A, K), 2, np.int32),
      message=np.full((A, K, 2), 7, np.int32),
      message_len=np.full((A, K), 2, np.int32),
      span=np.zeros((A, K, 2), np.int8),
      logp=np.full((A, K, 2), -1, np.float32),
      entropy=np.ones((A, K), np.float32),
      action=np.zeros((A, K), np.int32),
      reward=np.ones((A, K), np.float32),
      columns={'worth': np.tile(place % k, (K, 1)).T.astype(np.float32)},
      state=(100 * (place // k)[:, None] + turn + 1000 * t * late).astype('i4'),
      valid=turn[None] < limit[:, None],
      status=np.where(breaks(t, place), Status.ENV_ERROR, status).astype('i4'),
      outcome=np.ones(A, np.float32),
    )
    made = jax.tree.map(jnp.asarray, made)
    batch = record_lib.batch(made, record_lib.per_turn(made), attempts, 0)
    return select.keep(batch, batch.status != Status.ENV_ERROR)

  attempts = make_attempts(np.zeros(A, int), A, K, 1.0)
  x = CollectInputs(
    sample=sample,
    score=lambda batch: batch,
    attempts=jax.tree.map(jnp.asarray, attempts),
    key=jax.random.key(0),
  )
  return jax.device_get(candidates.candidates(x, k=k, by='worth'))


def weights(batch, i):
  """[K] of the turns of a trajectory."""
  rows = batch.rows
  return [
    float(rows.weight[(rows.traj == i) & (rows.turn == t)].sum())
    for t in range(K)
  ]


@pytest.mark.slow
def test_a_path_ends_before_the_state_behind_which_all_worlds_broke():
  """Its turns count, as in any tree, and its end is unknown."""
  batch = told(lambda t, place: (t == 2) & (place < k))
  turns, path = batch.turns, [0, EACH]
  np.testing.assert_array_equal(turns.valid[path].sum(axis=1), [2, K])
  np.testing.assert_array_equal(turns.scored[path], turns.valid[path])
  assert weights(batch, 0) == [2, 2, 0, 0]
  assert weights(batch, EACH) == [2] * K
  np.testing.assert_array_equal(turns.terms['worth'][0, :2], k - 1)
  np.testing.assert_array_equal(batch.ids['unplayed'][path], [1, 0])
  np.testing.assert_array_equal(batch.outcome[path], [0, 1])
  counts = counting.trajectories(batch)
  np.testing.assert_array_equal(np.flatnonzero(counts), [EACH])
  np.testing.assert_array_equal(batch.attempted['counts'], counts)
  found = owners(batch)
  assert [(0, t) in found for t in range(K)] == [True, True, False, False]
  assert all(len(x) == k for x in found.values())
  seen = jax.device_get(loop.observe(batch))
  assert seen['rollout/unscored'][0] == k
  assert seen['rollout/success'] == (1, 1)


def test_a_tree_that_broke_in_its_first_state_is_none():
  batch = told(lambda t, place: (t == 0) & (place < k))
  assert not batch.turns.scored[:EACH].any()
  assert batch.turns.scored[EACH].all()
  assert jax.device_get(loop.observe(batch))['rollout/unscored'][0] == k


def test_a_candidate_that_broke_is_seen_and_not_played():
  batch = told(lambda t, place: (t == 1) & (place == k - 1))
  assert batch.turns.scored[[0, EACH]].all()
  assert batch.turns.terms['worth'][0, 1] == k - 2
  assert len(owners(batch)[0, 1]) == k - 1
  assert jax.device_get(loop.observe(batch))['rollout/unscored'][0] == 1


def test_turns_do_not_count_behind_a_state_that_was_another():
  """Messages were sampled, and scored, behind what the replay does not show."""
  batch = told(lambda t, place: place < 0, clock=True)
  turns = batch.turns
  np.testing.assert_array_equal(turns.scored[0], [True, False, False, True])
  assert turns.scored[EACH].all()
  assert weights(batch, 0) == [2, 0, 0, 2]
  assert weights(batch, EACH) == [2] * K
  assert [len(x) for x in owners(batch).values()].count(k - 1) == 2
  assert jax.device_get(loop.observe(batch))['rollout/unscored'][0] == 1
