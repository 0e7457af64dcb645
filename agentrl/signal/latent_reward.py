"""A reward model of a user whom a few labelled pairs reveal.

Heads of one network give, for every trajectory, a reward that all users share
and d that each weighs in an own way, and what a pair tells of its labeller:

  R_z(τ) = b(τ) + z · l(τ)
  z | pairs of a user ~ N(m, 1/Λ),   prior N(0, 1), each coordinate by itself
  Λ = 1 + Σ_p exp ½ (s(win) + s(lose)),   m = Σ_p (e(win) − e(lose)) / Λ
  s = the head's value, at least −1 and at most 1

so that more pairs say more, in any order, and none leave the prior. L is the
negative evidence bound of variational preference learning (arXiv 2408.10075),
per pair, z drawn from the posterior of half of the user's pairs, drawn anew:

  L = − mean_p log σ(R_z(win) − R_z(lose)) + kl · mean_u KL(N(m, 1/Λ) ‖ N(0, 1))
  KL = ½ Σ_d (1/Λ + m² − 1 + log Λ)

b, l, e and s are the 1 + 3 d heads of role `reward`, added up over turns as R
of signal reward_model. With d = 0 it is that model: one reward for everyone.
"""

import dataclasses
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.domain import Count, Count0, Named, NotNegative, OneOf
from agentrl.loss import ppo
from agentrl.rollout.keys import Stream, step_key
from agentrl.signal import gradient_steps, reward_model
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, Outputs

NAME = 'latent_reward'
MOST = 1.0  # |s|, the released code's bound; exp of more would have no end


class Heads(NamedTuple):
  """What the network says of trajectories."""

  shared: Array  # b [B]
  own: Array  # l [B, d]
  tells: Array  # e [B, d]
  surely: Array  # s [B, d], log precision, within ±MOST


