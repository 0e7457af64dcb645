"""Maths in float64, where a module or a test asks for it."""

import jax
import pytest


@pytest.fixture
def float64():
  with jax.enable_x64(True):
    yield
