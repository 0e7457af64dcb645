"""An implicit process reward model, learned beside the policy.

The flagship's signal (OPRL / iStar, 2509.19199) and PRIME's (2502.01456). A
language model phi, started from the policy, is trained on whole trajectories
only; its log-ratio to a reference then rewards every turn:

  r_phi(o_1:t, a_t) = beta sum_{l in a_t} (log phi - log ref)(a_t,l | ...)

In OPRL the reference is the policy that wrote the rollout (`old_logp`, which
moves every iteration); in PRIME the frozen start. Rewards are exactly zero
while phi equals the reference.
"""

from typing import Annotated

import jax
import jax.numpy as jnp

from agentrl import optimizer, registry, segment
from agentrl.domain import Count, Count0, OneOf, Positive
from agentrl.model import microbatch, qk_clip
from agentrl.signal import preference, step_quality
from agentrl.signal.base import Context, Signal
from agentrl.types import Batch, Outputs, Rows

STEP = 'implicit_prm.step'
GIVES = (f'signal:{STEP}', 'signal:implicit_prm.token')


@registry.register(
  'signal',
  needs=('role:prm', 'signal:{reference}'),
  gives=GIVES,
  step=STEP,
  tabular=True,
)
def implicit_prm(
  context: Context,
  *,
  beta: Positive = 0.05,
  reference: Annotated[str, OneOf('old_logp', 'ref_logp')] = 'old_logp',
  loss: Annotated[str, OneOf(*preference.LOSSES)] = 'pairs',
  pairing: Annotated[str, OneOf(*preference.PAIRINGS)] = 'all_pairs',
  trajectory: Annotated[str, OneOf('sum', 'mean')] = 'sum',
  order: Annotated[
    str, OneOf('score_then_update', 'update_then_score')
  ] = 'score_then_update',
  steps: Count = 1,
) -> Signal:
  """Rewards turns [B, K] and tokens [N, T], in nats times beta.

  Args (hyper-parameters):
    reference: 'old_logp' (the rollout's policy) or 'ref_logp' (frozen)
    loss: 'pairs' (OPRL), 'cross_entropy' (PRIME), or of PRIME's code
      'detached', 'bon_outcome' or 'bon_score', see preference.py
    pairing: 'all_pairs' or 'one_to_one', successes with failures of a group;
      'by_time': quicker successes with slower ones too
    trajectory: Q of a trajectory is the 'sum' over its turns (paper) or their
      'mean' (released code)
    order: 'score_then_update' (released) or 'update_then_score' (paper, PRIME)
    steps: gradient steps on the whole batch, each iteration
    beta: reward per nat of log-ratio
  """
  objective = preference.objective(loss, pairing, trajectory)
  apply = context.modules['prm'].apply

  def logp(params, batch: Batch):
    return context.outputs('prm', params, batch.rows, 'logp').logp

  def rewards(phi, batch: Batch, signals):
    token = beta * log_ratio(phi, signals[reference], batch.rows)
    return token, segment.index(batch).to_turns(token)

  def score(state, batch, signals):
    phi = logp(state.params['prm'], batch)
    token, step = rewards(phi, batch, signals)
    metrics = step_quality.summary(step, phi, signals[reference], batch)
    fields = {'logp': phi, 'token': token, 'step': step}
    return _named('implicit_prm.', fields), _named('prm/', metrics)

  def learn(params, opt, phi, batch, signals):
    """Takes one step of the optimizer, from the log-probs phi at params."""

    def outer(phi):
      return objective(rewards(phi, batch, signals)[1], batch)

    (value, metrics), bar = jax.value_and_grad(outer, has_aux=True)(phi)
    total = microbatch.objective(apply, ('logp',), microbatch.linear)
    grads, _ = microbatch.gradient(
      total, params, batch.rows, Outputs(logp=bar), context.micro
    )
    params, opt, more = qk_clip.step(
      context, 'prm', grads, opt, params, batch.rows
    )
    return params, opt, {**metrics, **more, 'loss': (value, jnp.ones(()))}

  def update(state, batch, signals, credit):
    params, opt = state.params['prm'], state.opt['prm']
    phi = signals.get('implicit_prm.logp')  # there if it was scored first
    metrics = {}
    for i in range(steps):
      phi = logp(params, batch) if i or phi is None else phi
      params, opt, metrics = learn(params, opt, phi, batch, signals)
    state = state.replace(
      params={**state.params, 'prm': params}, opt={**state.opt, 'prm': opt}
    )
    return state, _named('prm/', metrics)

  return Signal(order, score, update)


@registry.register(
  'signal',
  needs=('role:policy', 'role:prm', 'signal:old_logp'),
  gives=GIVES,
  step=STEP,
  tabular=True,
)
def restarted_prm(
  context: Context,
  *,
  beta: Positive = 0.05,
  pairing: Annotated[str, OneOf(*preference.PAIRINGS)] = 'all_pairs',
  trajectory: Annotated[str, OneOf('sum', 'mean')] = 'sum',
  steps: Count0 = 1,
) -> Signal:
  """Restarts the implicit PRM from the policy at every iteration.

  It never has to undo what an older policy made it learn; with zero steps its
  rewards are zero. Our variant, as a control for OPRL's moving reference.

  Args:
    beta: reward per nat of log-ratio
    pairing: which trajectories of a group are compared, as in `implicit_prm`
    trajectory: Q of a trajectory is the 'sum' over its turns or their 'mean'
    steps: gradient steps on the whole batch, each iteration
  """
  signal = implicit_prm(
    context,
    beta=beta,
    pairing=pairing,
    trajectory=trajectory,
    order='update_then_score',
    steps=steps,
  )

  def begin(state):
    params = {**state.params, 'prm': state.params['policy']}
    specs = context.modules['prm'].specs
    opt = optimizer.init(context.rules['prm'], state.params['policy'], specs)
    return state.replace(params=params, opt={**state.opt, 'prm': opt})

  return signal._replace(begin=begin)


def _named(prefix: str, fields: dict) -> dict:
  return {prefix + name: value for name, value in fields.items()}


def log_ratio(phi, reference, rows: Rows):
  """Returns log φ − log ref of trained tokens, 0 elsewhere: [N, T]."""
  return jnp.where(rows.sampled & (rows.weight != 0), phi - reference, 0.0)


def turn_log_ratio(phi, reference, batch: Batch):
  """Sums `log_ratio` over every message: [B, K]."""
  ratio = log_ratio(phi, reference, batch.rows)
  return segment.index(batch).to_turns(ratio)
