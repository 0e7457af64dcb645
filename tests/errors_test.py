"""A message names a word or does not; its sentence does not count."""

import pytest

from tests import errors


def fail(message):
  raise ValueError(message)


@pytest.mark.parametrize('names', ['', 'rollout.batch', "-1 'rollout.batch'"])
def test_named_in_any_order(names):
  with errors.raises(ValueError, names) as caught:
    fail('rollout.batch must be positive, got -1')
  assert caught.type is ValueError


@pytest.mark.parametrize('names', ['batch 1', 'rollout.bat', 'seed'])
def test_lacking(names):
  with pytest.raises(AssertionError), errors.raises(ValueError, names):
    fail('rollout.batch must be positive, got -10')


def test_another_error_passes_through():
  with pytest.raises(ValueError), errors.raises(KeyError, ''):
    fail('')
