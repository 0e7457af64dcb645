"""Signals: what is learned or computed beside the policy."""

from agentrl.signal import critic, implicit_prm, reference  # noqa: F401
