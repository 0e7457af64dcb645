"""Dose and response with a language model: configs/studies/dose.py, sampled.

The embedded language model plays a bifurcation of 10 turns, whose advantage
under random play is known of every turn: that is the step reward, with errors
of five kinds at five correlations and none. There are 64 tasks, so that each
comes again a dozen times in a run and errors that last can last.

  python -m experiments.compare --study=configs/studies/dose_language.py \
    --workdir=runs/studies/dose_language --together=5
  python -m experiments.dose --report=runs/studies/dose_language/report.json
"""

from agentrl.lab.papers.dose import curves as dose
from agentrl.lab.papers.language import worlds as language_worlds
from agentrl.lab.study.spec import Study, method_arm
from agentrl.lab.study.spec import area_claim as claim

ARMS = (
  method_arm('grpo'),
  dose.planted('white', 1.0),
  *(
    dose.planted(error, rho)._replace(pairs=5)
    for error in dose.KINDS
    for rho in dose.CORRELATIONS
  ),
)
CLAIMS = (
  claim('The advantage has room', dose.EXACT, 'grpo', 0.05),
  claim('An error drawn afresh at .4 leaves a gain', 'white_40', 'grpo', 0.03),
  claim('So does one of the trajectory', 'trajectory_40', 'grpo', 0.03),
  claim('So does one that grows with the turn', 'late_40', 'grpo', 0.03),
  claim('So does a lasting one of the state', 'state_40', 'grpo', 0.03),
  claim(
    'A lasting one of state and action costs what it knows at .4',
    arm='state_action_40',
    baseline='white_40',
    claimed=-0.03,
  ),
  claim('At .2 it is ruinous', 'state_action_20', 'grpo', -0.03),
)


def get_study() -> Study:
  return Study(
    name='dose_language',
    title='Dose and response with a language model',
    question=(
      'How much must a step reward know, and what may it be wrong in, where a'
      ' language model learns from it?'
    ),
    arms=language_worlds.placed(ARMS),
    envs={
      'turns_10': language_worlds.world(10, ', 64 tasks', **{'env.train': 64})
    },
    claims=CLAIMS,
    changes=language_worlds.changes(**{'rollout.batch': 64}),
    **language_worlds.PROTOCOL,
    widen=0,
    first_seed=500,
    extra_metrics={dose.CORRELATION: 'degraded_truth/correlation'},
    notes=(
      'errors that grow with the message, all of which are of one length here',
      'GRPO and the advantage were run on seeds 0 and 1 of a world like this',
      'errors have the rate of the advantage and 5 pairs',
    ),
  )
