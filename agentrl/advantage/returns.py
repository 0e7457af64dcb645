"""Source links: rewards and signals, returns to go, and moves to tokens.

Sources add to what the stream holds, so that naming two of them merges them.
A turn whose judge failed (`scored` False) adds nothing; statistics then leave
it out (see `group_stats`). As a reward, a turn's value stands at the turn's
last sampled token; as an advantage it belongs to every token of the turn.
"""

from typing import Annotated

import chex
import jax.numpy as jnp

from agentrl import registry, segment
from agentrl.advantage import chain
from agentrl.domain import Discount, Named, Number, OneOf, Positive
from agentrl.ops import counting
from agentrl.types import Array, Batch, Credit, Linked, LinkInputs


def reward(batch: Batch) -> Array:
  """Returns turn rewards [B, K], 0 without a turn or a judgement."""
  return jnp.where(counting.counted(batch, 'turn'), batch.turns.reward, 0)


def episode(batch: Batch, gamma: float = 1.0) -> tuple[Array, Array]:
  """Returns Σ_j γ^j r_j, j turns went before, and Σ_j γ^j |r_j|: [B] each."""
  x, valid = reward(batch), batch.turns.valid
  total = segment.sum_turns(x, gamma, valid)
  return total, segment.sum_turns(jnp.abs(x), gamma, valid)


def sampled_turns(batch: Batch) -> Array:
  """Marks valid turns with at least one sampled token: [B, K] bool."""
  ones = batch.rows.sampled.astype(jnp.int32)
  tokens = segment.index(batch).to_turns(ones)
  return batch.turns.valid & (tokens > 0)


def at_ends(x: LinkInputs) -> Array:
  """Returns token rewards [N, T]: a turn's value stands at its last token."""
  sampled, index = x.batch.rows.sampled, segment.index(x.batch)
  _, end = index.bounds(sampled)
  turn = index.to_tokens(x.credit.turn)
  own = jnp.where(sampled, x.credit.token, 0)
  return own + jnp.where(end, turn, 0)


def as_tokens(
  credit: Credit, token: Array, size: Array | None = None
) -> Credit:
  """Returns credit held by tokens alone; size: [B, K], of Credit."""
  turn = jnp.zeros_like(credit.turn)
  return credit.replace(turn=turn, token=token, size=size)


def regress(x: LinkInputs, name: str, goal, where) -> Credit:
  """Returns credit with targets [N, T] for the value `name` at tokens `where`.

  Trajectories that do not count get no target.
  """
  rows, mask = x.batch.rows, counting.counted(x.batch, 'trajectory')
  mask = segment.index(x.batch).to_tokens(mask)
  weight = jnp.where(mask & where, rows.weight, 0)
  target = {name: jnp.where(weight > 0, goal, 0), f'{name}.weight': weight}
  return x.credit.replace(target=x.credit.target | target)


def earn(x: LinkInputs, value: Array, size: Array | None = None) -> Linked:
  """Adds x [B, K] to the turns that count.

  Args:
    size: Σ |summands| of x; |x| by default
  """
  size = jnp.abs(value) if size is None else size
  counted, dtype = counting.counted(x.batch, 'turn'), x.credit.turn.dtype
  value, size = (jnp.where(counted, y, 0).astype(dtype) for y in (value, size))
  return x.credit.replace(
    turn=x.credit.turn + value, size=chain.size(x.credit) + size
  ), {}


# ---- sources on turns


@registry.register('link')
def turn_reward(x: LinkInputs) -> Linked:
  """x_k = r_k, what the turn itself earned."""
  return earn(x, reward(x.batch))


@registry.register('link', gives=('along_turns',))
def episode_return(x: LinkInputs, *, gamma: Discount = 1.0) -> Linked:
  """x_k = Σ_j γ^j r_j, j turns went before, on every turn of the trajectory.

  Args:
    gamma: discount per turn
  """
  total, size = episode(x.batch, gamma)
  return earn(x, total[:, None], size[:, None])


@registry.register('link')
def episode_outcome(x: LinkInputs) -> Linked:
  """x_k = the task's own score of the trajectory, on every turn."""
  return earn(x, x.batch.outcome[:, None])


