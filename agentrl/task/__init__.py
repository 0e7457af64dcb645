"""Tasks: what to attempt next."""

from agentrl.task import fixed  # noqa: F401  registers its pieces
