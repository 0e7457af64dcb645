"""TD-PRM: an implicit PRM that learns by temporal differences over turns.

Not in a paper; OPRL (2509.19199) with another loss for its PRM. A language
model phi and a value V learn

  V(h_k) + delta(h_k, a_k)  ~  stop V(h_k+1), and R at the last turn,
  delta = beta (log phi - log pi)(a_k),   beta = 1

and A(a_k) = z_group( R ) + alpha z_group( delta(h_k, a_k) ). phi is carried
along with the policy; see agentrl/signal/td_prm.py for the derivation.

OPRL's pairs of trajectories tell the policy what its own update tells it; a
target that passes through V also holds the outcomes of other trajectories that
came by similar turns. How much that is depends on how V generalises. Controls:
td_prm_outcome.py, whose target is R, and td_critic.py, which has no phi.

Both roles take 4 steps on this iteration's batch; td_prm_replay.py has earlier
ones, too, which one-step targets allow. alpha is OPRL's, and deviations are
divided by without its floor. Rates with a language model are not tuned.

Expect more than GRPO where values can be learned from few batches, and about
GRPO where they cannot.

  python -m experiments.train --config=configs/td_prm.py --workdir=runs/td_prm
"""

from agentrl.configs import base, oprl


def value(c):
  base.role(c, 'value', lr=1e-3, heads=1)


def phi(c):
  """Returns the role of a language model that follows the policy."""
  base.role(c, 'prm', lr=6e-4, max_grad_norm=10.0)
  base.role(c, 'previous', kind='ema')


def streams(c, signal):
  """Adds the episode's stream and the stream of the signal's step rewards."""
  c.loss_aggregation.ppo = 'trajectory_mean'
  c.advantage = ('episode', 'step')
  c.stream.episode = ('episode_return', 'center', 'scale')
  oprl.steps(c)
  base.hp(c, 'step', 'add_signal', name=signal)
  base.hp(c, 'step', 'scale', unit='turn', eps=1e-3)


def get_config(arg=''):
  c = base.get_config(arg, method='td_prm')
  value(c)
  phi(c)
  c.signal = ('td_prm',)
  streams(c, 'td_prm.step')
  return base.finish(c)