@registry.register('link', gives=('along_turns',))
def step_return(x: LinkInputs, *, gamma: Discount = 0.95) -> Linked:
  """x_k = Σ_{j ≥ k} γ^{j-k} r_j (GiGPO, arXiv 2505.10978).

  Args:
    gamma: discount per turn
  """
  value, size = (
    segment.accumulate_turns(y, gamma, x.batch.turns.valid)
    for y in (reward(x.batch), jnp.abs(reward(x.batch)))
  )
  return earn(x, value, size)


@registry.register('link', needs=('signal:{name}',))
def add_signal(
  x: LinkInputs, *, name: Named = 'implicit_prm.step', coef: Number = 1.0
) -> Linked:
  """x_k += coef · s_k for a signal s [B, K].

  Args:
    name: signal [B, K]
    coef: its weight
  """
  chex.assert_equal_shape([x.signals[name], x.credit.turn])
  return earn(x, coef * x.signals[name])


@registry.register('link', needs=('term:{name}',))
def add_term(
  x: LinkInputs, *, name: Named = 'env', coef: Number = 1.0
) -> Linked:
  """x_k += coef · the term of turn k that the environment or a judge gave.

  A turn whose judge failed adds nothing.

  Args:
    name: term of turns
    coef: its weight
  """
  return earn(x, coef * x.batch.turns.terms[name])


@registry.register('link', needs=('term:{name}',), gives=('along_turns',))
def add_bounded_sum(
  x: LinkInputs,
  *,
  name: Named = 'calls',
  coef: Number = 0.1,
  most: Positive = 1.0,
) -> Linked:
  """x_k += min(coef · Σ_j term_j, most), on every turn of the trajectory.

  SPEAR's reward for calling tools (arXiv 2509.22601).

  Args:
    name: term that is summed
    coef: weight of the sum
    most: largest value that is added
  """
  counted = counting.counted(x.batch, 'turn')
  total = segment.sum_turns(x.batch.turns.terms[name], 1.0, counted)
  return earn(x, jnp.minimum(coef * total, most)[:, None])


@registry.register('link')
def add_constant(x: LinkInputs, *, value: Number = -1.0) -> Linked:
  """x_k += value on every turn whose judge did not fail: a bonus or a cost.

  Args:
    value: what is added to every turn
  """
  return earn(x, jnp.full_like(x.credit.turn, value))


@registry.register('link', gives=('along_turns',))
def return_to_go(x: LinkInputs, *, gamma: Discount = 1.0) -> Linked:
  """y_k = x_k + γ y_{k+1} of what the stream holds.

  Args:
    gamma: discount per turn
  """
  value, size = (
    segment.accumulate_turns(y, gamma, x.batch.turns.valid)
    for y in (x.credit.turn, chain.size(x.credit))
  )
  return x.credit.replace(turn=value, size=size), {}


@registry.register('link', gives=('along_turns',))
def differences(x: LinkInputs) -> Linked:
  """y_k = x_k − x_{k−1}, x of the turn before that was scored; 0 before any.

  Scores of states become changes: to go, they sum to x_last − x_{k−1}, whatever
  the number of turns in between, so that turns that change nothing gain nothing
  (SWE-TRACE, arXiv 2604.14820).
  """
  counted, value = counting.counted(x.batch, 'turn'), x.credit.turn
  before = segment.previous_turn(value, counted)
  size = chain.size(x.credit)
  size += segment.previous_turn(size, counted)
  turn, size = (jnp.where(counted, y, 0) for y in (value - before, size))
  return x.credit.replace(turn=turn, size=size), {}


@registry.register('link')
def at_last_turn(x: LinkInputs) -> Linked:
  """Keeps x at the trajectory's last turn that has sampled tokens."""
  last = segment.last_turn(sampled_turns(x.batch))
  turn = jnp.where(last, x.credit.turn, 0)
  size = jnp.where(last, chain.size(x.credit), 0)
  return x.credit.replace(turn=turn, size=size), {}


# ---- from turns to tokens


