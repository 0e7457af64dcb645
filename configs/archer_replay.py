"""ArCHer whose critic learns from turns of earlier iterations, too.

Paper: ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL,
2402.19446.

  critic: the targets of archer.py over this iteration's trajectories and n of
          those sampled at most `age` steps ago, drawn anew in each iteration
  policy: -A_k log pi(a_t) over this iteration's turns alone

The paper's critic is off policy because V learns from an action that the
policy of now draws. Here V learns from the action that was played, so that it
is a mean over the policies of the last `age` steps; hence the bound. With
hp.memory.experience_replay.alpha above 0 trajectories of large advantages come
back more often (prioritized replay, 1511.05952).

Expect less noise in the critic at equal environment steps, and more seconds a
step than archer.py.

  python -m experiments.train --config=configs/archer_replay.py \
    --workdir=runs/archer_replay
"""

from agentrl.configs import archer, base


def get_config(arg=''):
  c = archer.get_config(arg)
  c.method = 'archer_replay'
  base.replay_beside(c, 'reinforce')
  return base.finish(c)
