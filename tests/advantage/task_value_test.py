"""p (1 − p) of groups, and its bounded factor, against a loop."""

import jax
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.advantage.task_value import task_value
from tests import batches
from tests.advantage import unscored

pytestmark = pytest.mark.usefixtures('float64')

# Mixed in [0, 1] and beyond, all 1, all 0, and one alone; 7 was not scored.
TOTAL = [0.2, 1.5, 0.0, -1.0, *[1.0] * 3, 5.0, *[0.0] * 4, 0.4, 0.4, 0.4, 0.5]
GROUP = [*[0] * 4, *[1] * 4, *[2] * 4, *[3] * 4]
OFF = 7


def laid(layout):
  s = batches.story(seed=1, groups=4, members=4, turns=3)
  reward = [
    [0.25 * t] * (len(r) - 1) + [t - 0.25 * t * (len(r) - 1)]
    for t, r in zip([*TOTAL, 0.3], s.reward, strict=True)
  ]
  s = s._replace(reward=reward, group=[*GROUP, 4])
  made = batches.lay(s, layout, padding=1)
  return unscored.turns(made.batch, OFF), made.signals


def values():
  out = []
  for i, g in enumerate([*GROUP, 4]):
    members = [
      min(max(t, 0), 1)
      for j, (t, h) in enumerate(zip([*TOTAL, 0.3], [*GROUP, 4], strict=True))
      if h == g and j != OFF
    ]
    p = sum(members) / len(members)
    alike = max(members) == min(members)
    out.append(0.0 if alike or i == OFF else p * (1 - p))
  return np.array(out)


@pytest.mark.parametrize(
  ('layout', 'width'),
  [('history', 0.2), ('turn', 0.0), ('turn', 0.05), ('turn', 1.0)],
)
def test_value_and_its_bounded_factor(layout, width):
  batch, signals = laid(layout)
  want = values()
  assert (want > 0).sum() == 8
  stream = 'episode_return', 'center'
  link = 'scale_by_task_value', {'width': width}

  @jax.jit
  def run(batch, signals):
    plain, _ = chain.stream(batches.links(*stream), batch, signals)
    scaled = chain.stream(batches.links(*stream, link), batch, signals)
    return task_value(batch), plain, *scaled

  value, plain, got, told = run(batch, signals)
  np.testing.assert_allclose(value[: len(want)], want, atol=1e-12)
  mean = want[want > 0].mean()
  factor = np.where(want > 0, np.clip(want / mean, 1 - width, 1 + width), 1)
  if width == 0.05:
    assert {0.95, 1.05} <= set(factor.round(9))
  np.testing.assert_allclose(
    got.turn[: len(want)],
    np.asarray(plain.turn[: len(want)]) * factor[:, None],
    atol=1e-12,
  )
  total, count = told['factor']
  np.testing.assert_allclose(total, factor[want > 0].sum())
  assert count == 8


def test_without_value_nothing_changes():
  batch, signals = laid('turn')
  turns = batch.turns.replace(reward=np.ones_like(batch.turns.reward) * 9)
  links = batches.links('turn_reward', 'scale_by_task_value')
  got, told = batches.stream(links, batch.replace(turns=turns), signals)
  want, _ = batches.stream(links[:1], batch.replace(turns=turns), signals)
  np.testing.assert_array_equal(got.turn, want.turn)
  assert np.any(got.turn)
  assert told['factor'] == (0, 0)
