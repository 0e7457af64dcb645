"""Agent-RLVR: a group that failed is attempted again, with guidance in words.

Paper: Agent-RLVR: Training Software Engineering Agents via Guidance and
Environment Rewards, 2506.11425.

  y ~ pi(. | x);  where a whole group failed, y ~ pi(. | guidance, x)
  A = z_group( sum r ),  times min( pi(y_t | x) / mu(y_t), 2 )
      mu: the behaviour, which has read the guidance where there was one

Guidance is before the conversation while it is sampled and in no row, so that
what is learned is to act without it. Here it is a plan, the calls that show the
evidence of a question, without its answer; the paper's is written by a model
that sees tests and errors, and training is offline, on pairs of guided
successes and failures (DPO). A policy that has never read instructions makes
nothing of it: this is for pretrained ones (:checkpoint=DIR). The baselines:

  --config.collect=once
  --config=configs/guided_retry.py:env=fact_corpus, beginnings in place of words

Expect gains on questions that are never answered at first; failed groups cost
twice the attempts (rollout/hinted is their share).

  python -m experiments.train --config=configs/agent_rlvr.py:checkpoint=DIR \
    --workdir=runs/agent_rlvr
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='agent_rlvr', env='fact_corpus')
  if c.rollout.kind == 'host':  # others are sampled as they are
    c.collect = 'hinted_retry'
    hint = dict(source='demonstration')
    if c.env.name == 'fact_corpus':
      hint = dict(source='task', field='calls')
    base.reading(c, 'guidance', text='Plan:', **hint)
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.post = ('truncated_is',)
  c.loss_aggregation.ppo = 'trajectory_mean'
  return base.finish(c)
