"""The clipped ratio with a bound that depends on trust in a label."""

from agentrl import domain, registry, segment
from agentrl.advantage import trust
from agentrl.loss import ppo
from agentrl.reward.proposals import Rate
from agentrl.types import Loss, LossInputs


@registry.register(
  'loss',
  needs=('output:logp', 'signal:old_logp', 'column:agent', 'term:{of}'),
  takes='any',
)
def ppo_by_trust(
  x: LossInputs,
  *,
  clip_low: ppo.ClipLow = 0.2,
  clip_high: ppo.ClipHigh = 0.2,
  wider: domain.NotNegative = 0.1,
  of: Rate = 'agreement',
  low: trust.Low = 0.3,
  high: domain.Rate = 0.8,
) -> Loss:
  """Runs ppo, clipped from above at 1 + clip_high + wider (1 − u).

  u is `ops.trust` of solvers, 1 of proposers (Agent0, arXiv 2511.16043): an
  unlikely token may grow more where attempts disagree.

  Args:
    wider: by which the bound is raised where there is no trust
    of: p: 'agreement' or 'solved', see the reward `proposing`
    low, high: p of no and of full trust
  """
  u = trust.of_trajectories(x.batch, of, low, high)
  bound = segment.index(x.batch).trajectories_to_tokens(
    clip_high + wider * (1 - u)
  )
  log_rho, a = ppo.log_ratio(x), x.credit.token
  return ppo.clipped(log_rho, a, ppo.weight_of(x), clip_low, bound)
