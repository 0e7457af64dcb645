"""What outlives an iteration: arrays in the TrainState."""

from agentrl.memory import replay

__all__ = ['replay']
