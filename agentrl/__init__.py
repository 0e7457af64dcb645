"""Reinforcement learning of language-model agents, in JAX."""

import os

# transformers advises on PyTorch at import, which this library never uses.
os.environ.setdefault('TRANSFORMERS_NO_ADVISORY_WARNINGS', '1')
