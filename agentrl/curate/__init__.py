"""Curating: what is trained on, and what is compared with what."""

from agentrl.curate import (  # noqa: F401  register their pieces
  pairs,
  prefix,
  proposals,
  select,
)
