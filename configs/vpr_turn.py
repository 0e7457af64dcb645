"""VPR without state groups: verifier scores, normalised per turn index.

Paper: Verifiable Process Rewards for Agentic Reasoning, 2605.10325; what its
code does where a row has no group of candidates.

  q_k = v_k + [k is the last turn] outcome
  A(a_k) = (q_k - mean of q_k) / (std of q_k + 1e-8)

over all trajectories of the batch that have a turn k, whatever their task; a
turn index that fewer than four reached uses the mean and deviation of the
whole batch. v_k is `progress`, the solver's truth. See vpr.py.

  python -m experiments.train --config=configs/vpr_turn.py \
    --workdir=runs/vpr_turn
"""

from agentrl.configs import base, vpr


def get_config(arg=''):
  c = base.get_config(arg, method='vpr_turn')
  c.advantage = ('step',)
  c.stream.step = (*vpr.REWARD, 'standardize')
  base.hp(c, 'step', 'add_term', name=base.step_term(c))
  base.hp(c, 'step', 'standardize', by=('turn',), unit='turn', least=4)
  return base.finish(c)
