"""Board of methods: every one that tables can stand for, on three worlds.

  python -m experiments.compare --study=configs/studies/board.py \
    --workdir=runs/studies/board

Nothing is claimed: differences from GRPO are corrected for their number. The
table with cost and credit error is docs/BOARD.md.
"""

from agentrl.lab.papers.tabular.worlds import worlds
from agentrl.lab.study.spec import Arm, Study, method_arm
from agentrl.lab.tabular.build import TabularSize

PRM, VALUE = 'role.prm.lr', 'role.value.lr'
OUTCOME = (  # one number for a trajectory
  'grpo', 'dr_grpo', 'rloo', 'reinforce_pp', 'reinforce_pp_baseline',
  'reinforce_pp_kl', 'opo', 'maxrl', 'grpo_passk', 'lite_ppo', 'gdpo',
  'dgrpo', 'gpg', 'otb', 'flow_grpo', 'raft', 'raft_pp', 'starpo_s',
)  # fmt: skip
LOSS = (  # GRPO's credit in another loss
  'cispo', 'clip_cov', 'clip_higher', 'kl_cov', 'dppo', 'dppo_kl', 'gmpo',
  'gspo', 'gspo_token', 'gspo_turn', 'bn_gspo', 'sapo', 'nft',
  'nft_sequence', 'seeupo', 'ipa', 'epo', 'epo_released',
)  # fmt: skip
TURN = ('gigpo', 'gigpo_no_std', 'hgpo', 'graph_return', 'aem')
CRITIC = ('ppo', 'ppo_turn', 'ppo_bilevel', 'odysseus')
LEARNED = (
  'oprl', 'oprl_rloo', 'oprl_merged', 'oprl_token', 'oprl_process_only',
  'oprl_parity', 'prime', 'prime_bon', 'prime_detached',
)  # fmt: skip
CONTROL = ('oprl_placebo', 'oprl_restart')
# Four steps on a batch, not two.
DIFFERENCES = ('td_prm', 'td_prm_outcome', 'td_critic')
# The environment tells these how near the end is, which others do not know.
TOLD = ('oprl_truth', 'vpr', 'vpr_turn')
# Tables sample no candidates: turns of a group in one state are compared.
CHANGES = {'vpr': {'collect': 'once'}}


def arm(name: str, part: str = 'method') -> Arm:
  rates = {}
  if name in LEARNED or name in CONTROL:
    rates[PRM] = 1.0
  if name in (*CRITIC, 'starpo_s'):
    rates[VALUE] = 0.3  # at the policy's rate values swing about
  if name in DIFFERENCES:
    rates[VALUE] = 0.15
  if name in ('td_prm', 'td_prm_outcome'):
    rates[PRM] = 0.15
  return method_arm(name, part=part, rates=rates, changes=CHANGES.get(name, {}))


NAMES = (*OUTCOME, *LOSS, *TURN, *CRITIC, *LEARNED, *DIFFERENCES)
ARMS = (
  *map(arm, NAMES),
  *(arm(name, 'control') for name in CONTROL),
  *(arm(name, 'ablation') for name in TOLD),
)


def get_study() -> Study:
  return Study(
    name='board',
    title='Board of methods',
    question='What does each method gain over GRPO where everything is known?',
    by='tabular',
    arms=ARMS,
    envs=worlds('bifurcation', 'key_door', 'chain', iterations=30),
    claims=(),
    env_steps=6_000,
    tokens=12_000,
    threshold='grpo',
    reference='grpo',
    grid=(0.2, 0.4, 0.8),
    rate=0.4,
    changes={'size': TabularSize(tokens=2)},
    pairs=64,
    tuning=8,
    widen=1,
    first_seed=200,
    extra_metrics={
      'credit: correlation with the exact advantage': 'credit correlation',
      'credit: bias': 'credit bias',
      'credit: noise': 'credit noise',
    },
    notes=(
      'methods that branch, replay or sample in a way of their own, and signals'
      ' that read text: tables cannot stand for them',
      'methods of stages, of which RL is one, and of judged or composed'
      ' rewards, whose terms these worlds lack',
      'corrections of a mismatch between sampler and learner, of durations and'
      ' of agents, of which there are none here: they are GRPO',
    ),
  )
