"""ArCHer: utterance-level TD critic, token-level REINFORCE policy.

Paper: ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL,
2402.19446.

  Q_j <- r_k + gamma min V'(s_k+1),  V_j <- min Q'(s_k, a_k),  j = 1, 2
  A_k = min Q - min V;   loss = -A_k log pi(a_t) over the tokens of turn k

Q' and V' are the critic's moving average (tau = 0.1), the lower head speaking
for both. In the released code head j learns from head j of the average: set
c.signal to ('archer_by_head',). It draws a new action for the target of V and
for the policy's loss, too; here both have the one that was played.

The critic learns first, 8 steps where the paper has 50 epochs; then the
policy takes one, where it has 3. It learns from this iteration's turns only;
archer_replay.py has the paper's replay of old turns. Its warm-up of the critic
and the token baseline are left out. Last turns cut short by a limit are not
regressed, so a reward per turn matters more than elsewhere.

  python -m experiments.train --config=configs/archer.py --workdir=runs/archer
"""

from agentrl.configs import base


def critic(c, trunk='learned'):
  """Sets two Q and two V heads, and their moving average."""
  base.role(c, 'critic', lr=1e-3, heads=4, trunk=trunk)
  base.role(c, 'target', kind='ema', heads=4, trunk=trunk)
  c.signal = ('archer',)


def get_config(arg=''):
  c = base.get_config(arg, method='archer')
  critic(c)
  c.advantage = ('turn',)
  c.stream.turn = ('add_signal',)
  base.hp(c, 'turn', 'add_signal', name='archer')
  c.loss = ('reinforce',)
  base.hp(c, 'minibatch', 'minibatches', n=1)
  return base.finish(c)
