"""OPRL's claims on sparse Sokoban, with ablations and three controls.

Paper: Online Process Reward Learning for Agentic RL, 2509.19199. It reports
higher final success, about twice the sample efficiency and fewer actions than
its baselines, from runs whose learning rates differ by method.

  python -m experiments.compare --study=configs/studies/oprl.py \
    --workdir=runs/studies/oprl
"""

from agentrl.lab.study.spec import Arm, Claim, Env, Study

POLICY, PRM = 'role.policy.lr', 'role.prm.lr'
BOTH = {POLICY: 1.0, PRM: 1.0}  # the PRM learns as fast as the policy
# Rates are constant: a run at a smaller budget is the start of a longer one.
STEADY = {'role.prm.final_lr_fraction': 1.0}


def control(name, label, config='oprl', part='control', prm=1.0, **changes):
  """Builds a variant of OPRL; prm: the PRM's rate over the policy's."""
  changes = {k.replace('__', '.'): v for k, v in changes.items()}
  return Arm(
    name,
    label,
    f'configs/{config}.py',
    {**STEADY, **changes},
    part,
    {POLICY: 1.0, PRM: prm},
    pairs=5,
    tuned_as='oprl',
  )


ARMS = (
  Arm('oprl', 'OPRL', 'configs/oprl.py', STEADY, rates=BOTH),
  Arm('rloo', 'RLOO', 'configs/rloo.py'),
  Arm('grpo', 'GRPO', 'configs/grpo.py'),
  Arm('gigpo', 'GiGPO', 'configs/gigpo.py', pairs=5),
  Arm('prime', 'PRIME', 'configs/prime.py', STEADY, rates=BOTH, pairs=5),
  Arm('ppo_turn', 'PPO, turn GAE', 'configs/ppo_turn.py',
      {'role.value.final_lr_fraction': 1.0}, pairs=5),
  control('alpha_1', 'alpha 1', part='ablation', coef__step=1.0),
  control('merged', 'merged reward', 'oprl_merged', 'ablation'),
  control('token', 'token-level', 'oprl_token', 'ablation'),
  Arm('truth', 'true step reward', 'configs/oprl_truth.py', part='ablation',
      pairs=5, tuned_as='oprl'),
  control('placebo', 'placebo: moved step rewards', 'oprl_placebo'),
  control('restart', 'PRM restarted', 'oprl_restart'),
  control('prm_slow', 'PRM rate / 4', prm=0.25),
  control('prm_fast', 'PRM rate x 4', prm=4.0),
)  # fmt: skip

CLAIMS = (
  Claim('OPRL ends above RLOO (about 6 points in the paper)',
        'oprl', 'rloo', 'final', 0.06),
  Claim('OPRL ends above GRPO', 'oprl', 'grpo', 'final', 0.06),
  Claim('OPRL ends above GiGPO', 'oprl', 'gigpo', 'final', 0.04),
  Claim('OPRL ends above PRIME', 'oprl', 'prime', 'final', 0.06),
  Claim('OPRL ends above PPO with turn GAE', 'oprl', 'ppo_turn', 'final', 0.06),
  Claim('OPRL needs half the environment steps of RLOO',
        'oprl', 'rloo', 'speed', 1.0),
  Claim('OPRL solves in fewer turns than RLOO', 'oprl', 'rloo', 'moves', -0.3),
  Claim('Two streams are better than a merged reward',
        'oprl', 'merged', 'final', 0.03),
  Claim('Step rewards are better than token rewards',
        'oprl', 'token', 'final', 0.03),
  Claim('What the step rewards say matters: OPRL is above its placebo',
        'oprl', 'placebo', 'area', 0.02),
)  # fmt: skip


def get_study() -> Study:
  return Study(
    name='oprl',
    title='OPRL on sparse Sokoban',
    question=(
      'Do step rewards that are learned beside the policy make it better,'
      ' sooner and shorter than episode rewards alone, and is it what they'
      ' say that does it?'
    ),
    by='train',
    arms=ARMS,
    envs={
      'sokoban': Env(
        'Sokoban 6x6, one box, 2 to 5 moves, at most 6 turns, rewarded at the'
        ' end only',
        {
          'env.reward': 'sparse',
          'env.min_moves': 2,
          'env.max_moves': 5,
          'rollout.max_turns': 6,
        },
      )
    },
    claims=CLAIMS,
    env_steps=12_000,
    tokens=24_000,
    threshold='rloo',
    reference='grpo',
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
    extra_metrics={
      'PRM: correlation with the truth': 'prm/truth_correlation',
      'PRM: pairs in the right order': 'prm/pair_accuracy',
      'PRM: distance from the policy, nats a token': 'prm/kl',
      'entropy, nats a token': 'rollout/entropy',
    },
    notes=(
      'two boxes, dense rewards and FrozenLake, so that all of it takes hours'
      ' on two cores',
      'OPRL, RLOO and GRPO have 10 pairs, all other arms the floor of 5',
      'ablations and controls are not tuned on their own: they run at the rate'
      ' that is best for OPRL, and at the common one',
      'alpha 0 is not run: it is GRPO exactly, which a test shows',
    ),
  )
