"""RISE: fitted to improved attempts that follow the policy's own failures.

Paper: Recursive Introspection: Teaching Language Model Agents How to
Self-Improve, 2407.18219.

  round r:  y_1 .. y_n attempts in turn at one task, by pi_{r-1}
            y*_n  best of N new attempts, given y_1 .. y_{n-1}
            pi_r = argmin -sum_k w_k log pi(y_k | task, y_1 .. y_{k-1})
            w = exp(r_k / tau), over its maximum

A turn is an attempt, with what is wrong as the answer (docs/ENVIRONMENTS.md,
Itineraries), and every message after failures is a group of N = group_size that
begins alike (prefix_source): self-distillation, where the paper's other form
asks a stronger model. Of a group the best is kept, by outcome, then by votes
(edit 'best_of_group'); of its attempts those that are better than the one
before (edit 'keep_attempts', or its 'best' and 'success'). Because histories
are whole, one row holds the losses of all attempts of a trajectory. Two rounds.

At test attempts end when one is right: success is within `env.tries`, an oracle
that the paper's majority vote does without. The other arms:

  every attempt     --config.mix.improved.edits="('weigh_by_reward',)"
  SFT on successes  --config.hp.improved.keep_attempts.which=success
                    --config.hp.improved.weigh_by_reward.temperature=1e6

Expect later tries to gain more than the first.

  python -m experiments.train --config=configs/rise.py --workdir=runs/rise
"""

from agentrl.configs import base

ROUNDS = 2


def get_config(arg=''):
  c = base.get_config(arg, method='rise', env='itinerary')
  if c.env.name == 'itinerary':
    c.env.tries = c.rollout.max_turns = 3
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'imitate_best')
  c.loss = ('nll',)
  base.source(c, 'attempts', kind='found', last=1)
  chosen = ('best_of_group', 'keep_attempts', 'weigh_by_reward')
  base.source(c, 'improved', kind='found', last=2, edits=chosen)
  names, steps = [], max(1, c.steps // (2 * ROUNDS))
  for r in range(1, ROUNDS + 1):
    alone = {'minibatch': 'none', 'log.groups': -1}
    base.stage(c, f'attempt_{r}', steps=steps, changes=alone)
    again = {
      'prefix': 'reverse_prefix',
      'prefix_source': 'attempts',
      'hp.prefix.reverse_prefix.every': steps,  # always the last turn
    }
    base.stage(c, f'improve_{r}', steps=steps, changes=alone | again)
    fit = {'sft.mix': ('improved',)}
    base.stage(c, f'fit_{r}', kind='sft', steps=2 * steps, changes=fit)
    names += [f'attempt_{r}', f'improve_{r}', f'fit_{r}']
  c.stages = ('sft', *names)
  return base.finish(c)
