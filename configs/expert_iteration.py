"""Expert iteration: the policy is fitted to what it solved, round by round.

Paper: Teaching Large Language Models to Reason with Reinforcement Learning,
2403.04642; the loop of RAFT (2304.06767) with all that was solved in place of
the best of each prompt.

  round r:  sample trajectories with pi_{r-1};  D_r = {those that are solved}
            pi_r = argmin -log pi over D_r, from pi_{r-1}

Four rounds of two stages each, behind the warm start: `sample_r` trains nothing
(minibatch 'none') and logs all, `fit_r` is supervised on what the stage before
it solved. The paper fits the pretrained model anew in each round, here a round
goes on from the one before; with `mix.solved.last=0` it is fitted to all rounds
so far. Trajectories are charged where they are sampled: fits cost none.

Expect success to rise from round to round and entropy to fall, behind GRPO at
equal attempts.

  python -m experiments.train --config=configs/expert_iteration.py \
    --workdir=runs/expert_iteration
"""

from agentrl.configs import base

ROUNDS = 4


def get_config(arg=''):
  c = base.get_config(arg, method='expert_iteration')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'imitate_best')
  c.loss = ('nll',)
  base.source(c, 'solved', kind='found', last=1, edits=('keep_solved',))
  names, steps = [], max(1, c.steps // ROUNDS)
  for r in range(1, ROUNDS + 1):
    alone = {'minibatch': 'none', 'log.groups': -1}
    base.stage(c, f'sample_{r}', steps=steps, changes=alone)
    fit = {'sft.mix': ('solved',)}
    base.stage(c, f'fit_{r}', kind='sft', steps=steps, changes=fit)
    names += [f'sample_{r}', f'fit_{r}']
  c.stages = ('sft', *names)
  return base.finish(c)
