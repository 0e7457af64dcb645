"""A reward model that reads principles, which may change without new labels.

A principle is the hint of a reading (c.reading): the model reads it before the
trajectory, and the policy does not. A judge of each principle compares members
of a group, and of one agent, by terms of turns. Of a reading with several
principles the one that tells two members apart the most decides, as in SALMON
(arXiv 2310.05910):

  z_m(i, j) = ± (f_m(i) − f_m(j)) / std f_m,   f_m = Σ_k term_m,k
  i ≻ j     where max_m z_m(i, j) > max_m z_m(j, i)

  L_reading = − mean_{i ≻ j} log σ(R(i | reading) − R(j | reading))

std is over the trajectories of the batch that count. Once the model is frozen,
`use` names the reading that it scores by: that text is all that has to change.
"""

from typing import Annotated, Any

import jax
import jax.numpy as jnp

from agentrl import registry
from agentrl.curate import select
from agentrl.domain import Count0, Name, Named, OneOf, Text, Tuple
from agentrl.loss import ppo
from agentrl.ops import counting
from agentrl.signal import gradient_steps, reward_model
from agentrl.signal.base import Context, Signal
from agentrl.types import Array, Batch, Outputs

NAME = 'principled_reward'
_TIE = 1e-5  # of numbers around 1


def terms(rule: str) -> list[tuple[str, int]]:
  """Reads 'apples -spoilt' as [('apples', 1), ('spoilt', -1)]."""
  return [(x.removeprefix('-'), -1 if x[0] == '-' else 1) for x in rule.split()]


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Returns '' if there is what judges read, and the reading to score by."""
  del config
  ((_, hp),) = registry.settings_of(spec, 'signal', NAME)
  at, given = f'hp.signal.{NAME}', registry.provided(spec)
  if hp['use'] not in hp['readings']:
    return (
      f'{at}.use must be one of readings={tuple(hp["readings"])}, got'
      f' {hp["use"]!r}'
    )
  for rule in hp['judged']:
    for name, _ in terms(rule):
      if f'term:{name}' not in given:
        known = (x.partition(':')[2] for x in given if x.startswith('term:'))
        return (
          f'{at}.judged must name terms of turns, {tuple(sorted(known))}, got'
          f' {name!r}'
        )
  return ''


def preferred(batch: Batch, rule: str) -> Array:
  """Marks i ≻ j, of members of a group that count: [B, B] bool."""
  peers, live = select.peer_ids(batch), counting.trajectories(batch)
  n = jnp.maximum(jnp.sum(live), 1)
  each = []
  for name, side in terms(rule):
    term = jnp.where(batch.turns.valid, batch.turns.terms[name], 0)
    f = side * jnp.sum(term, axis=1)  # [B]
    mean = jnp.sum(jnp.where(live, f, 0)) / n
    std = jnp.sqrt(jnp.sum(jnp.where(live, jnp.square(f - mean), 0)) / n)
    f = jnp.where(std > 0, f / jnp.where(std > 0, std, 1), 0)
    each.append(f[:, None] - f[None])
  most = jnp.max(jnp.stack(each), axis=0)  # [B, B]
  mates = (peers[:, None] == peers[None]) & live[:, None] & live[None]
  return mates & (most - most.T > _TIE)


@registry.register(
  'signal',
  needs=(f'role:{reward_model.ROLE}', 'column:group', 'reading:*readings'),
  gives=(f'signal:{NAME}.step', f'signal:{NAME}.return'),
  step=f'{NAME}.step',
  check=fits,
)
def principled_reward(
  context: Context,
  *,
  readings: Annotated[
    tuple[str, ...], Tuple(Name('a reading'), least=1, once=True)
  ] = ('principles',),
  judged: Annotated[
    tuple[str, ...], Tuple(Text(empty=False), like='readings')
  ] = ('env',),
  use: Named = 'principles',
  trajectory: Annotated[str, OneOf(*reward_model.TRAJECTORY)] = 'mean',
  order: Annotated[
    str, OneOf('score_then_update', 'update_then_score')
  ] = 'score_then_update',
  steps: Count0 = 1,
) -> Signal:
  """Scores turns, principled_reward.step, and trajectories, .return.

  Both are [B, K]: what a turn adds to R(τ | use), and R(τ | use) on every turn.
  See the module's head.

  Metrics, of each reading that is learned: principled_reward/<reading>/loss
  and pair_accuracy, of pairs that it is about to learn from; ties count half.

  Args (hyper-parameters):
    readings: of c.reading, each with one principle or several
    judged: the terms that decide under each reading, 'apples -spoilt'; a minus
      says that less is better
    use: the reading that is scored by
    trajectory: R(τ) is the 'sum' of its turns' scores, their 'mean' or the
      score of the 'last'
    order: 'score_then_update' or 'update_then_score'
    steps: gradient steps for each reading in turn, each iteration; 0: frozen
  """

  def behind(batch: Batch, reading: str) -> Batch:
    return batch.replace(rows=batch.reading(reading))

  def parts(out: Outputs, batch: Batch) -> Array:
    step = reward_model.turn_scores(out.value[..., 0], batch)
    return reward_model.parts(step, batch, trajectory)

  def score(state, batch, signals):
    there = behind(batch, use)
    role = reward_model.ROLE
    out = context.outputs(role, state.params[role], there.rows, 'value')
    return reward_model.fields(NAME, parts(out, there), batch)

  def update(state, batch, signals, credit):
    told = {}
    for reading, rule in zip(readings, judged, strict=True) if steps else ():
      there = behind(batch, reading)
      weight = preferred(batch, rule).astype(jnp.float32)  # [B, B]

      def loss(out, there=there, weight=weight):
        r = jnp.sum(parts(out, there), axis=1)
        d = r[:, None] - r[None]
        right = (d > 0) + 0.5 * (d == 0)
        total = -jnp.sum(weight * jax.nn.log_sigmoid(d))
        metrics = {'pair_accuracy': ppo.metric(right, weight)}
        return total / jnp.maximum(jnp.sum(weight), 1), metrics

      state, metrics = gradient_steps.fit_coupled(
        context=context,
        role=reward_model.ROLE,
        state=state,
        batch=there,
        loss=loss,
        needs=('value',),
        steps=steps,
        name=f'{NAME}/{reading}',
      )
      told |= metrics
    return state, told

  return Signal(order, score, update)
