"""Step rewards with a language model: the study of tables, where states blur.

What gains in tables (configs/studies/step_rewards.py) leans on states that
recur; here generalisation has to do what cells of a table do. The embedded
language model plays bifurcations: of 10 or 20 turns one decides, and the reward
comes with the last.

  python -m experiments.compare --study=configs/studies/language.py \
    --workdir=runs/studies/language --together=5

What README says first follows from the claims at tuned rates. Where
graph_return or td_prm is confirmed above GRPO in both worlds, and gains at
least half of what the better truth gains wherever that gains 5 points, this is
its first result. Where one of them is confirmed in one world, README names the
world and says that the other did not show it. Where neither is, it says that
tables gain and that a language model has not been seen to, with intervals.
"""

from agentrl.lab.papers.language import worlds as language_worlds
from agentrl.lab.papers.step_rewards.arms import GIGPO_GAMMA_1, GRAPH_GAMMA_1
from agentrl.lab.study.spec import Arm, Study
from agentrl.lab.study.spec import area_claim as claim
from agentrl.lab.study.spec import method_arm as arm

PRM, VALUE = 'role.prm.lr', 'role.value.lr'
STEADY = {'role.prm.final_lr_fraction': 1.0}
NO_FLOOR = {'hp.step.scale.eps': 1e-3}
STEADY_VALUE = {'role.value.final_lr_fraction': 1.0}
BOTH = {PRM: 0.5, VALUE: 3.0}  # of phi and V over the policy's
DIFFERENCES = STEADY | STEADY_VALUE


def of_oprl(name: str, label: str, part: str, config: str, **fields) -> Arm:
  changes = STEADY | fields.pop('changes', {})
  return arm(
    name=name,
    label=label,
    part=part,
    config=config,
    changes=changes,
    rates={PRM: 0.5},
    **fields,
  )


ARMS = (
  arm('grpo'),
  arm('gigpo'),
  arm('ppo_turn', rates={VALUE: 3.0}, changes=STEADY_VALUE),
  arm('graph_return'),
  arm('td_prm', rates=BOTH, changes=DIFFERENCES),
  of_oprl('oprl', '', 'method', 'oprl'),
  GIGPO_GAMMA_1,
  GRAPH_GAMMA_1._replace(pairs=5),
  of_oprl(
    name='oprl_no_floor',
    label='oprl, no floor',
    part='ablation',
    config='oprl',
    changes=NO_FLOOR,
    tuned_as='oprl',
    pairs=5,
  ),
  of_oprl(
    name='oprl_restart',
    label='oprl, restarted, no floor',
    part='ablation',
    config='oprl_restart',
    changes=NO_FLOOR,
    tuned_as='oprl',
  ),
  arm(
    name='truth',
    label='truth: advantage under random play',
    part='ablation',
    config='oprl_truth',
    changes={'hp.step.add_term.name': 'truth'},
    tuned_as='graph_return',
  ),
  arm('oprl_truth', 'truth: progress', 'ablation', tuned_as='graph_return'),
  arm(
    name='td_prm_outcome',
    label='td_prm, target R',
    part='control',
    rates=BOTH,
    changes=DIFFERENCES,
    tuned_as='td_prm',
    pairs=5,
  ),
  arm(
    name='td_critic',
    label='td_prm, critic alone',
    part='control',
    rates={VALUE: 3.0},
    changes=STEADY_VALUE,
    tuned_as='td_prm',
    pairs=5,
  ),
  of_oprl(
    name='oprl_placebo',
    label='placebo',
    part='control',
    config='oprl_placebo',
    tuned_as='oprl',
  ),
)


CLAIMS = (
  claim('The truth has room', 'truth', 'grpo', 0.05),
  claim('graph_return gains', 'graph_return', 'grpo', 0.03),
  claim('td_prm gains', 'td_prm', 'grpo', 0.03),
  claim('OPRL gains', 'oprl', 'grpo', 0.03),
  claim('OPRL is above its placebo', 'oprl', 'oprl_placebo', 0.03),
  claim('Restarted, it gains', 'oprl_restart', 'grpo', 0.03),
  claim('Its floor costs nothing', 'oprl_no_floor', 'oprl', 0.02),
  claim('GiGPO gains', 'gigpo', 'grpo', 0.03),
  claim('A critic of turns gains', 'ppo_turn', 'grpo', 0.03),
  claim('graph_return is above GiGPO', 'graph_return', 'gigpo', 0.02),
  claim('It is the temporal differences', 'td_prm', 'td_prm_outcome', 0.03),
  claim('phi is better than the critic alone', 'td_prm', 'td_critic', 0.02),
)


def get_study() -> Study:
  return Study(
    name='language',
    title='Step rewards with a language model',
    question=(
      'Do values that pass through shared states, or a PRM by temporal'
      ' differences, gain with a language model what they gain in tables?'
    ),
    arms=language_worlds.placed(ARMS),
    envs={
      'turns_10': language_worlds.batched(10, 64),
      'turns_20': language_worlds.batched(20, 32),
    },
    claims=CLAIMS,
    changes=language_worlds.changes(),
    **language_worlds.PROTOCOL,
    widen=1,
    common_pairs=5,
    first_seed=400,
    extra_metrics={
      'PRM: correlation with progress': 'prm/truth_correlation',
      'turns whose state others share': 'advantage/step/shared',
      'entropy, nats a token': 'rollout/entropy',
    },
    notes=(
      'seeds 0 and 1, on which GRPO, graph_return, td_prm, its critic, OPRL'
      ' and both truths were run, at rates of 1e-3 to 3e-3',
      'frozen lakes and Sokoban, where a search over size and horizon found'
      ' no room for the truth; a bifurcation of 40 turns, where in 75 steps'
      ' nothing but graph_return had begun to gain',
      'pairs by time to success and GRPO on 0.95^turns: every trajectory of a'
      ' bifurcation has the same number of turns',
      'the runs of a first time were lost before a figure of the pairs was'
      ' looked at; they had 10 pairs at the common rate, these have 5',
      'controls and ablations have the rate of their method, the truth that of'
      ' graph_return; those that tables settled have 5 pairs',
    ),
  )
