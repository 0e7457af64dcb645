"""Reward density by algorithm, in one world.

Paper: A Practitioner's Guide to Multi-turn Agentic Reinforcement Learning,
2510.01132. It reports that rewards of turns speed up training by an amount that
depends on the algorithm, with PPO ahead of RLOO. Its worlds are of TextWorld,
ALFWorld and software tasks; this one is Sokoban, whose dense reward counts
boxes on targets.

  python -m experiments.compare --study=configs/studies/practitioner.py \
    --workdir=runs/studies/practitioner

The paper's other recipe, the share of a budget that goes to demonstrations, is
a sweep and no arm, for arms share their warm starts here; a demonstration costs
what an attempt does, 32 of them a step of SFT and 64 attempts one of RL:

  for both in '0 80' '40 60' '80 40' '120 20' '160 0'; do set -- $both
    python -m experiments.sweep --config=configs/grpo.py:tiny --seeds=5 \
      --workdir=runs/share/$1 --grid=sft.steps=$1 --grid=steps=$2; done
"""

from agentrl.lab.study.spec import Arm, Claim, Env, Study

ALGORITHMS = {'ppo_turn': 'PPO, turn GAE', 'grpo': 'GRPO', 'rloo': 'RLOO'}
DENSITIES = ('dense', 'sparse')
STEADY = {'role.value.final_lr_fraction': 1.0}


def arm(method: str, density: str) -> Arm:
  changes = {'env.reward': density}
  if method == 'ppo_turn':
    changes |= STEADY
  label = f'{ALGORITHMS[method]}, {density}'
  path = f'configs/{method}.py'
  return Arm(f'{method}_{density}', label, path, changes, pairs=5)


ARMS = tuple(arm(m, d) for m in ALGORITHMS for d in DENSITIES)
CLAIMS = (
  *(
    Claim(
      f'Dense rewards speed up {label}',
      f'{method}_dense',
      f'{method}_sparse',
      'area',
      0.03,
    )
    for method, label in ALGORITHMS.items()
  ),
  Claim(
    'On dense rewards PPO is ahead of RLOO',
    'ppo_turn_dense',
    'rloo_dense',
    'area',
    0.03,
  ),
)


def get_study() -> Study:
  return Study(
    name='practitioner',
    title='Reward density by algorithm',
    question=(
      'Do rewards of turns learn faster than those of the outcome, and how much'
      ' does that depend on the algorithm?'
    ),
    by='train',
    arms=ARMS,
    envs={
      'sokoban': Env(
        'Sokoban 6x6, one box, 2 to 5 moves, at most 6 turns',
        {'env.min_moves': 2, 'env.max_moves': 5, 'rollout.max_turns': 6},
      )
    },
    claims=CLAIMS,
    env_steps=12_000,
    tokens=24_000,
    threshold='grpo_sparse',
    reference='grpo_sparse',
    grid=(7.5e-5, 1.5e-4, 3e-4),
    rate=1.5e-4,
    changes={
      'rollout.batch': 64,
      'steps': 48,
      'sft.steps': 160,
      'role.policy.final_lr_fraction': 1.0,
      'eval.episodes': 2000,
      'eval.every': 12,
      'checkpoint.every': 48,
    },
    pairs=5,
    extra_metrics={'entropy, nats a token': 'rollout/entropy'},
    notes=(
      'the share of SFT in a budget, which is a sweep (see the file); PPO over'
      ' tokens, and intervals of interaction with the world',
    ),
  )
