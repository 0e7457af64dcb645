"""Judges: what turns, trajectories and groups are worth, asked of a service."""

from agentrl.judge import (  # noqa: F401  register their pieces
  atoms,
  checklists,
  comparison,
  coverage,
  evidence,
  factored,
  formats,
  notes,
  overlap,
  scripted,
  tool_match,
  tool_ranking,
  verdicts,
)
