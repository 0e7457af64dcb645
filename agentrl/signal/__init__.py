"""Signals: what is learned or computed beside the policy."""

from agentrl.signal import (  # noqa: F401
  archer,
  blend,
  critic,
  implicit_prm,
  progress,
  reference,
)
