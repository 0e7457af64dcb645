"""Search self-play: questions that are answerable, and hard to answer.

Paper: Search Self-play: Pushing the Frontier of Agent Capability without
Supervision, 2510.18821.

  proposer   R = 1 - mean_i R_i,   0 if no task
  solver     R_i = 1 if its answer is the one that was asked for

A proposer is given an answer, searches, and writes a question. It is a task if
it is in form, does not tell its answer, something was found, and whoever reads
what was found and 4 other passages answers it so. Proposers are compared with
each other, solvers with those of their question.

Where it differs: one update for both roles in place of two; the proposer's
baseline and scale are the batch's, where the released code has neither; a slot
without a question stays empty and is not refilled from a pool; passages are of
an invented corpus, read by a script; no KL to a reference (0.01 there).

  verifier that sees the answer first   --config.env.commit=after
  frozen proposer                       --config.hp.reward.proposing.shape=none
  fixed questions                       configs/grpo.py:env=fact_corpus

Expect more held-out questions answered than before, and with commit=after
questions that nobody can answer. Seen so far: such a question, planted, is paid
with commit=after alone (docs/PROPOSALS.md). Training is not measured yet.

  python -m experiments.train --config=configs/ssp.py --workdir=runs/ssp
"""

from agentrl.configs import base


def get_config(arg=''):
  c = base.get_config(arg, method='ssp', env='proposed_facts')
  c.rollout.kind, c.rollout.group_size = 'host_proposed', 8
  c.reward = ('proposing', 'solving')
  base.hp(c, 'reward', 'proposing', shape='adversary')
  c.advantage = ('episode',)
  c.stream.episode = ('episode_return', 'center', 'scale')
  base.hp(c, 'ppo', 'ppo', clip_high=0.285)
  return base.finish(c)
