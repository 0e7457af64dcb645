"""What implicit PRMs learn, by enumerating every trajectory of a small MDP.

π is the policy that played, φ the PRM, both tables of logits; p the chance to
succeed, d(s) the expected visits of a state; +/- are means given success and
failure. All in float64, to rounding.
"""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import ops
from agentrl.lab.tabular import mdp, policy
from agentrl.signal import preference, td_prm

pytestmark = pytest.mark.usefixtures('float64')

TURNS, STATES, ACTIONS, BETA = 3, 3, 3, 0.5


def layered(seed, turns, states, actions, slip):
  """State (k, s) is turn k's; those of the last layer are over, some won."""
  r = np.random.default_rng(seed)
  x = (turns + 1) * states
  to = states + r.integers(0, states, (x, actions))
  to += states * np.repeat(np.arange(turns + 1), states)[:, None]
  over = np.arange(x) >= turns * states
  won = over & (np.arange(x) % states != 0)
  to = np.where(over[:, None], np.arange(x)[:, None], to)
  return mdp.MDP(
    next=jnp.asarray(to, jnp.int32),
    start=jnp.array([0], jnp.int32),
    won=jnp.asarray(won),
    over=jnp.asarray(over),
    potential=jnp.zeros(x),
    slip=jnp.float32(slip),
  )


class Paths(NamedTuple):
  """Every trajectory there is."""

  state: np.ndarray  # [P, K + 1]
  action: np.ndarray  # [P, K]
  chance: np.ndarray  # [P]
  won: np.ndarray  # [P] float

  def counts(self, cells):
    """n(s, a) of each trajectory: [P, X, A]."""
    out = np.zeros((len(self.chance), *cells))
    for k in range(self.action.shape[1]):
      index = np.arange(len(out)), self.state[:, k], self.action[:, k]
      np.add.at(out, index, 1)
    return out


def enumerate_paths(world, pi, turns) -> Paths:
  """Actions are said, then perhaps replaced; either is a path of its own."""
  actions, to = pi.shape[1], np.asarray(world.next)
  slip = float(world.slip)
  state, action, chance = [], [], []
  each = itertools.product(range(actions), repeat=2)
  for path in itertools.product(list(each), repeat=turns):
    s, p = [int(world.start[0])], 1.0
    for said, done in path:
      kept = (1 - slip) * (said == done) + slip / actions
      p *= pi[s[-1], said] * kept
      s.append(int(to[s[-1], done]))
    state.append(s)
    action.append([said for said, _ in path])
    chance.append(p)
  state = np.array(state)
  won = np.asarray(world.won, np.float64)[state[:, -1]]
  return Paths(state, np.array(action), np.array(chance), won)


WORLD = layered(0, TURNS, STATES, ACTIONS, slip=0.25)
LOGITS = np.random.default_rng(1).normal(size=WORLD.next.shape)
PI = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
PATHS = enumerate_paths(WORLD, PI, TURNS)
CHANCE = float(PATHS.chance @ PATHS.won)  # p
VISITS = PATHS.counts(PI.shape)


def given(won):
  """Weights of trajectories given success or failure: [P], sum 1."""
  weight = PATHS.chance * (PATHS.won == won)
  return weight / weight.sum()


def downhill(phi, reference):
  """−dL/dφ of the pair loss over independent successes and failures."""
  s, a = PATHS.state[:, :-1], PATHS.action
  pairs = jnp.asarray(np.outer(given(1), given(0)))
  valid = jnp.ones(a.shape, bool)

  def loss(logits):
    ratio = jax.nn.log_softmax(logits) - reference
    q = preference.trajectory_score(BETA * ratio[s, a], valid, 'sum')
    return ops.pair_loss(q, pairs)

  return -np.asarray(jax.jit(jax.grad(loss))(jnp.asarray(phi)))


def policy_gradient():
  """d success / d logits, by differentiating the dynamic programme."""

  def success(logits):
    return mdp.success(WORLD, jax.nn.softmax(logits), TURNS)

  return np.asarray(jax.jit(jax.grad(success))(jnp.asarray(LOGITS)))


def test_the_enumeration_is_whole():
  assert PATHS.chance.sum() == pytest.approx(1, abs=1e-12)
  success = mdp.success(WORLD, jnp.asarray(PI), TURNS)
  assert float(success) == pytest.approx(CHANCE, abs=1e-12)
  assert 0.2 < CHANCE < 0.9


def test_one_step_of_the_pairs_from_the_policy_is_the_policy_gradient():
  """−dL/dφ at φ = π is β / 2 p (1 − p) times it: nothing new is said."""
  got = downhill(LOGITS, np.log(PI))
  scale = BETA / 2 / CHANCE / (1 - CHANCE)
  np.testing.assert_allclose(got, scale * policy_gradient(), atol=1e-12)
  assert np.abs(got).max() > 0.01


