"""Recall: which texts of a memory attempts read before they begin."""

from agentrl.recall import bandit, base, observed, retrieval  # noqa: F401  registers its pieces
