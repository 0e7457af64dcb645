"""VPR: verifier scores of the candidates of a state, centred over them.

Paper: Verifiable Process Rewards for Agentic Reasoning, 2605.10325.

  a_1 .. a_4 ~ pi(. | s) in every state of a path; one of the highest v is
  played, at random among these
  q_j = v_j + [a_j ends the attempt] outcome
  A(a_j) = whiten( q_j - mean of q over the candidates of that state )

in the code's mode `mean_then_batch_whiten`. A state whose candidates score the
same leaves the loss before the whitening, over the turns that remain, with the
population's deviation. All candidates are trained on.

c.collect makes the trees: the path, and a leaf for each candidate that was not
played, which has an outcome only if it ended. A group of 8 is two trees; where
their paths meet, or one comes back, the candidates of a state are compared
together. v_j is `progress`, the solver's truth; with `judged=column` and
--config.judging.flip=0.2 it is wrong about every fifth turn.

--config.collect=once plays every message that is drawn: a group of turns is
then what the members of a task happened to do in one state. The published
results of vpr are of this form. Compare vpr_turn.py, which needs no states.

Missing: the verifiers of the paper's other games.

Expect fewer tasks in a batch than GRPO has, for more messages at each, and
success while sampling above that of evaluations: the verifier chooses there.
Not measured yet.

  python -m experiments.train --config=configs/vpr.py --workdir=runs/vpr
"""

from agentrl.configs import base

STATE = ('group', 'state')
REWARD = ('episode_outcome', 'at_last_turn', 'add_term')


def get_config(arg=''):
  c = base.get_config(arg, method='vpr')
  verifier = base.step_term(c)
  c.collect = 'candidates'
  base.hp(c, 'collect', 'candidates', by=verifier)
  c.advantage = ('step',)
  c.stream.step = (*REWARD, 'drop_flat', 'center')
  base.hp(c, 'step', 'add_term', name=verifier)
  base.hp(c, 'step', 'drop_flat', by=STATE, unit='turn')
  base.hp(c, 'step', 'center', by=STATE, unit='turn')
  c.post = ('whiten_tokens',)
  base.hp(c, 'post', 'whiten_tokens', unit='turn', ddof=0)
  return base.finish(c)
