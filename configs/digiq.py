"""Digi-Q: Q-values on frozen features; imitates the best action of several.

Paper: Digi-Q: Learning Q-Value Functions for Training Device-Control Agents,
2502.15760.

  Q_j <- r_k + gamma min V'(s_k+1),  V_j <- min Q'(s_k, a_k)   heads only
  a_1 .. a_4 ~ pi(. | s_k); loss = -log pi of the one of the highest A, A > 0.1

The features are those of the policy after the warm start; linear heads stand
on them, where the paper has small MLPs, and learn fast. Targets and A = min Q -
min V are archer.py's; the paper regresses V on r_k + gamma V'(s_k+1) and takes
maxima in A.

In every state of a path the policy is asked for four messages (c.collect). One
of them, at random, is played: Q is regressed on these transitions alone. The
others are scored by Q and may be imitated; V is the mean of Q' over all four. A
group of 8 is two trees, whose roots are one state of 8 candidates, as are
states in which their paths meet, or to which one comes back. c.collect plays a
turn of the others, too, since that is how it forks, but no reward, state or end
of theirs is read.

Missing: an offline log. The states are those of this iteration, four candidates
each, where the paper has stored ones and up to 64.

Expect few kept turns (metric turn/kept) while Q is flat. Not measured yet.

  python -m experiments.train --config=configs/digiq.py --workdir=runs/digiq
"""

from agentrl.configs import archer, base


def get_config(arg=''):
  c = base.get_config(arg, method='digiq')
  c.collect = 'candidates'
  base.hp(c, 'collect', 'candidates', by='env', play='any')
  archer.critic(c, trunk='stopped')
  c.role.critic.lr *= 10
  c.advantage = ('turn',)
  c.stream.turn = ('add_signal', 'imitate_best')
  base.hp(c, 'turn', 'add_signal', name='archer')
  base.hp(c, 'turn', 'imitate_best', by=('group', 'state'), threshold=0.1)
  c.loss = ('reinforce',)
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
