"""Agent-R: SFT on failures that are cut at their first error and corrected.

Paper: Agent-R: Training Language Model Agents to Reflect via Iterative
Self-Training, 2501.11425.

  round r:  sample trajectories with pi_{r-1}
            D_r = {first turns of a failure, up to its first error;
                   a correction;  the rest of a success at the same task}
            pi_r = argmin -log pi over D_r and the successes, from pi_{r-1}

Weights are 0 up to the error and 1 on the correction and on what follows it
(edit 'splice_correction'). The correction is the message 'wait', which names no
action and so moves nothing in Sokoban and FrozenLake; another world needs a
message that is none there (hp.revised.splice_correction.texts).
The splice holds for the text alone: what is read behind the correction is what
the success had read, as if the error had been undone.

The paper samples by tree search, has the policy itself say which turn is the
first bad one, raises the value of what is good from round to round and mixes in
general data. Here attempts are sampled independently; the first bad turn is
the first at which the world's `progress` falls; outcomes are 0 or 1, so that
good ones are the solved; each round goes on from the policy before. Histories
are whole, so that errors are read when they are corrected. The other arms:

  successes alone  --config.mix.revised.weight=0.0
  no correction    the rounds of configs/expert_iteration.py at
                   --config.rollout.history=full

Expect more recoveries from errors than from SFT on successes, at about equal
success.

  python -m experiments.train --config=configs/agent_r.py \
    --workdir=runs/agent_r
"""

from agentrl.configs import base

ROUNDS = 3


def get_config(arg=''):
  c = base.get_config(arg, method='agent_r')
  c.rollout.history = 'full'
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'imitate_best')
  c.loss = ('nll',)
  found = dict(kind='found', last=1)
  base.source(c, 'revised', edits=('splice_correction',), **found)
  turns = c.rollout.max_turns
  base.hp(c, 'revised', 'splice_correction', max_turns=turns)
  base.source(c, 'solved', edits=('keep_solved',), **found)
  names, steps = [], max(1, c.steps // ROUNDS)
  for r in range(1, ROUNDS + 1):
    alone = {'minibatch': 'none', 'log.groups': -1}
    base.stage(c, f'sample_{r}', steps=steps, changes=alone)
    fit = {'sft.mix': ('revised', 'solved')}
    base.stage(c, f'fit_{r}', kind='sft', steps=steps, changes=fit)
    names += [f'sample_{r}', f'fit_{r}']
  c.stages = ('sft', *names)
  return base.finish(c)
