"""Branches inside messages: where they part, what they share, whose it is."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry, segment
from agentrl.advantage import chain
from agentrl.collect import branch_tokens
from agentrl.configs import appo, base
from agentrl.learner import sizes, update
from agentrl.model import microbatch
from agentrl.rollout import keys, stale
from agentrl.run import algorithm, build, placement
from agentrl.run.play import collect as collect_lib
from agentrl.run.play import jit_sampler
from agentrl.run.stage import stages
from agentrl.task.base import make_attempts
from agentrl.types import Copies, Prefix
from tests import batches, errors
from tests.batches import links

B, K, G, M = 16, 6, 8, 4
OLD, NOW = 3, 4


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


def config(folder, history='full'):
  c = appo.get_config('tiny')
  c.data = folder
  c.env.update(dict(train=4, test=2, letters=3, size=2, length=2))
  c.model.update(
    dict(width=16, layers=1, heads=1, kv_heads=1, head_dim=16, mlp=16)
  )
  c.rollout.update(
    dict(batch=B, group_size=G, slots=B, max_turns=K, history=history)
  )
  c.rollout.max_message_tokens = M
  c.sft.batch = c.micro_batch = B
  return c


@functools.cache
def compiled(folder, history='full'):
  s = build.experiment(config(folder, history))
  return s, jax.jit(functools.partial(collect_lib.rollout_and_score, s))


@functools.cache
def collected(folder, history='full'):
  """An experiment, its two policies, and the batch that they made."""
  s, f = compiled(folder, history)
  old = update.init(s.algorithm, jax.random.key(0)).params['policy']
  noise = jax.random.normal(jax.random.key(1), old['embed'].shape)
  now = {**old, 'embed': old['embed'] + 0.1 * noise}
  attempts = make_attempts(np.arange(B) // G, G, K, 1.0)
  both = now, jnp.int32(NOW)
  batch = f(old, attempts, jax.random.key(5), jnp.int32(OLD), both)
  return s, old, now, jax.device_get(batch)


def said(batch, i):
  """Fields of a trajectory's sampled tokens, in order, by turn."""
  rows = batch.rows
  names = 'tokens', 'logp', 'weight', 'version'
  turns = []
  for k in range(K):
    here = (rows.traj == i) & (rows.turn == k) & rows.sampled
    turns.append({name: getattr(rows, name)[here] for name in names})
  return turns


def branched(batch):
  ids = batch.ids
  which = np.flatnonzero(ids['branch'])
  names = 'branch_from', 'branch_turn', 'branch_token'
  return [(int(i), *(int(ids[x][i]) for x in names)) for i in which]


@pytest.mark.parametrize(
  'history', ['full', pytest.param('turn', marks=pytest.mark.nightly)]
)
def test_branches_part_at_a_token_and_share_what_is_before(folder, history):
  """Where tokens of the message are not given, none parts inside of one."""
  _, _, _, batch = collected(folder, history)
  found = branched(batch)
  assert len(found) > 2
  assert any(token > 0 for *_, token in found)
  parted, turns = 0, batch.turns
  for i, origin, k, j in found:
    assert batch.ids['group'][i] == batch.ids['group'][origin]
    assert not batch.ids['branch'][origin]
    mine, theirs = said(batch, i), said(batch, origin)
    for t in range(k + 1):
      n = len(mine[t]['tokens']) if t < k else j
      for name in ('tokens', 'logp', 'version'):
        np.testing.assert_array_equal(mine[t][name][:n], theirs[t][name][:n])
      assert not mine[t]['weight'][:n].any()
      assert (mine[t]['version'][:n] == OLD).all()
    for t in range(k):
      assert turns.node[i, t] == turns.node[origin, t]
      for x in (turns.reward, *turns.terms.values()):
        np.testing.assert_allclose(x[i, t], x[origin, t], rtol=1e-5)
    np.testing.assert_array_equal(
      turns.state[i, : k + 1], turns.state[origin, : k + 1]
    )
    assert turns.node[i, k] != turns.node[origin, k]
    assert len(theirs[k]['tokens']) > j  # the token at which they part
    own = mine[k]['weight'][j:]
    assert own.size
    assert (own == 1).all()
    assert (mine[k]['version'][j:] == NOW).all()
    parted += mine[k]['tokens'][j] != theirs[k]['tokens'][j]
  assert parted > 0


@pytest.mark.parametrize(
  'history', ['full', pytest.param('turn', marks=pytest.mark.nightly)]
)
def test_log_probs_are_of_the_policy_that_wrote_each_token(folder, history):
  s, old, now, batch = collected(folder, history)
  apply = s.algorithm.context.modules['policy'].apply
  rows = batch.rows
  for params, version in ((old, OLD), (now, NOW)):
    out = microbatch.forward(apply, params, rows, ('logp',), 4)
    wrote = rows.sampled & (rows.version == version)
    assert wrote.any()
    np.testing.assert_allclose(
      np.asarray(out.logp)[wrote], rows.logp[wrote], atol=1e-5
    )


