"""Tasks: what to attempt next."""

from agentrl.task import (  # noqa: F401  register their components
  fixed,
  horizon,
  partial,
  pool,
  skills,
)
