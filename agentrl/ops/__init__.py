"""Pure functions of arrays: what links, losses and signals are made of.

Nothing here knows a batch, a config or a network: log-probs are in nats,
shapes are those of the letters in `agentrl.types`, hyper-parameters are
keywords with the paper's defaults.
"""

from agentrl.ops.gae import gae_match, gae_tokens, gae_turns
from agentrl.ops.group import (
  Moments,
  PoolUnit,
  deviation,
  group_moments,
  less_mean,
  less_others,
  min_max,
  rounding,
  unit_weights,
  white,
  zscore,
)
from agentrl.ops.kl import binary_kl, binary_tv, kl_k1, kl_k2, kl_k3
from agentrl.ops.pair import pair_accuracy, pair_loss
from agentrl.ops.policy import (
  cispo,
  gspo_log_ratio,
  log_ratio,
  ppo_clip,
  ppo_dual_clip,
)
from agentrl.ops.trust import trust
from agentrl.ops.value import clipped_error

__all__ = [
  'Moments',
  'PoolUnit',
  'binary_kl',
  'binary_tv',
  'cispo',
  'clipped_error',
  'deviation',
  'gae_match',
  'gae_tokens',
  'gae_turns',
  'group_moments',
  'gspo_log_ratio',
  'kl_k1',
  'kl_k2',
  'kl_k3',
  'less_mean',
  'less_others',
  'log_ratio',
  'min_max',
  'pair_accuracy',
  'pair_loss',
  'ppo_clip',
  'ppo_dual_clip',
  'rounding',
  'trust',
  'unit_weights',
  'white',
  'zscore',
]
