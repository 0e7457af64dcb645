"""AstraFlow: two policies with streams of weights of their own, beside updates.

Papers: AstraFlow: Dataflow-Oriented Reinforcement Learning for Agentic LLMs,
2605.15565; the mask is that of Prosperity before Collapse: How Far Can
Off-Policy RL Reach with Stale Data on LLMs? (M2PO), 2510.01161.

  loss_r = -mean over tokens of r: M rho A,   M masks the largest (log rho_0)^2
           until their mean is at most 0.04

A solver and a verifier play together and learn in every update, each from what
it wrote. Batches are sampled by the policies of one update before; jobs
(experiments.sampler) collect them, come and go, and read a policy only where it
has a new version (docs/POLICIES.md). rho is the ratio to the policy that
sampled, without a clip, and rho_0 that of the policy before the update.

Where it differs: batches are trained on in their order, so that a run repeats
to the bit; one program trains both policies, in place of a trainer for each.

  one at a time     --config.rollout.learn_in_turn=8

  python -m experiments.train --config=configs/astraflow.py \
    --workdir=runs/astraflow --config.staleness.jobs
  python -m experiments.sampler --workdir=runs/astraflow
"""

import math

from agentrl.configs import base, pretrained


def get_config(arg=''):
  c = base.get_config(arg, method='astraflow', env='solver_verifier')
  base.role(c, 'verifier', lr=pretrained.SCRATCH_LR)
  c.rollout.seats = ('policy', 'verifier')
  c.rollout.group_size = 16  # eight matches
  c.staleness.bound = 1
  c.staleness.anchor = 'behaviour'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  for link in ('center', 'scale'):
    base.hp(c, 'episode', link, by=('group', 'agent'))
  c.post = ('second_moment_mask',)
  base.hp(c, 'ppo', 'ppo', clip_low=math.inf, clip_high=math.inf)
  return base.finish(c)
