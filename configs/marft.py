r"""MARFT: agents of one match in turn, with GAE along the order they speak in.

Paper: MARFT: Multi-Agent Reinforcement Fine-Tuning, 2504.16129.

  delta_m = r_m + gamma V_{m+1} - V_m,   A_m = delta_m + gamma lam A_{m+1}

m counts the messages of a match over all agents, so that the value of what the
next agent reads stands where its own next observation would; at the last agent
of a round it is that of the first one in the next. Each agent has parameters
and an optimizer of its own and is trained alone while the others only play, one
after the other (c.rollout.learn_in_turn); one critic reads what every agent
reads. gamma 0.99, lam 0.95, clip 0.2, entropy 0.01.

The world is one in which that order matters: a planner names what to look up, a
searcher looks it up, and only the answerer is paid, when it closes (env
workflow). By its own return the planner would learn nothing.

  each by itself    --config.stream.turn="('turn_reward', 'gae_turns')"
  all in each step  --config.rollout.learn_in_turn=0

Where it differs: the ratio is of tokens and not of whole messages; no step is
skipped for its KL; the value's error is squared, clipped, and not Huber's.

  python -m experiments.train --config=configs/marft.py --workdir=runs/marft
"""

from agentrl.configs import base, ppo, pretrained, unitymas_o


def get_config(arg=''):
  c = base.get_config(arg, method='marft', env='workflow')
  if c.env.name == 'workflow':
    unitymas_o.lookups(c)
    c.env.pay = ('planner outcome*0', 'searcher outcome*0')
  for name in ('searcher', 'answerer'):
    base.role(c, name, lr=pretrained.SCRATCH_LR)
  c.rollout.seats = ('policy', 'searcher', 'answerer')
  c.rollout.learn_in_turn = 1
  c.rollout.update(dict(batch=96, group_size=24, slots=48))
  c.sft.batch = 32 * 3
  ppo.critic(c)
  c.advantage = ('turn',)
  c.stream.turn = ('turn_reward', 'gae_match')
  c.post = ('whiten_tokens',)
  c.loss = (*c.loss, 'entropy')
  c.coef.entropy = 0.01
  return base.finish(c)
