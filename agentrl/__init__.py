"""Reinforcement learning of language-model agents, in JAX.

  import agentrl as rl

  batch = rl.Batch.from_turns(tokens, logp, reward=reward, group=group)
  credit = rl.compute_advantage(('episode_return', 'center', 'scale'), batch)
  loss = rl.ops.ppo_clip(log_ratio, advantage, low=0.2, high=0.28)

  with rl.Run('oprl:tiny', workdir='runs/oprl') as run:
    for step, state, metrics in run: ...
  policy = rl.Policy.load('runs/oprl')

Names are imported when they are first used, so that the import takes no
device and no time.
"""

import importlib
import os
from typing import TYPE_CHECKING, Any

# transformers advises on PyTorch at import, which this library never uses.
os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')

if TYPE_CHECKING:
  from agentrl import ops, testing
  from agentrl.advantage.chain import compute_advantage
  from agentrl.judge.item import JudgeInputs
  from agentrl.registry import register
  from agentrl.run.api import Run
  from agentrl.run.policy import Policy
  from agentrl.types import (
    Batch,
    CollectInputs,
    Credit,
    LinkInputs,
    LossInputs,
    Outputs,
    RewardInputs,
  )

__version__ = '0.1.0'
__all__ = [
  'Batch',
  'CollectInputs',
  'Credit',
  'JudgeInputs',
  'LinkInputs',
  'LossInputs',
  'Outputs',
  'Policy',
  'RewardInputs',
  'Run',
  'compute_advantage',
  'ops',
  'register',
  'testing',
]
# Public name -> its module. None of them is a sub-package's name: that one's
# import would take its place.
_HOMES = {
  'Batch': 'agentrl.types',
  'CollectInputs': 'agentrl.types',
  'Credit': 'agentrl.types',
  'JudgeInputs': 'agentrl.judge.item',
  'LinkInputs': 'agentrl.types',
  'LossInputs': 'agentrl.types',
  'Outputs': 'agentrl.types',
  'Policy': 'agentrl.run.policy',
  'RewardInputs': 'agentrl.types',
  'Run': 'agentrl.run.api',
  'compute_advantage': 'agentrl.advantage.chain',
  'register': 'agentrl.registry',
}


def __getattr__(name: str) -> Any:
  if name in _HOMES:
    value = vars(importlib.import_module(_HOMES[name]))[name]
    globals()[name] = value
    return value
  if name in __all__:
    return importlib.import_module(f'{__name__}.{name}')
  raise AttributeError(
    f'agentrl has no {name!r}; it has {", ".join(__all__)}, and modules to be'
    ' imported by their own names'
  )


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
