"""Dose and response: how good a step reward has to be, by kind of its error.

Two worlds of tables in which the exact advantage of the policy that played is
known. It is mixed with errors of five kinds at five correlations; rewards that
are learned stand beside the curves. Whether these curves predict what learned
rewards gain is computed by `experiments.dose` from correlation and persistence
alone, by a rule that was fixed before the first run (lab/papers/dose).

  python -m experiments.compare --study=configs/studies/dose.py \
    --workdir=runs/studies/dose
  python -m experiments.dose --report=runs/studies/dose/report.json
"""

import functools

from agentrl.lab.papers.dose import curves as dose
from agentrl.lab.papers.tabular.worlds import worlds
from agentrl.lab.study.spec import Study, method_arm
from agentrl.lab.study.spec import area_claim as claim
from agentrl.lab.tabular.build import TabularSize

PRM, VALUE = 'role.prm.lr', 'role.value.lr'
# Of phi and V over the policy's: they take four steps on a batch, not two.
SLOW = 0.15


arm = functools.partial(method_arm, tuned_as='advantage')


NO_FLOOR = {'hp.step.scale.eps': 1e-3}
ARMS = (
  arm('grpo', tuned_as=''),
  arm(
    name='advantage',
    label='the exact advantage',
    part='ablation',
    config='oprl_truth',
    changes={'hp.step.add_term.name': 'truth'},
    tuned_as='',
  ),
  *(
    dose.planted(error, rho)
    for error in dose.KINDS
    for rho in dose.CORRELATIONS
  ),
  arm('oprl_truth', "the solver's progress", 'ablation'),
  arm('graph_return'),
  arm('td_prm', rates={PRM: SLOW, VALUE: SLOW}),
  arm('td_prm_outcome', 'td_prm, target R', rates={PRM: SLOW, VALUE: SLOW}),
  arm('td_critic', rates={VALUE: SLOW}),
  arm(
    name='oprl',
    label='oprl, no floor',
    config='oprl',
    changes=NO_FLOOR,
    rates={PRM: 1.0},
  ),
  arm(
    name='oprl_restart',
    label='oprl, restarted, no floor',
    changes=NO_FLOOR,
    rates={PRM: 1.0},
  ),
  arm(
    name='oprl_placebo',
    label='placebo, no floor',
    part='control',
    changes=NO_FLOOR,
    rates={PRM: 1.0},
  ),
)


CLAIMS = (
  claim('The exact advantage has room', 'advantage', 'grpo', 0.1),
  claim('An error drawn afresh at .4 leaves a gain', 'white_40', 'grpo', 0.05),
  claim('So does one of the trajectory', 'trajectory_40', 'grpo', 0.05),
  claim('So does one that grows with the turn', 'late_40', 'grpo', 0.05),
  claim('So does a lasting one of the state', 'state_40', 'grpo', 0.05),
  claim(
    'A lasting one of state and action costs what it knows at .4',
    arm='state_action_40',
    baseline='white_40',
    claimed=-0.06,
  ),
  claim('At .2 it is ruinous', 'state_action_20', 'grpo', -0.05),
  claim('td_prm gains', 'td_prm', 'grpo', 0.05),
  claim('graph_return gains', 'graph_return', 'grpo', 0.06),
)


def get_study() -> Study:
  return Study(
    name='dose',
    title='Dose and response of step rewards',
    question=(
      'How much must a step reward know, and what may it be wrong in, to learn'
      ' faster than the outcome alone?'
    ),
    by='tabular',
    arms=ARMS,
    envs=worlds('key_door', 'chain', iterations=30),
    claims=CLAIMS,
    env_steps=6_000,
    tokens=12_000,
    threshold='grpo',
    reference='grpo',
    grid=(0.2, 0.4, 0.8),
    rate=0.4,
    changes={'size': TabularSize(tokens=2)},
    pairs=32,
    tuning=8,
    widen=0,
    first_seed=128,
    extra_metrics=dose.METRICS,
    notes=(
      'every reward that is not the outcome alone has the rate of the exact'
      ' advantage; GRPO its own',
      'white, state_action, state and late at .4 were run on seeds 0 to 15 of'
      ' both worlds before this was written',
      'correlation and persistence are means over the first ten iterations',
    ),
  )
