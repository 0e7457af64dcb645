"""Duration-aware gradients: weighs turns by seconds; no bias to undo here.

Paper: Reinforcement Learning for Machine Learning Engineering Agents,
2509.01684.

  A_k dt_k / mean(dt),   dt_k / mean(dt) <= 10, mean weight 1

The paper has PPO and the seconds that an action ran; here GRPO and the seconds
that the environment states (unreliable_tools), or, where it states none, the
tokens of the message (hp.post.duration_weight.name names another term). Where
all turns take equally long this is GRPO.

In a bandit whose deliveries are taken as they finish the weight undoes the bias
on raw rewards at a high rate. With a baseline of the batch, as here, there was
none to undo between two arms, and the weight made learning slower
(docs/results/latency_bandit.md).

Missing: training runs that take results as they finish. Here batches are whole
and in order, so that nothing is preferred for being fast, and the weight
teaches more of slow actions.

  python -m experiments.train --config=configs/duration_aware.py \
    --workdir=runs/duration_aware
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='duration_aware')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('duration_weight',)
  name = 'seconds' if 'seconds' in envs.terms(c) else 'tokens'
  base.hp(c, 'post', 'duration_weight', name=name, limit=10.0)
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
