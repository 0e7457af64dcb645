"""RoRecomp: short solutions and long failures now, the others later.

Paper: RoRecomp: Enhancing Reasoning Efficiency via Rollout Response
Recomposition in Reinforcement Learning, 2509.25958.

  A = z_group( R ), over the whole group
  priority batch: of each group the ceil(0.8 n) shortest of its n solutions, and
                  the ceil(0.8 m) longest of its m failures
  compensation batch: the oldest of the others, as many as a batch has, once so
                  many wait, with a chance that falls as a cosine to 0

Length is the number of calls where the world has tools, else of turns. No
reward says that short is good. The paper leaves open whose statistics A has;
those of the priority batch would leave groups that are all solved with A = 0
either way, and would move the mean of the others. What waited has the A of its
own group, and a ratio to the policy that wrote it. The paper takes a second
step on it; here its loss term, averaged over its own tokens, is added to that
of the priority batch. The share and the chance were not found; they are ours.

Expect the success of grpo.py with fewer turns or calls.

  python -m experiments.train --config=configs/rorecomp.py \
    --workdir=runs/rorecomp
"""

from agentrl.configs import base, envs


def get_config(arg=''):
  c = base.get_config(arg, method='rorecomp')
  n = c.rollout.batch
  base.replay(c, 'compensation', n=n, capacity=2 * n)
  chance = ('cosine', 1.0, 0.0, 0)
  c.schedule.hp = {'memory': {'compensation': {'chance': chance}}}
  c.advantage = ('episode', 'compensation')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.compensation = ('add_token_signal',)
  base.hp(c, 'compensation', 'add_token_signal', name='compensation.advantage')
  tools = 'calls' in envs.terms(c)
  c.post = ('priority_term' if tools else 'priority_turns',)
  if tools:
    base.hp(c, 'post', 'priority_term', term='calls')
  c.loss = ('ppo', 'ppo_stored')
  c.select.ppo = {'source': 0}
  c.select.ppo_stored = {'source': 1}
  return base.finish(c)
