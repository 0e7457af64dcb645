"""Credit where everything is known: policies that are tables, in two worlds.

Every way of making an advantage that tables can stand for, in the code that
trains language models: the config's signals, links, loss and optimizer. The
worlds: a bifurcation (one of five turns matters) and a grid with key and door
(up to 24 turns, one action in ten slips). Success and the exact advantage are
computed, not sampled.

  python -m experiments.compare --study=configs/studies/credit.py \
    --workdir=runs/studies/credit
"""

from agentrl.lab.papers.tabular.worlds import worlds
from agentrl.lab.study.spec import Arm, Claim, Study, method_arm
from agentrl.lab.tabular.build import TabularSize

PRM, VALUE = 'role.prm.lr', 'role.value.lr'
TRAJECTORY = ('grpo', 'dr_grpo', 'rloo', 'reinforce_pp', 'opo', 'maxrl')
TURN = ('gigpo', 'gigpo_no_std', 'hgpo')
CRITIC = ('ppo', 'ppo_turn', 'ppo_bilevel', 'odysseus')
LEARNED = (
  'oprl',
  'oprl_rloo',
  'oprl_merged',
  'oprl_token',
  'oprl_process_only',
  'oprl_parity',
  'prime',
)
CONTROL = ('oprl_placebo', 'oprl_restart')
# The environment tells these how near the end is, which others do not know.
TOLD = ('oprl_truth', 'vpr')
# Tables sample no candidates: turns of a group in one state are compared.
CHANGES = {'vpr': {'collect': 'once'}}


def arm(name: str, part: str = 'method', label: str = '', **fields) -> Arm:
  rates = {}
  if name in LEARNED or name in CONTROL:
    rates[PRM] = 1.0
  if name in CRITIC:
    rates[VALUE] = 0.3  # at the policy's rate values swing about
  rates |= fields.pop('rates', {})
  fields.setdefault('changes', CHANGES.get(name, {}))
  own = label.replace(' ', '_') or name
  return method_arm(
    own, label or name, part, config=name, rates=rates, **fields
  )


ARMS = (
  *map(arm, (*TRAJECTORY, *TURN, *CRITIC, *LEARNED)),
  *(arm(name, 'control') for name in CONTROL),
  *(arm(name, 'ablation') for name in TOLD),
  arm('oprl', 'ablation', 'oprl alpha 1', changes={'coef.step': 1.0}),
  arm('oprl', 'control', 'oprl prm x 0.25', rates={PRM: 0.25}),
  arm('oprl', 'control', 'oprl prm x 4', rates={PRM: 4.0}),
  # A method against itself, other keys: 20 pairs have to find nothing.
  arm('grpo', 'control', 'grpo again', salt=1, pairs=20, tuned_as='grpo'),
)

CLAIMS = (
  Claim('GRPO is better than itself', 'grpo_again', 'grpo', 'area', 0.02),
  Claim('OPRL learns faster than GRPO', 'oprl', 'grpo', 'area', 0.02),
  Claim('OPRL learns faster than RLOO', 'oprl', 'rloo', 'area', 0.02),
  Claim('OPRL is above its placebo', 'oprl', 'oprl_placebo', 'area', 0.02),
  Claim('OPRL needs half the environment steps of RLOO',
        'oprl', 'rloo', 'speed', 1.0),
  Claim('A PRM that is restarted every iteration is better',
        'oprl_restart', 'oprl', 'area', 0.02),
  Claim('Turns compared by state (GiGPO) are better than GRPO',
        'gigpo', 'grpo', 'area', 0.02),
  Claim('A critic of turns is better than GRPO',
        'ppo_turn', 'grpo', 'area', 0.02),
  Claim('A critic of turns is better than one of tokens',
        'ppo_turn', 'ppo', 'area', 0.02),
  Claim('The truth in place of the PRM is better than the PRM',
        'oprl_truth', 'oprl', 'area', 0.02),
)  # fmt: skip


def get_study() -> Study:
  return Study(
    name='credit',
    title='Credit where everything is known',
    question=(
      'Which ways of giving credit to turns learn faster when nothing but the'
      ' credit differs, and how near is each to the exact advantage?'
    ),
    by='tabular',
    arms=ARMS,
    envs=worlds('bifurcation', 'key_door', iterations=40),
    claims=CLAIMS,
    env_steps=6_000,
    tokens=12_000,
    threshold='rloo',
    reference='grpo',
    grid=(0.1, 0.2, 0.4, 0.8, 1.6),
    rate=0.4,
    changes={'size': TabularSize(tokens=2)},
    pairs=64,
    tuning=16,
    extra_metrics={
      'credit: correlation with the exact advantage': 'credit correlation',
      'credit: bias': 'credit bias',
      'credit: noise': 'credit noise',
      'PRM: correlation with the exact advantage': 'prm correlation',
      'PRM: pairs in the right order': 'prm pair accuracy',
      'PRM: distance from the policy, nats': 'prm distance',
      'critic: RMS error of its value': 'value error',
    },
    notes=(
      'methods that branch, replay, or have signals that read text; those that'
      ' differ from one of these in their loss only',
    ),
  )
