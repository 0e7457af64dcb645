"""Claims of the literature tested again where everything is known: tables.

Group statistics and clips (Lite PPO), imitation of what succeeded (RAFT, NFT)
under one and eight updates of a batch, ratios of sequences and detached ones
(GSPO, CISPO) under reuse, smoothed entropies (EPO), critics of turns and of
tokens by the length of a message, and turns compared by state (GiGPO, HGPO).

  python -m experiments.compare --study=configs/studies/retests.py \
    --workdir=runs/studies/retests

That two arms are equal is claimed from either side: where both claims of 3
points are refuted, they lie within 1.5 of each other.
"""

from agentrl.lab.papers.retests.arms import (
  CREDIT_CLAIMS,
  claim,
  entropy_bonus,
  reused,
)
from agentrl.lab.study.spec import Env, Study
from agentrl.lab.study.spec import method_arm as arm
from agentrl.lab.tabular.build import TabularSize

VALUE = 'role.value.lr'
# Of clip_higher, which has GRPO's credit and a mean over tokens.
AS_LOW = {'hp.ppo.ppo.clip_high': 0.2}


CRITIC = {VALUE: 0.3}  # at the policy's rate values swing about
ARMS = (
  arm('grpo'),
  arm('gigpo'),
  arm('hgpo'),
  arm('ppo', rates=CRITIC),
  arm('ppo_turn', rates=CRITIC),
  *map(arm, ('raft', 'raft_pp', 'nft', 'gspo', 'cispo', 'lite_ppo')),
  *map(reused, ('grpo', 'raft', 'raft_pp', 'nft', 'gspo', 'cispo')),
  arm('clip_higher', 'clip higher, mean over tokens'),
  arm(
    name='tokens',
    label='grpo, mean over tokens',
    part='ablation',
    config='clip_higher',
    changes=AS_LOW,
  ),
  arm('epo'),
  arm('epo_released'),
  *map(entropy_bonus, (0.001, 0.01, 0.1)),
)

CLAIMS = (
  *CREDIT_CLAIMS,
  claim('NFT is better than GRPO', 'nft', 'grpo'),
  claim('GRPO is better than NFT', 'grpo', 'nft'),
  claim('NFT is better than RAFT', 'nft', 'raft'),
  claim('NFT is better than GRPO under reuse', 'nft_reuse', 'grpo_reuse'),
  claim('GRPO is better than NFT under reuse', 'grpo_reuse', 'nft_reuse'),
  claim('RAFT++ is better than RAFT', 'raft_pp', 'raft'),
  claim('GSPO is better than GRPO under reuse', 'gspo_reuse', 'grpo_reuse'),
  claim('CISPO is better than GRPO under reuse', 'cispo_reuse', 'grpo_reuse'),
  claim('Lite PPO is better than GRPO', 'lite_ppo', 'grpo'),
  claim('Lite PPO is better than the loss of DAPO', 'lite_ppo', 'clip_higher'),
  claim('Clipping higher is better', 'clip_higher', 'tokens'),
  claim(
    'A mean over tokens is better than one over trajectories', 'tokens', 'grpo'
  ),
  claim('EPO is better than a plain bonus', 'epo', 'entropy_0_01'),
  claim(
    'EPO as released is better than a plain bonus',
    'epo_released',
    'entropy_0_01',
  ),
)


def world(name: str, label: str, tokens: int) -> Env:
  changes = {'world': name, 'iterations': 30}
  changes['size'] = TabularSize(tokens=tokens)
  return Env(f'{label}, messages of {tokens} tokens', changes)


def get_study() -> Study:
  return Study(
    name='retests',
    title='Claims tested again in tables',
    question='Which claims of the literature hold where credit is known?',
    by='tabular',
    arms=ARMS,
    envs={
      'key_door_2': world('key_door', 'Key and door', 2),
      'key_door_8': world('key_door', 'Key and door', 8),
      'chain_2': world('chain', 'Chain', 2),
    },
    claims=CLAIMS,
    env_steps=6_000,
    tokens=12_000,
    threshold='grpo',
    reference='grpo',
    grid=(0.2, 0.4, 0.8),
    rate=0.4,
    pairs=64,
    tuning=8,
    widen=1,
    first_seed=300,
    notes=(
      'DAPO, whose dynamic sampling tables cannot stand for: its loss alone is'
      ' among the arms; SPEAR, whose memory they lack',
      'reward scales, which a deviation divides out, and response lengths,'
      ' which are equal here',
      'entropies shuffled between responses, for which there is no piece',
    ),
  )
