"""Groups that branch: what is shared, what is not, and who owns it."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.collect import branch
from agentrl.configs import arpo, base
from agentrl.learner import update
from agentrl.model import microbatch
from agentrl.run import build
from agentrl.run.play import collect as collect_lib
from agentrl.task.base import make_attempts
from agentrl.types import Batch, CollectInputs
from tests import errors

B, K, G = 16, 4, 8


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return str(tmp_path_factory.mktemp('data'))


def _config(folder, collect, history):
  """A slippery lake: the same state only if the world's luck is the same."""
  c = arpo.get_config('tiny,env=frozen_lake')
  c.data, c.collect = folder, collect
  c.env.update(dict(train=4, test=2, slip=True))
  c.model.update(
    dict(width=16, layers=1, heads=1, kv_heads=1, head_dim=16, mlp=16)
  )
  c.rollout.update(
    dict(
      batch=B,
      group_size=G,
      slots=B,
      max_turns=K,
      history=history,
      max_message_tokens=2,
    )
  )
  c.hp.collect = {}
  if collect == 'branch':  # rare enough that some member finds no turn
    c.hp.collect = {'branch': {'chance': 0.2}}
  c.sft.batch, c.micro_batch = B, 16
  return c


def _params(s):
  """A policy that acts: the words of actions are likely."""
  p = update.init(s.algorithm, jax.random.key(0)).params['policy']
  words = s.tokenizer
  ids = [words.encode(a)[0] for a in s.world.env.actions] + [words.eot]
  push = jnp.zeros_like(p['embed']).at[jnp.array(ids)].add(0.3)
  return {**p, 'embed': p['embed'] + push}


