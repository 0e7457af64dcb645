"""Bifurcations in which the embedded language model has room, of studies.

A search over size, horizon and supervision found them (docs/results,
worlds with room): of 10 or 20 turns one decides, and the reward comes with the
last.
"""

from collections.abc import Mapping
from typing import Any

from agentrl.lab.study import spec
from agentrl.lab.study.spec import Arm, Env

ENV = 'env=bifurcation'
# Fields of a Study: budget and rates.
PROTOCOL: Mapping[str, Any] = {
  'by': 'train',
  'warm': f'configs/grpo.py:{ENV}',
  'env_steps': 64_000,
  'tokens': 125_000,
  'threshold': 'grpo',
  'reference': 'grpo',
  'grid': (7.5e-4, 1.5e-3, 3e-3),
  'rate': 1.5e-3,
}


def changes(**more: Any) -> dict[str, Any]:
  """Returns changes to every run; `more` stands where protocols have it."""
  return {
    'env.choices': 8,
    'env.filler': 2,
    'sft.steps': 40,  # it names directions, and names them blindly
    'steps': 100,
    **more,
    'role.policy.final_lr_fraction': 1.0,
    'eval.episodes': 300,
    'eval.every': 20,
    'checkpoint.every': 100,
  }


def placed(arms: tuple[Arm, ...]) -> tuple[Arm, ...]:
  """Returns the arms, each in a bifurcation."""
  return spec.placed(arms, ENV)


def world(turns: int, text: str = '', **changes: Any) -> Env:
  """Builds a bifurcation of `turns` turns; text: what else is told of it."""
  length = {'env.length': turns, 'rollout.max_turns': turns}
  return Env(
    f'Bifurcation of {turns} turns and 8 choices{text}', length | changes
  )


def batched(turns: int, batch: int) -> Env:
  """Builds the world with `batch` trajectories a step."""
  text = f', {batch} trajectories a step'
  return world(turns, text, **{'rollout.batch': batch})
