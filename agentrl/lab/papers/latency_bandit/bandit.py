"""Latency bandit: arms that take time, workers beside each other, a learner.

W workers draw an arm, are busy for as long as it takes, deliver its reward,
and draw again. Time is virtual: a run is one program, and the same numbers on
any machine. An update takes B deliveries and no time.

  as_finished  update n takes the B deliveries that come next; every worker
               draws by the newest policy
  in_order     update n takes batch n, B draws by version max(0, n − S), and
               waits for all of them: what `rollout.tickets` does in the order
               'fixed'. With a deadline, what takes longer is cut and not seen.

What learns is the library's learner, with a table of one state as the policy.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.lab.tabular import build, policy
from agentrl.learner import update
from agentrl.learner.algorithm import BEHAVIOUR, Context
from agentrl.optimizer import OptimizerConfig
from agentrl.types import Array, Batch, Rows, Status, TrainState, Turns


class Bandit(NamedTuple):
  """Arms, workers and the size of a batch."""

  reward: tuple[float, ...]  # mean of each arm
  seconds: tuple[float, ...]  # median of each arm
  noise: float = 0.1  # standard deviation of a reward
  spread: float = 0.0  # standard deviation of log seconds
  workers: int = 32  # W
  batch: int = 16  # B, deliveries of an update

  @property
  def arms(self) -> int:
    return len(self.reward)


class Luck(NamedTuple):
  """Random numbers of each draw of a run; [n, ...], n = W + draws."""

  arm: Array  # [n, A] Gumbel
  seconds: Array  # [n] normal
  reward: Array  # [n] normal


class Draw(NamedTuple):
  """A draw, or one of each worker: [...] each."""

  arm: Array  # i32
  logp: Array  # f32  of the policy that drew it, nats
  seconds: Array  # f32  it takes
  reward: Array  # f32
  version: Array  # i32  of that policy


class Course(NamedTuple):
  """What happened up to each update: [N, ...]."""

  time: Array  # [N] seconds
  probability: Array  # [N, A] of the arms, before the update
  share: Array  # [N, A] of the deliveries that it takes


def luck(bandit: Bandit, updates: int, key: Array) -> Luck:
  """Draws the random numbers of a run."""
  n = bandit.workers + updates * bandit.batch
  arm, seconds, reward = jax.random.split(key, 3)
  return Luck(
    arm=jax.random.gumbel(arm, (n, bandit.arms)),
    seconds=jax.random.normal(seconds, (n,)),
    reward=jax.random.normal(reward, (n,)),
  )


def draw(bandit: Bandit, logits: Array, version: Array, x: Luck) -> Draw:
  """Draws an arm by the policy of that version."""
  arm = jnp.argmax(logits + x.arm).astype(jnp.int32)
  return Draw(
    arm=arm,
    logp=jax.nn.log_softmax(logits)[arm],
    seconds=jnp.asarray(bandit.seconds)[arm]
    * jnp.exp(bandit.spread * x.seconds),
    reward=jnp.asarray(bandit.reward)[arm] + bandit.noise * x.reward,
    version=version,
  )


def draws(bandit: Bandit, logits: Array, version: Array, x: Luck) -> Draw:
  """Draws an arm for each of the luck's numbers."""
  one = functools.partial(draw, bandit, logits, version)
  return jax.vmap(one)(x)


def learner(
  bandit: Bandit, spec: registry.MethodSpec, rate: float
) -> update.Algorithm:
  """Makes the learner of a method: plain steps, ratios to who drew."""
  module = policy.policy(policy.TablePolicy(1, bandit.arms, 1))
  context = Context(
    modules={update.POLICY: module},
    rules={update.POLICY: build.plain(OptimizerConfig(lr=rate))},
    micro=bandit.batch,
  )
  return update.Algorithm.from_spec(spec, context, anchor=BEHAVIOUR)