class Evidence(NamedTuple):
  """Knowledge of users: natural parameters, beside the prior's."""

  tells: Array  # Σ_p e(win) − e(lose)  [U, d]
  precision: Array  # Σ_p exp ½ (s(win) + s(lose))  [U, d]
  pairs: Array  # [U] i32


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if there is a head for all that it says, and room for users."""
  ((_, hp),) = registry.settings_of(spec, 'signal', NAME)
  want, got = 1 + 3 * hp['latents'], config.role[reward_model.ROLE].heads
  if got < want:
    return (
      f'role.{reward_model.ROLE}.heads must be >= 1 + 3 * latents = {want} for'
      f' signal {NAME!r}, got {got}'
    )
  env = vars(config.env).get('settings', {})  # which families have
  if 'first' in env and 'users' in env:
    want, got = env['first'] + env['users'], hp['users']
    if got < want:
      return (
        f'hp.signal.{NAME}.users must be >= env.first + env.users = {want},'
        f' above all of their numbers, got {got}'
      )
  return ''


def posterior(x: Evidence) -> tuple[Array, Array]:
  """Returns m and Λ of users, by prior and evidence: [U, d] each."""
  precision = 1 + x.precision
  return x.tells / precision, precision


def divergence(mean: Array, precision: Array) -> Array:
  """Returns KL(N(m, 1/Λ) ‖ N(0, 1)), summed over coordinates: [U], nats."""
  each = 1 / precision + jnp.square(mean) - 1 + jnp.log(precision)
  return 0.5 * jnp.sum(each, axis=-1)


def evidence(heads: Heads, batch: Batch, user, weight, users: int) -> Evidence:
  """Adds up what pairs of whole trajectories tell of their labellers.

  Args:
    user: who labelled each pair [P]; −1: a stranger, who is left out
    weight: of each pair, 0 or 1 [P]
  """
  pairs = segment.pairs_of(batch)
  win, lose = pairs.win[:, 0], pairs.lose[:, 0]
  tells = heads.tells[win] - heads.tells[lose]  # [P, d]
  surely = jnp.exp((heads.surely[win] + heads.surely[lose]) / 2)
  mine = jax.nn.one_hot(user, users, dtype=tells.dtype) * weight[:, None]
  return Evidence(
    tells=mine.T @ tells,
    precision=mine.T @ surely,
    pairs=jnp.sum(mine, axis=0).astype(jnp.int32),
  )


def labeller(batch: Batch, term: str, users: int) -> Array:
  """Returns the user of each trajectory, as its first turn says: [B] i32.

  −1 where that is not one of [0, users).
  """
  number = jnp.round(batch.turns.terms[term][:, 0])
  there = (number >= 0) & (number < users)
  return jnp.where(there, number, -1).astype(jnp.int32)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Model:
  """Settings of the signal, and what it does with a batch."""

  context: Context
  d: int  # latents
  users: int
  user: str
  labels: int
  kl: float
  trajectory: str
  steps: int

  def by_turn(self, out: Outputs, batch: Batch) -> Array:
    """Returns what each turn adds to each head: [B, K, H]."""
    each = [
      reward_model.parts(
        reward_model.turn_scores(out.value[..., h], batch),
        batch,
        self.trajectory,
      )
      for h in range(1 + 3 * self.d)
    ]
    return jnp.stack(each, axis=-1)

  def split(self, x: Array) -> Heads:
    """Names the heads [B, H] of trajectories, and bounds s."""
    own, tells, surely = jnp.split(x[:, 1 : 1 + 3 * self.d], 3, axis=1)
    return Heads(x[:, 0], own, tells, jnp.clip(surely, -MOST, MOST))

  def labelled(self, batch: Batch) -> tuple[Array, Array]:
    """Returns who labelled each pair, and 1 for pairs that count: [P] each.

    Pairs of trajectories do, whose labeller is one of the users.
    """
    pairs = segment.pairs_of(batch)
    whose = labeller(batch, self.user, self.users)[pairs.win[:, 0]]
    whole = (pairs.win[:, 1] < 0) & (pairs.lose[:, 1] < 0)
    counts = whole & (whose >= 0) & (pairs.weight > 0)
    return whose, counts.astype(jnp.float32)

  def first(
    self, batch: Batch, whose: Array, weight: Array, left: Array
  ) -> Array:
    """Keeps the first pairs of each user, `left` [U] of them: [P].

    One pair of each group goes first, then a second one of each, and so on;
    within a group one of each winner. What shares a task or a winner is weaker
    evidence, and is counted as if it were not.
    """
    win, mask = segment.pairs_of(batch).win[:, 0], weight > 0
    place = jnp.zeros_like(whose)
    for ids in (win, batch.ids['group'][win], jnp.zeros_like(win)):
      place = segment.rank(place, segment.compact_ids(whose, ids), mask)
    return weight * (place < left[whose])

  def init(self) -> Evidence:
    """Begins with nothing known of users: none has labelled yet."""
    return Evidence(
      jnp.zeros((self.users, self.d)),
      jnp.zeros((self.users, self.d)),
      jnp.zeros(self.users, jnp.int32),
    )

  def read(self, state, batch: Batch) -> Array:
    """Reads what each turn adds to each head: [B, K, H]."""
    role = reward_model.ROLE
    out = self.context.outputs(role, state.params[role], batch.rows, 'value')
    return self.by_turn(out, batch)

  def score(self, state, batch, signals):
    x = self.read(state, batch)  # [B, K, H]
    user = labeller(batch, self.user, self.users)
    mean = posterior(state.signal[NAME])[0]
    z = jnp.where(user[:, None] >= 0, mean[user], 0)  # [B, d]
    own = jnp.sum(x[..., 1 : 1 + self.d] * z[:, None], axis=-1)
    said, told = reward_model.fields(NAME, x[..., 0] + own, batch)
    seen = state.signal[NAME].pairs
    told[f'{NAME}/labels'] = jnp.sum(seen), jnp.sum(seen > 0)
    return said, told

  def remember(self, state, batch):
    """Adds a batch's labels of users who have given too few."""
    known = self.init() if self.steps else state.signal[NAME]
    whose, weight = self.labelled(batch)
    left = self.labels - known.pairs
    weight = self.first(batch, whose, weight, left)
    heads = self.split(jnp.sum(self.read(state, batch), axis=1))
    new = evidence(heads, batch, whose, weight, self.users)
    known = jax.tree.map(jnp.add, known, new)
    return state.replace(signal={**state.signal, NAME: known})

  def update(self, state, batch, signals, credit):
    if not self.steps:
      return self.remember(state, batch), {}
    whose, weight = self.labelled(batch)
    key = step_key(state.key, Stream.LABELS, state.step)
    halves, noise = jax.random.split(key)
    shown = weight * jax.random.bernoulli(halves, 0.5, weight.shape)
    eps = jax.random.normal(noise, (self.users, self.d))
    pairs = segment.pairs_of(batch)
    win, lose = pairs.win[:, 0], pairs.lose[:, 0]
    there = jnp.zeros(self.users).at[whose].max(weight)

    def loss(out):
      heads = self.split(jnp.sum(self.by_turn(out, batch), axis=1))
      mean, precision = posterior(
        evidence(heads, batch, whose, shown, self.users)
      )
      gap = heads.shared[win] - heads.shared[lose]
      own = heads.own[win] - heads.own[lose]  # [P, d]
      z = mean + eps / jnp.sqrt(precision)
      drawn = gap + jnp.sum(z[whose] * own, axis=-1)
      right = gap + jnp.sum(mean[whose] * own, axis=-1)
      n = jnp.maximum(jnp.sum(weight), 1)
      fit = -jnp.sum(weight * jax.nn.log_sigmoid(drawn)) / n
      far = there * divergence(mean, precision)
      far = jnp.sum(far) / jnp.maximum(jnp.sum(there), 1)
      hidden = weight - shown
      right = (right > 0) + 0.5 * (right == 0)
      return fit + self.kl * far, {
        'pair_accuracy': ppo.metric(right, hidden),
        'kl': (far, jnp.ones(())),
      }

    state, told = gradient_steps.fit_coupled(
      context=self.context,
      role=reward_model.ROLE,
      state=state,
      batch=batch,
      loss=loss,
      needs=('value',),
      steps=self.steps,
      name=NAME,
    )
    return self.remember(state, batch), told