def test_tokens_that_are_given_are_not_counted_as_sampled(folder):
  _, _, _, batch = collected(folder)
  given = 0
  for i, _, k, j in branched(batch):
    given += sum(len(x['tokens']) for x in said(batch, i)[:k]) + j
  total = batch.rows.sampled.sum()
  assert batch.sampled['tokens'] == total - given < total


@pytest.mark.slow
def test_nobody_branches_before_an_update(folder):
  """Ratios of one are rounding, whose deviations mean nothing."""
  _, old, _, _ = collected(folder)
  attempts = make_attempts(np.arange(B) // G, G, K, 1.0)
  zero = jnp.int32(0)
  args = old, attempts, jax.random.key(5), zero, (old, zero)
  batch = jax.device_get(compiled(folder)[1](*args))
  assert not batch.ids['branch'].any()
  assert batch.turns.valid[:, 0].all()


def test_a_branch_of_the_first_message_begins_where_its_origin_did():
  """Same draws of the environment's start; all later ones are its own."""
  rows, entropy = jnp.zeros((2, 3)), jnp.zeros((2, K))
  copies = Copies(
    rows=rows,
    entropy=entropy,
    origin=jnp.array([1, 1, 0]),
    count=2,
    tokens=jnp.array([2, 0, 1]),
  )
  attempts = make_attempts(np.arange(3), 1, K, 1.0)
  attempts = attempts.replace(prefix=Prefix(jnp.array([0, 0, 1]), copies))
  made = keys.keys(attempts, jax.random.key(0))
  fold = jax.vmap(jax.random.fold_in, (None, 0))
  want = fold(jax.random.key(0), jnp.array([1, 3, 0]))
  want = jax.vmap(jax.random.fold_in, (0, None))(want, 0)
  at = jnp.arange(3)
  bits = jax.random.key_data
  np.testing.assert_array_equal(bits(keys.start(made, at)), bits(want))
  own = bits(made.of(at, jnp.array([0, 0, 1])))
  np.testing.assert_array_equal(
    own, bits(fold(jax.random.key(0), 2 + jnp.arange(3)))
  )


def test_one_policy_is_refused(folder):
  c = config(folder)
  c.staleness.bound = 0
  with errors.raises(ValueError, 'staleness.bound 1 0'):
    build.experiment(c)


@pytest.mark.nightly
def test_two_updates_on_a_mesh(folder):
  """The first batch has one policy and no branch, the second has two."""
  c = config(folder)
  c.mesh.fsdp, c.mesh.tensor = 2, 4
  c.model.update(dict(heads=4, kv_heads=4, head_dim=4))
  c.role.policy.lr = 0.05
  s = build.experiment(c)
  with placement.on_mesh(c):
    stage = stages.rl_stage(s, 0, 8, jit_sampler.JitSampler(s))
    state = stage.begin(update.init(s.algorithm, jax.random.key(0)))
    read = algorithm.reads(s.config, s.algorithm)
    state = stale.begin(state, read, c.staleness.bound)
    run, branches = sizes.jit_update(stage.algorithm), []
    for step in range(3):
      batch, _ = stage.collect(state, stage.task(state, step), step)
      branches.append(int(jax.device_get(batch.ids['branch']).sum()))
      # Some succeed, so that there is something to learn.
      shape = batch.turns.reward.shape
      reward = jax.random.normal(jax.random.key(step), shape)
      batch = batch.replace(turns=batch.turns.replace(reward=reward))
      state, told, _ = run(state, batch)
      assert told['policy/nonfinite_skips'][0] == 0
  assert branches[0] == 0 < branches[1]


# Of the function alone, in float64.


def table(seed=0, layout='history'):
  """Entropies and ratios: planted tokens have both, decoys have one."""
  story = batches.story(seed, groups=3, members=4)
  laid = batches.lay(story, layout, padding=1)
  r = np.random.default_rng(seed)
  planted, h, rho = {}, [], []
  for i, size in enumerate(story.size):
    n = sum(size)
    h.append(0.1 + 0.01 * r.random(n))
    rho.append(0.01 * r.normal(size=n))
    if n < 8:
      continue
    at, uncertain, likely = 1, n - 1, n - 4
    planted[i] = at
    h[i][[at, uncertain]] = 2.0, 2.5  # a rare word, with nothing behind it
    rho[i][[at + 1, likely]] = 0.4, 0.3  # no choice was made before `likely`
  return story, laid, planted, h, rho


def as_rows(xs, story, laid):
  """Values [trajectory][token] in the places of a batch's rows."""
  out = np.zeros(laid.batch.rows.traj.shape)
  rows = jax.device_get(laid.batch.rows)
  for i, values in enumerate(xs):
    begin = 0
    for k, n in enumerate(story.size[i]):
      here = (rows.traj == i) & (rows.turn == k) & rows.sampled
      out[here] = values[begin : begin + n]
      begin += n
  return out


@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('layout', batches.LAYOUTS)
def test_scores_are_the_equation_and_find_what_was_planted(layout):
  """By entropy alone the rare word would be chosen, by ratios the other."""
  story, laid, planted, h, rho = table(layout=layout)
  index, sampled = segment.index(laid.batch), laid.batch.rows.sampled
  omega = segment.future_ratios(
    jnp.asarray(as_rows(rho, story, laid)), laid.batch, gamma=0.9, clip=0.5
  )
  got = np.asarray(
    branch_tokens.scores(
      jnp.asarray(as_rows(h, story, laid)), omega, index, sampled
    )
  )
  assert len(planted) > 3
  assert np.isneginf(got[~np.asarray(sampled)]).all()
  for i, (entropy, log_rho) in enumerate(zip(h, rho, strict=True)):
    n = len(entropy)
    future = np.array(
      [
        np.exp(sum(0.9 ** (j - t) * log_rho[j] for j in range(t + 1, n)))
        for t in range(n)
      ]
    ).clip(0.5, 1.5)
    z = [(x - x.mean()) / (x.std() or 1) for x in (entropy, future)]
    want = np.where((z[0] > 0) & (z[1] > 0), z[0] * z[1], -np.inf)
    mark = as_rows([[0.0] * len(x) for x in h[:i]] + [want], story, laid)
    mine = np.asarray((laid.batch.rows.traj == i) & sampled)
    np.testing.assert_allclose(got[mine], mark[mine], rtol=1e-9)
    if i in planted:
      assert want.argmax() == planted[i] != entropy.argmax()


@pytest.mark.usefixtures('float64')
def test_the_highest_scores_of_a_group_are_dealt_once():
  batch = table()[1].batch
  r = np.random.default_rng(1)
  rows = jax.device_get(batch.rows)
  score = np.where(rows.sampled, r.normal(size=rows.traj.shape), -np.inf)
  score = np.where(score > 0.8, score, -np.inf)
  group = np.asarray(batch.ids['group'])
  member = jnp.asarray([2, 0, 2, 0, 1, 0, 9] + [1] * 60, jnp.int32)
  *where, found = jax.device_get(
    branch_tokens.partings(jnp.asarray(score), batch, member)
  )
  seen = {}
  for q, g in enumerate(member.tolist()):
    mine = score[(rows.traj >= 0) & (group[rows.traj] == g)]
    ranked = sorted(mine[np.isfinite(mine)], reverse=True)
    place = seen.setdefault(g, 0)
    seen[g] += 1
    assert found[q] == (place < len(ranked))
    if not found[q]:
      assert not any(x[q] for x in where)
      continue
    traj, turn, j = (int(x[q]) for x in where)
    here = (rows.traj == traj) & (rows.turn == turn) & rows.sampled
    assert score[here][j] == ranked[place]
  assert found.any()
  assert not found.all()


@pytest.mark.slow
@pytest.mark.usefixtures('float64')
@pytest.mark.parametrize('layout', batches.LAYOUTS)
@pytest.mark.parametrize('own', [0.0, 0.5])
def test_shared_tokens_learn_from_what_came_of_them(layout, own):
  """Without the link a shared token would know one of its ends alone."""
  story = batches.story(2, groups=2, members=5, turns=3)
  laid = batches.lay(story, layout, padding=1)
  b = len(story.group)
  # Who parts from whom: before a turn, inside of one, at the very beginning.
  size = story.size
  parts = {}
  for i in (3, 4, 8, 9):
    origin = 1 if i < 5 else 6
    k = min(len(size[i]), len(size[origin])) - 1
    j = min(size[i][k], size[origin][k]) - 1 if i % 2 else 0
    parts[i] = (origin, k, j)
  columns = np.full((3, len(laid.batch.outcome)), 0, np.int32)
  columns[0] = -1
  for i, part in parts.items():
    columns[:, i] = part
  names = 'branch_from', 'branch_turn', 'branch_token'
  ids = dict(zip(names, map(jnp.asarray, columns), strict=True))
  batch = laid.batch.replace(ids=laid.batch.ids | ids)
  plain, _ = chain.stream(links('episode_return'), batch, laid.signals)
  name = ('shared_tokens', {'own': own})
  post = [registry.bind('link', name[0], name[1], 'c.post')]
  credit, _ = chain.stream(
    [*links('episode_return'), *post], batch, laid.signals
  )
  a = [sum(x) for x in story.reward]
  whole = np.asarray(chain.token_advantage(credit, batch.rows))
  rows, shared = jax.device_get(batch.rows), 0
  for i in range(b):
    for k, n in enumerate(size[i]):
      here = (rows.traj == i) & (rows.turn == k) & rows.sampled
      for t in range(n):
        over = [a[x] for x, (o, *at) in parts.items() if o == i and [k, t] < at]
        want = a[i] + (np.mean(over) if over else 0)
        shared += bool(over)
        np.testing.assert_allclose(whole[here][t], want, rtol=1e-9)
        alone = i in parts and [k, t] >= list(parts[i][1:])
        before = np.asarray(plain.weight)[here][t]
        after = np.asarray(credit.weight)[here][t]
        assert after == (own * before if alone else before)
  assert shared > 3


def test_the_config_fits_together():
  registry.check(base.wiring(appo.get_config('tiny')))
