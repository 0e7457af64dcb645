"""Claims of the literature tested again with the embedded language model.

The same as in tables (configs/studies/retests.py) where both can be asked, and
what tables cannot stand for: branching at uncertain turns against branching
anywhere (ARPO), factors by entropy (AEM), turns updated one after the other
(SeeUPO) and imitation of stored trajectories (SPEAR). The world is the
bifurcation of 10 turns of configs/studies/language.py.

  python -m experiments.compare --study=configs/studies/retests_language.py \
    --workdir=runs/studies/retests_language --together=5

Five pairs find large differences only: what is not seen may be there.
"""

from agentrl.lab.papers.language import worlds as language_worlds
from agentrl.lab.papers.retests.arms import (
  CREDIT_CLAIMS,
  claim,
  entropy_bonus,
  reused,
)
from agentrl.lab.study.spec import Study
from agentrl.lab.study.spec import method_arm as arm

CRITIC = {
  'rates': {'role.value.lr': 3.0},
  'changes': {'role.value.final_lr_fraction': 1.0},
}
ARMS = (
  *map(arm, ('grpo', 'gigpo', 'hgpo')),
  *(arm(name, **CRITIC) for name in ('ppo', 'ppo_turn')),
  arm('arpo'),
  arm(
    name='arpo_anywhere',
    label='arpo, branching anywhere',
    part='control',
    config='arpo',
    changes={'hp.collect.branch.slope': 0.0},
  ),
  *map(arm, ('raft', 'raft_pp', 'nft')),
  *map(arm, ('epo', 'aem', 'lite_ppo', 'seeupo')),
  arm('spear', changes={'micro_batch': 80}),  # 800 rows with its replay
  entropy_bonus(0.01),
  *map(reused, ('grpo', 'gspo', 'cispo')),
)
CLAIMS = (
  *CREDIT_CLAIMS,
  claim('Branching is better than GRPO', 'arpo', 'grpo'),
  claim('It is better where entropy rises', 'arpo', 'arpo_anywhere'),
  claim('NFT is better than GRPO', 'nft', 'grpo'),
  claim('NFT is better than RAFT', 'nft', 'raft'),
  claim('RAFT++ is better than RAFT', 'raft_pp', 'raft'),
  claim('EPO is better than a plain bonus', 'epo', 'entropy_0_01'),
  claim('AEM is better than GRPO', 'aem', 'grpo'),
  claim('Lite PPO is better than GRPO', 'lite_ppo', 'grpo'),
  claim('Turns updated one after the other are better', 'seeupo', 'grpo'),
  claim('GSPO is better than GRPO under reuse', 'gspo_reuse', 'grpo_reuse'),
  claim('CISPO is better than GRPO under reuse', 'cispo_reuse', 'grpo_reuse'),
  claim('SPEAR is better than GRPO', 'spear', 'grpo'),
)


def get_study() -> Study:
  return Study(
    name='retests_language',
    title='Claims tested again with a language model',
    question='Which claims of the literature hold with a language model?',
    arms=language_worlds.placed(ARMS),
    envs={'turns_10': language_worlds.batched(10, 64)},
    claims=CLAIMS,
    changes=language_worlds.changes(),
    **language_worlds.PROTOCOL,
    widen=1,
    pairs=5,
    first_seed=600,
    notes=(
      'GRPO, GiGPO and the critic of turns were run on other seeds of this'
      ' world (configs/studies/language.py)',
      'hierarchical advantages (HiPER), whose messages name subgoals: their'
      ' warm start is another',
      'branching by TRACE; entropies shuffled between responses, for which'
      ' there is no piece',
    ),
  )