def _collect(folder, collect, history, order=None):
  s = build.experiment(_config(folder, collect, history))
  attempts = make_attempts(np.arange(B) // G, G, K, 1.0)
  if order is not None:
    attempts = jax.tree.map(lambda x: x[order], attempts)
  params = _params(s)
  f = jax.jit(functools.partial(collect_lib.rollout_and_score, s))
  return s, params, f(params, attempts, jax.random.key(5), jnp.int32(0))


@pytest.fixture(scope='module')
def batch(folder):
  return jax.device_get(_collect(folder, 'branch', 'turn')[2])


def _said(batch, i, k):
  """Message tokens and log-probs of a turn, and the weights they have."""
  rows = batch.rows
  here = (rows.traj == i) & (rows.turn == k) & rows.sampled
  return rows.tokens[here], rows.logp[here], rows.weight[here]


def _seen(batch, i, k):
  """Everything that stands in front of the turn's message."""
  rows = batch.rows
  here = (rows.traj == i) & (rows.turn == k) & rows.sampled
  n, t = (int(x[0]) for x in np.nonzero(here))
  return rows.tokens[n, :t]


def _branched(batch):
  """(i, origin, turns) of the trajectories that repeat some."""
  nodes, out = batch.turns.node, []
  for i in range(B):
    turns = int(np.sum((nodes[i] // K != i) & batch.turns.valid[i]))
    if turns:
      out.append((i, int(nodes[i, 0] // K), turns))
  return out


def _check_prefixes(batch):
  found = _branched(batch)
  for i, origin, turns in found:
    assert batch.ids['group'][i] == batch.ids['group'][origin]
    assert batch.ids['branch'][i] == 1
    assert batch.ids['branch'][origin] == 0
    assert origin < i
    for k in range(turns):
      assert batch.turns.node[i, k] == batch.turns.node[origin, k]
      for x, y in zip(
        _said(batch, i, k)[:2], _said(batch, origin, k)[:2], strict=True
      ):
        np.testing.assert_array_equal(x, y)
      for x in (batch.turns.reward, *batch.turns.terms.values()):
        np.testing.assert_allclose(x[i, k], x[origin, k], rtol=1e-5)
    for k in range(turns + 1):  # also what is seen where they part
      assert batch.turns.state[i, k] == batch.turns.state[origin, k]
      np.testing.assert_array_equal(_seen(batch, i, k), _seen(batch, origin, k))
    assert batch.turns.node[i, turns] != batch.turns.node[origin, turns]
  return found


def _check_owners(batch):
  """Every turn that was sampled weighs once, in the lowest trajectory."""
  weighs: dict[int, list[int]] = {}
  for i, k in zip(*np.nonzero(batch.turns.valid), strict=True):
    tokens, _, weight = _said(batch, i, k)
    assert len(tokens) == batch.turns.terms['tokens'][i, k] > 0
    assert len(set(weight)) == 1
    copies = weighs.setdefault(int(batch.turns.node[i, k]), [])
    assert weight[0] == (not copies)
    copies.append(int(i))
  shared = [x for x in weighs.values() if len(x) > 1]
  assert shared
  assert all(x[0] < B // 2 for x in shared)


def test_branches_repeat_what_they_share(batch):
  found = _check_prefixes(batch)
  assert len(found) > 2
  assert len({turns for _, _, turns in found}) > 1
  # They go on by themselves.
  assert any(
    _said(batch, i, k)[0].tolist() != _said(batch, origin, k)[0].tolist()
    for i, origin, k in found
  )


def test_shared_turns_weigh_once(batch):
  _check_owners(batch)


@pytest.mark.nightly
def test_others_are_sampled_as_if_nobody_branched(batch, folder):
  """The sampled half, and members for which there was no turn to branch."""
  order = np.r_[np.arange(0, B, 2), np.arange(1, B, 2)]
  _, _, plain = _collect(folder, 'once', 'turn', order)
  plain = jax.device_get(plain)
  branched = {i for i, _, _ in _branched(batch)}
  alone = [i for i in range(B) if i not in branched]
  assert len(alone) > B // 2
  assert len(branched) > 2
  np.testing.assert_array_equal(batch.ids['task'], plain.ids['task'])
  for i in alone:
    jax.tree.map(
      lambda a, b, i=i: np.testing.assert_allclose(a[i], b[i], rtol=1e-5),
      (batch.turns, batch.outcome),
      (plain.turns, plain.outcome),
    )
    for k in np.flatnonzero(plain.turns.valid[i]):
      np.testing.assert_array_equal(
        _said(batch, i, k)[0], _said(plain, i, k)[0]
      )


@pytest.mark.nightly
def test_one_growing_context_holds_what_is_repeated(folder):
  """Log-probs after a repeated prefix are the learner's for the whole row."""
  s, params, batch = _collect(folder, 'branch', 'full')
  apply = s.algorithm.context.modules['policy'].apply
  out = microbatch.forward(apply, params, batch.rows, ('logp',), 4)
  batch, logp = jax.device_get((batch, out.logp))
  assert len(_check_prefixes(batch)) > 2
  _check_owners(batch)
  sampled = batch.rows.sampled
  np.testing.assert_allclose(logp[sampled], batch.rows.logp[sampled], atol=1e-5)


def entropies_and_noise(seed):
  """Eighths, so that bounds are met exactly too; and which turns there are."""
  r = np.random.default_rng(seed)
  h, u = r.integers(-8, 9, (80, 6)) / 8, r.integers(0, 8, (80, 6)) / 8
  return h, u, np.arange(6) < r.integers(1, 7, size=(80, 1))


def chosen_in_a_loop(valid, rule):
  """Turns one after the other; rule: (i, k, how many were chosen before)."""
  out = np.zeros(valid.shape, bool)
  for i in range(len(out)):
    run = 0
    for k in range(1, out.shape[1]):
      out[i, k] = valid[i, k] and rule(i, k, run)
      run = run + 1 if out[i, k] else 0
  return out


def test_rule_is_the_equation():
  h, u, valid = entropies_and_noise(0)
  got = branch.branches(
    h, jnp.asarray(valid), u, chance=0.625, slope=0.5, penalty=0.5
  )

  def rule(i, k, run):
    p = (0.625 + 0.5 * (h[i, k] - h[i, 0])) * max(1 - 0.5 * run, 0)
    return u[i, k] < p

  np.testing.assert_array_equal(got, chosen_in_a_loop(valid, rule))
  assert np.any(got)
  # Without a penalty this is clip(u − slope ΔH, 0, 1) < chance.
  plain = branch.branches(
    h, jnp.asarray(valid), u, chance=0.625, slope=0.5, penalty=0.0
  )
  want = np.clip(u - 0.5 * (h - h[:, :1]), 0, 1) < 0.625
  np.testing.assert_array_equal(plain[:, 1:], (want & valid)[:, 1:])
  assert np.any(plain != got)


def test_threshold_is_the_equation():
  """(u + slope dH) (1 - penalty l) > threshold; and by hand."""
  h, u, valid = entropies_and_noise(2)
  hp = {'threshold': 0.375, 'slope': 0.5}
  got = branch.above(h, jnp.asarray(valid), u, **hp, penalty=0.25)

  def rule(i, k, run):
    x = u[i, k] + 0.5 * (h[i, k] - h[i, 0])
    return x * max(1 - 0.25 * run, 0) > 0.375

  np.testing.assert_array_equal(got, chosen_in_a_loop(valid, rule))
  assert np.any(got != branch.above(h, jnp.asarray(valid), u, **hp, penalty=0))
  # 0.6, 0.6 * 0.8 = 0.48, 0.7, 0.62 * 0.8 = 0.496 against 0.5.
  got = branch.above(
    jnp.zeros((1, 5)),
    jnp.ones((1, 5), bool),
    jnp.array([[0.9, 0.6, 0.6, 0.7, 0.62]]),
    threshold=0.5,
    slope=0.2,
    penalty=0.2,
  )
  np.testing.assert_array_equal(got, [[0, 1, 0, 1, 0]])


def test_without_a_penalty_both_rules_are_as_likely():
  """u and 1 - u are distributed alike."""
  r = np.random.default_rng(3)
  h, u = r.normal(size=(50, 6)), r.uniform(size=(50, 6))
  valid = jnp.ones(h.shape, bool)
  np.testing.assert_array_equal(
    branch.above(h, valid, 1 - u, threshold=0.5, slope=0.2, penalty=0),
    branch.branches(h, valid, u, chance=0.5, slope=0.2, penalty=0),
  )


def test_uncertain_turns_are_branched_from_more():
  """floor(8 sigmoid(b gap)) + 1 of 8 begin anew, 2 of which are there."""
  group = np.repeat([4, 9, 2], 2)
  member = np.repeat([9, 4, 2], 6)
  valid = np.ones((6, 3), bool)
  h = np.zeros((6, 3))
  h[:2, 0] = 3.0  # group 4: the task is uncertain; 2 of the mean's 3 are not
  h[2:4, 1:] = 3.0  # group 9: later turns are
  h[3, 2], valid[3, 2] = 99.0, False
  got = branch.beginnings(
    jnp.asarray(h), jnp.asarray(valid), group, member, balance=0.5
  )

  def count(gap):
    return int(np.floor(8 / (1 + np.exp(-0.5 * gap)))) + 1 - 2

  want = [*[count(0 - 9 / 5)] * 6, *[count(3 - 1)] * 6, *[count(0)] * 6]
  np.testing.assert_array_equal(got, want)
  assert want[0] < want[-1] < want[6]
  never = branch.beginnings(
    jnp.asarray(h), jnp.asarray(valid), group, member, balance=-99.0
  )
  assert never[6] == 0  # one that was sampled first is enough


def test_members_that_begin_anew_take_no_turn():
  chosen = jnp.ones((1, 4), bool).at[0, 0].set(False)
  member = jnp.zeros(5, jnp.int32)
  luck = jnp.arange(4.0)[None]
  anew = jnp.full(5, 2)
  _, turns = branch.partners(chosen, luck, jnp.zeros(1, int), member, anew)
  np.testing.assert_array_equal(turns, [0, 0, 1, 2, 3])


@pytest.mark.slow
@pytest.mark.parametrize('balance', [-1e9, 1e9])
def test_entropies_split_the_budget(balance, folder):
  """The same attempts, where entropies of turns weigh all or nothing."""
  c = _config(folder, 'branch_above', 'turn')
  c.hp.collect = {'branch_above': {'balance': balance, 'threshold': -9.0}}
  s = build.experiment(c)
  attempts = make_attempts(np.arange(B) // G, G, K, 1.0)
  f = jax.jit(functools.partial(collect_lib.rollout_and_score, s))
  got = f(_params(s), attempts, jax.random.key(5), jnp.int32(0))
  h = branch.entropies(got)[: B // 2]
  live = got.turns.valid[: B // 2]
  for g in range(2):
    mine = np.asarray(got.ids['group'][: B // 2]) == g
    gap = np.mean(h[mine][:, 0]) - np.mean(h[mine][np.asarray(live[mine])])
    every = int(np.sum(got.ids['branch'][np.asarray(got.ids['group']) == g]))
    assert (every == 0) == (gap * balance > 0), (gap, every)


@pytest.mark.parametrize('name', ['branch', 'branch_above'])
def test_somebody_must_be_left_to_branch(name):
  f = registry.bind('collect', name, {'every': 1})
  inputs = CollectInputs(sample=None, score=None, attempts=None, key=None)
  with errors.raises(ValueError, f'hp.collect.{name} every 1'):
    f(inputs)


@pytest.mark.parametrize('name', ['branch', 'branch_above'])
def test_first_turns_are_given_once(name):
  c = arpo.get_config('tiny')
  c.collect = name
  registry.check(base.wiring(c), c)
  c.prefix = 'random_prefix'
  with pytest.raises(ValueError, match=r"must be 'none' .*'random_prefix'"):
    registry.check(base.wiring(c), c)


def test_chosen_turns_are_dealt_in_the_order_of_luck():
  chosen = jnp.array([[0, 1, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]]) > 0
  luck = jnp.array([[0, 0.9, 0.2], [0, 0, 0.5], [0, 0.1, 0], [0, 0, 0]])
  group = jnp.array([7, 7, 3, 5])
  member = jnp.array([7, 3, 7, 5, 3])
  origin, turns = jax.jit(branch.partners)(chosen, luck, group, member)
  np.testing.assert_array_equal(turns, [2, 1, 2, 0, 0])
  np.testing.assert_array_equal(origin[:3], [0, 2, 1])


def test_readings_are_of_the_same_trajectories():
  one, two = (
    Batch.from_turns(
      [[[1, 2]], [[3], [4]]],
      [[[-1.0] * 2], [[-1.0], [-1.0]]],
      reward=[[0.0], [0.0, 0.0]],
      group=[0, 0],
    )
    for _ in range(2)
  )
  one, two = (x.replace(readings={'hinted': x.rows}) for x in (one, two))
  zero = jnp.zeros(2, jnp.int32)
  both = branch.joined(one, two, zero, zero)
  np.testing.assert_array_equal(both.readings['hinted'].traj, both.rows.traj)
  assert set(np.ravel(both.rows.traj)) >= {0, 1, 2, 3}
