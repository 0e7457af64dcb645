"""Curating: which whole groups or trajectories are trained on."""

from agentrl.curate import prefix, select  # noqa: F401  register their pieces
