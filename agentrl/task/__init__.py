"""Tasks: what to attempt next."""

from agentrl.task import fixed, horizon  # noqa: F401  register their pieces
