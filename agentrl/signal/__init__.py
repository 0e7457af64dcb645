"""Signals: learned or computed beside the policy."""

from agentrl.signal import (  # noqa: F401  register their pieces
  annotated_reward,
  archer,
  barfi,
  confidence,
  critic,
  entropy_history,
  implicit_prm,
  information,
  latent_reward,
  moving_average,
  multi_head_reward,
  principled_reward,
  progress,
  reference,
  reward_model,
  td_prm,
)
