"""Curating: which whole groups or trajectories are trained on."""

from agentrl.curate import select  # noqa: F401  registers its pieces
