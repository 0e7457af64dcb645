"""Step rewards in key and door: pairs, temporal differences, shared states.

Policies that are tables, in the world in which OPRL was told apart neither from
GRPO nor from its placebo. Two truths stand beside them: the solver's progress,
and the exact advantage of the policy that played; each reward is held against
either, and the persistence of its error is measured.

  python -m experiments.compare --study=configs/studies/step_rewards.py \
    --workdir=runs/studies/step_rewards
"""

from agentrl.lab.papers.step_rewards.arms import GIGPO_GAMMA_1, GRAPH_GAMMA_1
from agentrl.lab.papers.tabular.worlds import worlds
from agentrl.lab.study.spec import Claim, Study
from agentrl.lab.study.spec import method_arm as arm
from agentrl.lab.tabular.build import TabularSize

PRM, VALUE = 'role.prm.lr', 'role.value.lr'
# Of phi and V over the policy's: they take four steps on a batch, not two.
SLOW = 0.15


BOTH, CRITIC = {PRM: SLOW, VALUE: SLOW}, {VALUE: SLOW}
ARMS = (
  arm('grpo'),
  arm('gigpo'),
  arm('graph_return'),
  arm('td_prm', rates=BOTH),
  arm('oprl', rates={PRM: 1.0}),
  GIGPO_GAMMA_1,
  GRAPH_GAMMA_1,
  arm(
    name='td_prm_alpha_1',
    label='td_prm, alpha 1',
    part='ablation',
    config='td_prm',
    changes={'coef.step': 1.0},
    rates=BOTH,
    tuned_as='td_prm',
  ),
  arm(
    name='oprl_no_floor',
    label='oprl, no floor',
    part='ablation',
    config='oprl',
    changes={'hp.step.scale.eps': 1e-3},
    rates={PRM: 1.0},
    tuned_as='oprl',
  ),
  arm('oprl_truth', 'truth: progress', 'ablation', tuned_as='graph_return'),
  arm(
    name='advantage',
    label='truth: advantage',
    part='ablation',
    config='oprl_truth',
    changes={'hp.step.add_term.name': 'truth'},
    tuned_as='graph_return',
  ),
  arm(
    name='td_prm_outcome',
    label='td_prm, target R',
    part='control',
    rates=BOTH,
    tuned_as='td_prm',
  ),
  arm(
    name='td_critic',
    label='td_prm, critic alone',
    part='control',
    rates=CRITIC,
    tuned_as='td_prm',
  ),
  arm('oprl_placebo', part='control', rates={PRM: 1.0}, tuned_as='oprl'),
  arm('oprl_restart', part='control', rates={PRM: 1.0}, tuned_as='oprl'),
)

CLAIMS = (
  Claim(
    'Values through shared states are better than GRPO',
    'graph_return',
    'grpo',
    'area',
    0.06,
  ),
  Claim(
    'Values through shared states are better than GiGPO',
    'graph_return',
    'gigpo',
    'area',
    0.03,
  ),
  Claim(
    'Without preferring short solutions they still are',
    'graph_gamma_1',
    'gigpo_gamma_1',
    'area',
    0.03,
  ),
  Claim(
    'A PRM by temporal differences is better than GRPO',
    'td_prm',
    'grpo',
    'area',
    0.05,
  ),
  Claim(
    'A PRM by temporal differences is better than OPRL',
    'td_prm',
    'oprl',
    'area',
    0.05,
  ),
  Claim(
    'It is the temporal differences: with R as target less is gained',
    'td_prm',
    'td_prm_outcome',
    'area',
    0.05,
  ),
  Claim(
    'phi is better than the critic alone', 'td_prm', 'td_critic', 'area', 0.02
  ),
  Claim(
    'OPRL without its floor is better than GRPO',
    'oprl_no_floor',
    'grpo',
    'area',
    0.02,
  ),
  Claim(
    'The exact advantage is better than GRPO', 'advantage', 'grpo', 'area', 0.1
  ),
)


def get_study() -> Study:
  return Study(
    name='step_rewards',
    title='Step rewards in key and door',
    question=(
      'Which step rewards learn faster than the outcome alone: of a PRM by'
      ' pairs, of a PRM by temporal differences, of values that pass through'
      ' shared states, and what do two truths gain?'
    ),
    by='tabular',
    arms=ARMS,
    envs=worlds('key_door', iterations=40),
    claims=CLAIMS,
    env_steps=6_000,
    tokens=12_000,
    threshold='grpo',
    reference='grpo',
    grid=(0.2, 0.4, 0.8),
    rate=0.4,
    changes={'size': TabularSize(tokens=2)},
    pairs=64,
    tuning=8,
    widen=0,
    first_seed=64,
    extra_metrics={
      'reward: correlation with the advantage': 'prm correlation',
      'reward: correlation with progress': 'prm progress correlation',
      'reward: persistence of its error': 'prm persistence',
      'stream: correlation with the advantage': 'step correlation',
      'stream: correlation with progress': 'step progress correlation',
      'stream: persistence of its error': 'step persistence',
    },
    notes=(
      'seeds 0 to 63, on which rates and alpha were chosen: grpo, graph_return'
      ' and td_prm with phi and V at 0.05, 0.15 and 0.4 of the policy were run'
      ' on seeds 0 to 7 before this was written',
      'replay of earlier batches, and GRPO on gamma^T, which no link makes',
      'truths have the rate of graph_return, controls that of their method',
    ),
  )
