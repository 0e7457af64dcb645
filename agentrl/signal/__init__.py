"""Signals: what is learned or computed beside the policy."""

from agentrl.signal import (  # noqa: F401
  archer,
  critic,
  implicit_prm,
  progress,
  critic,
  implicit_prm,
  information,
  critic,
  entropy_history,
  implicit_prm,
  reference,
)
