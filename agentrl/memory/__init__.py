"""Memories: arrays in the TrainState that outlive an iteration."""

from agentrl.memory import replay, task_statistics

__all__ = ['replay', 'task_statistics']
