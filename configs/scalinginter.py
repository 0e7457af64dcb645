"""ScalingInter-RL: a horizon that grows with training.

Paper: AgentGym-RL: Training LLM Agents for Long-Horizon Decision Making through
Multi-Turn Reinforcement Learning, 2509.08755.

  h(step) = rounds[min(step // every, last)] turns at most;  A = z_group( R )

Rounds are a third, two thirds and all of rollout.max_turns, as the paper's 10,
20 and 30 in TextCraft; `every`, 100 there, is a third of the steps. The loss
has a KL term of 0.001 to the policy after the warm start, by k3. The paper's
batches and inner epochs differ by environment and are not followed.

Expect fewer turns a trajectory at first, and at equal environment steps no less
success than with the short or the long horizon throughout.

  python -m experiments.train --config=configs/scalinginter.py \
    --workdir=runs/scalinginter
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='scalinginter')
  base.role(c, 'reference', kind='frozen')
  c.task = 'growing_horizon'
  base.hp(c, 'task', 'growing_horizon', every=max(1, c.steps // 3))
  c.signal = ('reference',)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.loss = ('ppo', 'kl_k3')
  c.coef.kl_k3 = 1e-3
  return base.finish(c)
