"""Curating: what is trained on, and what is compared with what."""

from agentrl.curate import pairs, prefix, select  # noqa: F401  register their pieces