@registry.register(
  'signal',
  needs=(
    f'role:{reward_model.ROLE}',
    'pairs',
    'column:group',
    'term:{user}',
  ),
  gives=(f'signal:{NAME}.step', f'signal:{NAME}.return'),
  step=f'{NAME}.step',
  check=fits,
)
def latent_reward(
  context: Context,
  *,
  latents: Count0 = 2,
  users: Count = 32,
  user: Named = 'user',
  labels: Count = 8,
  kl: NotNegative = 0.01,
  trajectory: Annotated[str, OneOf(*reward_model.TRAJECTORY)] = 'mean',
  order: Annotated[
    str, OneOf('score_then_update', 'update_then_score')
  ] = 'score_then_update',
  steps: Count0 = 1,
) -> Signal:
  """Scores turns, latent_reward.step, and trajectories, .return: [B, K] each.

  By the reward of each trajectory's own user, at the posterior mean. A frozen
  model (steps=0) takes a user's first labels, a pair of each group before a
  second one of any, adds them up over iterations, and asks for no more; users
  of whom there are none have the prior, and so has a number that is not below
  `users`. A model that learns begins anew in each iteration, with the labels of
  that batch. See the module's head.

  Metrics: latent_reward/labels (of a user), and with steps loss, kl, and
  pair_accuracy, of pairs that do not say who the user is; ties count half.

  Args (hyper-parameters):
    latents: d, coordinates of a user; 0: all users are one
    users: numbers of users are below it
    user: term of turns, the number of the trajectory's user
    labels: pairs of a user that the posterior is of, once the model is frozen
    kl: weight of the divergence from the prior
    trajectory: R(τ) is the 'sum' of its turns' scores, their 'mean' or the
      score of the 'last'
    order: 'score_then_update' or 'update_then_score'
    steps: gradient steps on the whole batch, each iteration; 0: frozen
  """
  made = _Model(
    context=context,
    d=latents,
    users=users,
    user=user,
    labels=labels,
    kl=kl,
    trajectory=trajectory,
    steps=steps,
  )
  return Signal(order, made.score, made.update, init=made.init)
