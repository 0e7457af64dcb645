"""Dose and response in a world on the host: configs/studies/dose.py, of texts.

The embedded language model looks for a coin in a house of rooms, played by
TextWorld in separate processes. The step reward is the change of the solver's
value, as in `oprl_truth`, with independent errors planted at five correlations.

  pip install -e '.[games]'
  python -m experiments.compare --study=configs/studies/dose_host.py \
    --workdir=runs/studies/dose_host
  python -m experiments.dose --report=runs/studies/dose_host/report.json

A world has room where what is known gains 5 points or more: over 60 steps on
seeds 0 and 1 it was 13 points ahead of GRPO after 20 steps, 7 and 14 after 40.
"""

from agentrl.lab.papers.dose import curves as dose
from agentrl.lab.study.spec import Env, Study, method_arm, placed
from agentrl.lab.study.spec import area_claim as claim

ENV = 'env=textworld_coin'
ARMS = (
  method_arm('grpo'),
  *(dose.planted('white', x, 'progress') for x in (1.0, *dose.CORRELATIONS)),
)
CLAIMS = (
  claim('Progress has room', dose.EXACT, 'grpo', 0.05),
  claim('An error drawn afresh at .4 leaves a gain', 'white_40', 'grpo', 0.03),
  claim('So does one at .2', 'white_20', 'grpo', 0.02),
  claim('What knows nothing costs', 'white_0', 'grpo', -0.02),
)


def get_study() -> Study:
  return Study(
    name='dose_host',
    title='Dose and response in a world on the host',
    question='How much must a step reward know in a world of texts?',
    by='train',
    arms=placed(ARMS, ENV),
    envs={'coin': Env('TextWorld: a coin in levels 103 to 106', {})},
    claims=CLAIMS,
    warm=f'configs/grpo.py:{ENV}',
    env_steps=40_000,
    tokens=90_000,
    threshold='grpo',
    reference='grpo',
    grid=(6e-4, 1.2e-3),
    rate=6e-4,
    changes={
      'env.low': 103,
      'sft.steps': 60,
      'steps': 30,
      'role.policy.final_lr_fraction': 1.0,
      'eval.episodes': 300,
      'eval.every': 10,
      'checkpoint.every': 30,
    },
    widen=0,
    pairs=5,
    first_seed=700,
    extra_metrics={dose.PROGRESS: 'degraded_truth/correlation'},
    notes=(
      'GRPO and progress were run on seeds 0 and 1, whose difference was seen',
      'errors that last, and those of the turn or the message',
      'errors have the rate of progress',
    ),
  )