@registry.register('link', takes='any', leaves='token')
def to_tokens(x: LinkInputs) -> Linked:
  """x_t = its turn's value + its own, on every sampled token."""
  token = chain.token_advantage(x.credit, x.batch.rows)
  return as_tokens(x.credit, token, chain.size(x.credit)), {}


@registry.register('link', takes='any', leaves='token')
def at_last_token(x: LinkInputs) -> Linked:
  """x_t = its own value, + its turn's at the turn's last sampled token."""
  token = at_ends(x)
  return as_tokens(x.credit, token, chain.size(x.credit)), {}


# ---- sources and transforms on tokens


def _counted_tokens(batch: Batch) -> Array:
  """Marks sampled tokens of turns that count: [N, T] bool."""
  rows, turns = batch.rows, counting.counted(batch, 'turn')
  return rows.sampled & segment.index(batch).to_tokens(turns)


@registry.register(
  'link', needs=('signal:{name}',), takes='any', leaves='token'
)
def add_token_signal(
  x: LinkInputs, *, name: Named = 'implicit_prm.token', coef: Number = 1.0
) -> Linked:
  """x_t += coef · s_t on sampled tokens of counted turns, s [N, T] a signal.

  Args:
    name: signal [N, T]
    coef: its weight
  """
  chex.assert_equal_shape([x.signals[name], x.credit.token])
  value = jnp.where(_counted_tokens(x.batch), coef * x.signals[name], 0)
  return x.credit.replace(token=x.credit.token + value), {}


@registry.register(
  'link',
  needs=('signal:old_logp', 'signal:ref_logp'),
  takes='any',
  leaves='token',
)
def kl_in_reward(x: LinkInputs, *, coef: Number = 1e-3) -> Linked:
  """x_t += −coef · (log π_old − log π_ref): the KL penalty as a reward.

  Args:
    coef: price of a nat
  """
  here = _counted_tokens(x.batch)
  kl = jnp.where(here, x.signals['old_logp'] - x.signals['ref_logp'], 0)
  metrics = {'kl_in_reward': (jnp.sum(kl), jnp.sum(here).astype(kl.dtype))}
  return x.credit.replace(token=x.credit.token - coef * kl), metrics


@registry.register('link', gives=('along_turns',), takes='any', leaves='token')
def return_to_go_tokens(x: LinkInputs, *, gamma: Discount = 1.0) -> Linked:
  """y_t = x_t + γ y_{next sampled token of the trajectory}.

  Args:
    gamma: discount per token
  """
  token = _to_go(at_ends(x), gamma, x.batch)
  valid = x.batch.turns.valid
  size = segment.accumulate_turns(chain.size(x.credit), gamma, valid)
  return as_tokens(x.credit, token, size), {}


def _to_go(x, gamma, batch: Batch, turns=None):
  index, mask = segment.index(batch), batch.rows.sampled
  turns = batch.turns.valid if turns is None else turns
  return segment.accumulate_tokens(x, gamma, mask, index, turns)


WITHIN = ('trajectory', 'turn')


@registry.register('link', takes='any')
def scale_by_max(
  x: LinkInputs,
  *,
  within: Annotated[str, OneOf(*WITHIN)] = 'trajectory',
  eps: Positive = 1e-6,
) -> Linked:
  """x / (max |Σ_{later tokens} x| + eps), the maximum over all that counts.

  The `batch_norm` of PRIME (arXiv 2502.01456), whose sums run to the end of
  the trajectory, and of iStar (arXiv 2509.19199), whose rows are turns, so
  that they run to the end of the turn.

  Args:
    within: 'trajectory' or 'turn', where the sums end.
    eps: added to the maximum
  """
  OneOf(*WITHIN).check('scale_by_max.within', within)
  valid = x.batch.turns.valid
  # Without a next turn every sum ends with its own turn.
  turns = valid if within == 'trajectory' else jnp.zeros_like(valid)
  size = jnp.abs(_to_go(at_ends(x), 1.0, x.batch, turns))
  top = jnp.max(jnp.where(_counted_tokens(x.batch), size, 0))
  metrics = {'scale_by_max': (top, jnp.ones_like(top))}
  scale = 1 / (top + eps)
  token = x.credit.token * scale
  return chain.times(x.credit, scale).replace(token=token), metrics
