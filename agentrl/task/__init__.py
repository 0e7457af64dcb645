"""Tasks: what to attempt next."""

from agentrl.task import fixed, horizon, pool  # noqa: F401  register their pieces
