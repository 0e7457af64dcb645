"""GAE over tokens, turns and both: targets, identities, boundaries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.types import Status
from tests import batches
from tests.advantage import estimators, little_story, unscored
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=8)


def _run(s, *names, change=lambda laid: laid):
  """Advantages, targets and weights of targets: arrays over tokens."""
  laid = change(batches.lay(s))
  bound = links('turn_reward', *names)

  @jax.jit
  def f(batch, signals):
    credit, _ = chain.advantage({'a': bound}, {}, [], batch, signals)
    return chain.token_advantage(credit, batch.rows), credit.target

  a, target = f(laid.batch, laid.signals)
  parts = (a, target['value'], target['value.weight'])
  return [batches.flat(batches.read(x, s, laid)) for x in parts]


def _close(got, want, atol=1e-9):
  np.testing.assert_allclose(got, want, rtol=0, atol=atol)


def test_golden_tokens():
  value = [[np.array([x]) for x in (0.5, 0.6, 0.7)]]
  s = little_story.make([[0.0, 0.0, 1.0]], value=value)
  _close(_run(s, 'gae_tokens')[0], [0.46575, 0.385, 0.3])


def test_golden_bilevel():
  value = [[np.array([0.3, 0.35, 0.4]), np.array([0.5, 0.55, 0.6])]]
  s = little_story.make([[0.2, 1.0]], size=[[3, 3]], value=value)
  a, target, weight = _run(s, 'gae_bilevel')
  _close(a, [0.85, 0.8, 0.75, 0.5, 0.45, 0.4])
  _close(target, [1.15] * 3 + [1.0] * 3)
  _close(weight, np.ones(6))
  a, *_ = _run(s, ('gae_bilevel', {'token_lam': 0.9}))
  _close(a, [0.7025, 0.725, 0.75, 0.419, 0.41, 0.4])


LAM = {'gamma': 0.9, 'lam': 0.8}
LOW = {'token_gamma': 0.97, 'token_lam': 0.7}
CASES = {
  'gae_tokens': (LAM, estimators.gae_tokens),
  'gae_turns': ({'lam': 0.8}, estimators.gae_turns),
  'gae_bilevel': (LAM | LOW, estimators.gae_bilevel),
}


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_targets(layout):
  """Between the rows there is padding, whose values are noise."""
  laid = batches.lay(STORY, layout, padding=3, seed=77)
  for name, (hp, reference) in CASES.items():
    want, goal = reference(STORY, **hp)
    a, target, weight = _run(STORY, (name, hp), change=lambda _: laid)
    _close(a, batches.flat(want))
    _close(target, batches.flat(goal))
    first = [[np.arange(n) == 0 for n in x] for x in STORY.size]
    first = batches.flat(first)
    _close(weight, first if name == 'gae_turns' else np.ones(len(first)))


def test_targets_are_those_before_whitening():
  plain = _run(STORY, 'gae_tokens')
  white = _run(STORY, 'gae_tokens', 'whiten_tokens')
  np.testing.assert_array_equal(white[1], plain[1])
  assert np.abs(white[0] - plain[0]).max() > 0.1


def test_a_truncated_trajectory_is_not_bootstrapped():
  def truncate(laid):
    status = np.full_like(laid.batch.status, int(Status.TURN_LIMIT))
    return laid._replace(batch=laid.batch.replace(status=status))

  got = _run(STORY, 'gae_tokens', change=truncate)
  np.testing.assert_array_equal(got, _run(STORY, 'gae_tokens'))


@pytest.mark.parametrize('name', ['gae_tokens', 'gae_turns', 'gae_bilevel'])
def test_a_failed_judge_teaches_nothing(name):
  """Neither credit nor a target, and the other trajectories as before."""

  def fail(laid):
    return laid._replace(batch=unscored.turns(laid.batch, (1, 0)))

  before, after = _run(STORY, name), _run(STORY, name, change=fail)
  where = estimators.spread(STORY, lambda i, k: float(i != 1))
  where = batches.flat(where)
  for x, y in zip(before, after, strict=True):
    _close(y, np.where(where > 0, x, 0))


def test_value_targets_are_not_differentiated():
  laid = batches.lay(STORY)
  bound = links('turn_reward', 'gae_tokens', 'whiten_tokens')

  def f(signals):
    credit, _ = chain.advantage({'a': bound}, {}, [], laid.batch, signals)
    return jnp.sum(credit.token) + jnp.sum(credit.target['value'])

  grads = jax.jit(jax.grad(f))(laid.signals)
  assert all(not g.any() for g in jax.tree.leaves(grads))