def test_away_from_the_policy_the_pairs_have_a_term_that_is_no_advantage():
  """β / 2 (d+ − d−)(π − φ), which pushes φ off where failures go more."""
  phi = np.random.default_rng(2).normal(size=PI.shape)
  share = np.exp(phi) / np.exp(phi).sum(-1, keepdims=True)
  got = downhill(phi, np.log(share))  # equal scores, other trajectories
  plus, minus = (np.einsum('i,ixa->x', given(won), VISITS) for won in (1, 0))
  extra = BETA / 2 * (plus - minus)[:, None] * (PI - share)
  scale = BETA / 2 / CHANCE / (1 - CHANCE)
  np.testing.assert_allclose(got, scale * policy_gradient() + extra, atol=1e-12)
  assert np.abs(extra).max() > 0.01


# ---- temporal differences: a batch in which every trajectory has its share

QUARTERS = np.array([[1, 3], [3, 1], [2, 2]]) / 4


def population(turns=2, states=2):
  """A batch whose trajectories occur as often as they are likely."""
  world = layered(3, turns, states, 2, slip=0.5)
  x = world.next.shape[0]
  pi = QUARTERS[np.arange(x) % 3]
  paths = enumerate_paths(world, pi, turns)
  times = paths.chance * 16**turns
  np.testing.assert_array_equal(times, times.round())
  index = np.repeat(np.arange(len(times)), times.round().astype(int))
  state, action = paths.state[index], paths.action[index]
  trajs = policy.Trajectories(
    state=jnp.asarray(state, jnp.int32),
    action=jnp.asarray(action, jnp.int32),
    token=jnp.asarray(2 * state[:, :-1] + action, jnp.int32)[..., None],
    valid=jnp.ones(action.shape, bool),
  )
  table = policy.TablePolicy(x, 2, 1)
  zero = jnp.zeros(action.shape)
  batch = jax.jit(policy.batch, static_argnums=1)(
    world, table, trajs, jnp.log(pi), zero[:, 0].astype(jnp.int32), zero
  )
  reward = batch.turns.terms['env'].astype(jnp.float64)
  return (
    world,
    table,
    pi,
    batch.replace(turns=batch.turns.replace(reward=reward)),
  )


def soft(q, pi, beta):
  """β log E_π exp(q / β): [X]."""
  return beta * np.log(np.sum(pi * np.exp(q / beta), axis=-1))


def solution(world, pi, turns, beta, target):
  """V [X] and φ's log-probs [X, A] at which the loss is least."""
  to, won = np.asarray(world.next), np.asarray(world.won, np.float64)
  mean = lambda v: 0.5 * v[to] + 0.5 * v[to].mean(-1, keepdims=True)  # noqa: E731
  ahead = won  # of what the target passes through
  for _ in range(turns):
    q = mean(ahead)
    v = soft(q, pi, beta)
    plain = np.sum(pi * q, axis=-1)
    ahead = np.where(world.over, won, v if target == 'next' else plain)
  return v, np.log(pi) + (q - v[:, None]) / beta, q


@pytest.mark.parametrize(
  ('target', 'beta'), [('next', 0.3), ('next', 20.0), ('outcome', 0.3)]
)
def test_temporal_differences_are_least_where_they_are_said_to_be(target, beta):
  """V = β log E_π exp(Q / β), δ = Q − V; the gradient is zero there only."""
  turns = 2
  world, table, pi, batch = population(turns)
  how = {'next': td_prm.next_value, 'outcome': td_prm.outcome}[target]
  parts = td_prm.VALUE, td_prm.Part('prm', 'logp', td_prm._read_ratio(beta))
  rows = batch.rows
  modules = {'value': policy.critic(table, 1), 'prm': policy.policy(table)}
  signals = {'old_logp': jnp.log(pi).reshape(-1)[rows.tokens]}

  @jax.jit
  def gradient(v, phi):
    def loss(v, phi):
      params = {'value': {'value': v[:, None]}, 'prm': {'table': phi}}
      outs = {
        p.role: modules[p.role].apply(params[p.role], rows, (p.need,))
        for p in parts
      }
      loss = td_prm.objective(parts, how, 1.0, batch, signals)
      return loss(outs, parts[0].read(outs['value'], batch, signals))

    return jax.grad(loss, (0, 1))(v, phi)

  # Turns of a state differ in what is to come, but not in this layered world.
  v, phi, q = solution(world, pi, turns, beta, target)
  np.testing.assert_allclose(np.exp(phi).sum(-1), 1, atol=1e-12)
  for g in gradient(jnp.asarray(v), jnp.asarray(phi)):
    np.testing.assert_allclose(g, 0, atol=1e-12)
  elsewhere = gradient(jnp.asarray(v), jnp.log(pi))
  assert np.abs(elsewhere[1]).max() > 1e-4
  above = v - np.sum(pi * q, axis=-1)
  assert np.all(above >= -1e-12)
  assert above.max() <= 1 / 8 / beta
  assert above.max() > 1e-4
