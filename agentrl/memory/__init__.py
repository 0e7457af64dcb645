"""Memories: arrays in the TrainState that outlive an iteration."""

from agentrl.memory import (
  annotations,
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
  'annotations',
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
