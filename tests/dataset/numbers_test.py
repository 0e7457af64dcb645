"""Numbers of files: right kind, right range, or the first that is not."""

import math

import numpy as np
import pytest

from agentrl.dataset import numbers
from tests import errors

LARGE = 3.5e38  # not in float32


@pytest.mark.parametrize(
  'x', [math.nan, math.inf, LARGE, 10**400, True, '1', None, [1.0], {}]
)
def test_what_is_no_finite_number_is_named(x):
  with errors.raises(ValueError, 'reward'):
    numbers.number('reward', x)
  for read in (numbers.reals, numbers.log_probs):
    with errors.raises(ValueError, 'reward 1'):
      read('reward', [-1.0, x])


@pytest.mark.parametrize('x', [-1, 7, 1.0, 1.7, True, '1', None, 2**70])
def test_what_is_no_token_is_named(x):
  with errors.raises(ValueError, 'ids 2'):
    numbers.token_ids('ids', [0, 6, x], 7)


@pytest.mark.parametrize('x', [5, 1.5, True, 'ab', {'a': 1}, None])
def test_what_is_no_list_is_named(x):
  for read in (numbers.token_ids, numbers.reals, numbers.log_probs):
    with errors.raises(ValueError, 'xs'):
      read('xs', x)


def test_arrays_are_checked_too():
  for x in (np.array([0.5]), np.array([-1]), np.array([True]), np.eye(2)):
    with errors.raises(ValueError, 'ids 0'):
      numbers.token_ids('ids', x)
  with errors.raises(ValueError, 'w 1'):
    numbers.reals('w', np.array([0.0, np.nan]), low=0.0)


def test_good_numbers_are_kept():
  assert numbers.token_ids('ids', [], 7).dtype == np.int32
  assert numbers.token_ids('ids', (0, 6), 7).tolist() == [0, 6]
  assert numbers.reals('w', [0, 0.5], low=0.0).tolist() == [0, 0.5]
  logp = numbers.log_probs('logp', [-1, -0.5, 1e-7])
  assert logp.dtype == np.float32
  assert numbers.log_probs('logp', [-math.inf], finite=False)[0] == -math.inf
  assert numbers.logged('x', '-inf') == -math.inf
  assert math.isnan(numbers.logged('x', 'nan'))
  with errors.raises(ValueError, 'logp 0 0.5'):
    numbers.log_probs('logp', [0.5])
