"""Clip-higher, overlong shaping and kept entropy: all eight combinations.

Paper: Demystifying Reinforcement Learning in Agentic Reasoning, 2510.11701. Its
recipe of the three makes RL of tool-using agents more efficient than plain
GRPO. Here with a calculator in countdown, by configs/grpo.py and changes of it:

  clip-higher  1 + 0.28 for 1 + 0.2 above (configs/dapo.py)
  overlong     up to -1 over the last quarter of a trajectory's tokens
  entropy      a bonus of 0.01 nats a token, for the paper's higher targets

  python -m experiments.compare --study=configs/studies/demystify.py \
    --workdir=runs/studies/demystify
"""

import itertools
from typing import Any

from agentrl.lab.study.spec import Arm, Claim, Env, Study

PIECES: dict[str, dict[str, Any]] = {
  'clip': {'hp.ppo.ppo.clip_high': 0.28},
  'overlong': {
    'reward': ('env', 'overlong'),
    'hp.reward.overlong.limit': 96,
    'hp.reward.overlong.margin': 24,
  },
  'entropy': {'loss': ('ppo', 'entropy'), 'coef.entropy': 0.01},
}
GRPO = 'configs/grpo.py:env=countdown'
ALL = '_'.join(PIECES)


def arm(chosen: tuple[str, ...]) -> Arm:
  changes = {k: v for name in chosen for k, v in PIECES[name].items()}
  name = '_'.join(chosen) or 'plain'
  return Arm(
    name,
    ' + '.join(chosen) or 'plain GRPO',
    GRPO,
    changes,
    'method' if name in ('plain', ALL) else 'ablation',
    pairs=5,
    tuned_as='' if name == 'plain' else 'plain',
  )


ARMS = tuple(
  arm(chosen)
  for n in range(len(PIECES) + 1)
  for chosen in itertools.combinations(PIECES, n)
)
CLAIMS = (
  Claim('The recipe of three learns faster', ALL, 'plain', 'area', 0.03),
  Claim('The recipe of three ends higher', ALL, 'plain', 'final', 0.03),
  *(
    Claim(f'{name} alone learns faster', name, 'plain', 'area', 0.02)
    for name in PIECES
  ),
)


def get_study() -> Study:
  return Study(
    name='demystify',
    title='Clip-higher, overlong shaping and kept entropy',
    question=(
      'Which of the three makes GRPO with a tool more efficient, alone and'
      ' together?'
    ),
    by='train',
    arms=ARMS,
    envs={
      'countdown': Env(
        'Countdown, two numbers up to 30, with a calculator',
        {'rollout.max_turns': 3},
      )
    },
    claims=CLAIMS,
    env_steps=6_000,
    tokens=100_000,
    threshold='plain',
    reference='plain',
    grid=(1.5e-4, 3e-4, 6e-4),
    rate=3e-4,
    warm=GRPO,
    changes={
      'rollout.batch': 64,
      'steps': 60,
      'sft.steps': 280,
      'sft.batch': 64,
      'role.policy.final_lr_fraction': 1.0,
      'eval.episodes': 400,
      'eval.every': 15,
      'checkpoint.every': 60,
    },
    pairs=5,
    extra_metrics={'entropy, nats a token': 'rollout/entropy'},
    notes=(
      'the pieces are at the rate that is best for plain GRPO',
      'the data of the paper: real traces for SFT, and tasks by difficulty',
    ),
  )
