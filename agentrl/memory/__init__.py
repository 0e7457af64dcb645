"""Memories: arrays in the TrainState that outlive an iteration."""

from agentrl.memory import (
  compensation,
  experience,
  league,
  replay,
  role_baseline,
  skills,
  task_statistics,
  texts,
  unfinished,
)

__all__ = [
  'compensation',
  'experience',
  'league',
  'replay',
  'role_baseline',
  'skills',
  'task_statistics',
  'texts',
  'unfinished',
]
