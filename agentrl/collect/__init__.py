"""Collectors: when to sample again, and which samples to keep."""

from agentrl.collect import branch, dynamic, greedy, once, retry  # noqa: F401
