"""What is told of a batch that was collected."""

import counting_cases as cases
import jax.numpy as jnp
import numpy as np
from counting_cases import B, off

from agentrl import loop


def _told(kind, **changes):
  case = cases.make(kind)
  sampled = {'attempts': 40, 'tokens': 999, 'env_steps': 123}
  sampled = {name: jnp.int32(x) for name, x in sampled.items()}
  told = loop.observe(case.batch.replace(sampled=sampled, **changes))
  return case.batch, {k: (float(x), float(w)) for k, (x, w) in told.items()}


def test_means_are_over_what_counts_and_the_rest_stands_beside():
  batch, got = _told('left_out')
  _, want = _told('without')
  assert got == want
  assert got.pop('rollout/unscored') == (len(cases.OFF), 1)
  solved = np.asarray(batch.outcome)[~off] > 0.5
  assert got['rollout/success'] == (solved.sum(), B - len(cases.OFF))
  turns = np.asarray(batch.turns.valid)[~off].sum()
  assert got['rollout/turns'] == (turns, B - len(cases.OFF))
  assert got['rollout/progress'][1] == got['rollout/invalid'][1] == turns
  assert max(abs(x) for x, _ in got.values()) < 1000


def test_a_budget_is_what_was_sampled_and_not_what_is_left():
  _, got = _told('left_out')
  for name, x in (('attempts', 40), ('tokens', 999), ('env_steps', 123)):
    assert got[f'rollout/{name}'] == (x, 1)