def as_batch(x: Draw, seen: Array) -> Batch:
  """Makes the learner's batch of B draws: one group, one turn, one token.

  Args:
    seen: [B] bool; the others have no turn, as if they had not been drawn
  """
  b = x.arm.size
  valid, index = seen[:, None], jnp.arange(b, dtype=jnp.int32)[:, None]
  zero = jnp.zeros(b, jnp.int32)
  rows = Rows(
    tokens=x.arm[:, None],
    seg=jnp.where(valid, 0, -1),
    traj=jnp.where(valid, index, -1),
    turn=jnp.where(valid, 0, -1),
    span=jnp.zeros((b, 1), jnp.int8),
    sampled=valid,
    weight=valid.astype(jnp.float32),
    logp=jnp.where(valid, x.logp[:, None], 0),
    version=x.version[:, None],
  )
  reward = jnp.where(valid, x.reward[:, None], 0)
  turns = Turns(
    reward=reward,
    terms={'seconds': jnp.where(valid, x.seconds[:, None], 0)},
    scored=valid,
    valid=valid,
    state=jnp.zeros((b, 1), jnp.int32),
    node=index,
    agent=jnp.zeros((b, 1), jnp.int32),
  )
  return Batch(
    rows=rows,
    turns=turns,
    ids=dict.fromkeys(('group', 'task', 'arm', 'source', 'age'), zero),
    outcome=reward[:, 0],
    status=jnp.full(b, Status.FAILED, jnp.int32),
  )


def logits_of(state: TrainState) -> Array:
  """Reads the policy's logits: [A]."""
  return state.params[update.POLICY]['table'][0]


def _learn(alg, bandit: Bandit, state: TrainState, x: Draw, seen: Array):
  """Updates by B draws -> state, (probability, share), both [A]."""
  p = jax.nn.softmax(logits_of(state))
  count = jnp.sum(jax.nn.one_hot(x.arm, bandit.arms) * seen[:, None], axis=0)
  share = count / jnp.maximum(jnp.sum(count), 1)
  return update.update(alg, state, as_batch(x, seen))[0], (p, share)


def as_finished(
  bandit: Bandit, alg: update.Algorithm, updates: int, x: Luck
) -> Course:
  """Runs a learner that takes deliveries as they come."""
  state = update.init(alg, jax.random.key(0))

  def deliver(state, carry, i):
    ends, busy = carry
    w = jnp.argmin(ends)
    done = jax.tree.map(lambda a: a[w], busy)
    new = draw(bandit, logits_of(state), state.step, _at(x, i))
    busy = jax.tree.map(lambda a, b: a.at[w].set(b), busy, new)
    return (ends.at[w].add(new.seconds), busy), (done, ends[w])

  def step(carry, i):
    state, workers = carry
    each = functools.partial(deliver, state)
    workers, (done, time) = jax.lax.scan(each, workers, i)
    state, seen = _learn(alg, bandit, state, done, jnp.ones_like(i, bool))
    return (state, workers), (time[-1], *seen)

  w = bandit.workers
  busy = draws(bandit, logits_of(state), state.step, _at(x, jnp.arange(w)))
  start = state, (busy.seconds, busy)
  order = w + jnp.arange(updates * bandit.batch).reshape(updates, -1)
  return Course(*jax.lax.scan(step, start, order)[1])


def in_order(
  bandit: Bandit,
  alg: update.Algorithm,
  updates: int,
  x: Luck,
  *,
  staleness: int = 0,
  deadline: float = float('inf'),
) -> Course:
  """Runs a learner that takes batch n at update n, drawn by version n − S.

  Args:
    deadline: seconds after which a draw is given up, and not learned from
  """
  state = update.init(alg, jax.random.key(0))

  def place(admitted, free, seconds):
    """Gives the draw to the worker that is free first."""
    w = jnp.argmin(free)
    free = free.at[w].set(jnp.maximum(free[w], admitted) + seconds)
    return free, free[w]

  def step(carry, i):
    state, free, past = carry  # past: of the last S + 1 versions
    logits, admitted, version = jax.tree.map(lambda a: a[-1], past)
    done = draws(bandit, logits, version, _at(x, i))
    seconds = jnp.minimum(done.seconds, deadline)
    each = functools.partial(place, admitted)
    free, ends = jax.lax.scan(each, free, seconds)
    time = jnp.maximum(past[1][0], jnp.max(ends))
    seen = done.seconds <= deadline
    state, told = _learn(alg, bandit, state, done, seen)
    new = logits_of(state), time, state.step
    past = jax.tree.map(lambda a, b: jnp.roll(a, 1, 0).at[0].set(b), past, new)
    return (state, free, past), (time, *told)

  now = logits_of(state), jnp.zeros(()), state.step
  past = jax.tree.map(lambda a: jnp.stack([a] * (staleness + 1)), now)
  start = state, jnp.zeros(bandit.workers), past
  order = jnp.arange(updates * bandit.batch).reshape(updates, -1)
  return Course(*jax.lax.scan(step, start, order)[1])


def _at(x: Luck, i: Array) -> Luck:
  return jax.tree.map(lambda a: a[i], x)
