"""Memories: arrays in the TrainState that outlive an iteration."""

from agentrl.memory import replay

__all__ = ['replay']
