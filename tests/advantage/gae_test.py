"""GAE over tokens, turns and both: targets, identities, boundaries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.types import Status
from tests import batches
from tests.advantage import estimators
from tests.batches import links

STORY = batches.story(seed=8)


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def _story(reward, value, turns):
  """One trajectory whose turns hold `turns` sampled tokens each."""
  cut = np.split(np.array(value), np.cumsum(turns)[:-1])
  zero = [[np.zeros(n) for n in turns]]
  token = dict.fromkeys(batches.TOKEN_FIELDS, zero) | {'value': [cut]}
  return batches.Story(
    group=[0],
    reward=[reward],
    state=[[0] * len(turns)],
    step=[reward],
    outcome=[sum(reward)],
    size=[turns],
    answer=[[2] * len(turns)],
    token=token,
  )


def _run(s, *names, layout='history', change=lambda laid: laid):
  """Advantages, targets and weights of targets: arrays over tokens."""
  laid = change(batches.lay(s, layout))
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
  s = _story([0.0, 0.0, 1.0], [0.5, 0.6, 0.7], [1, 1, 1])
  _close(_run(s, 'gae_tokens')[0], [0.46575, 0.385, 0.3])


def test_golden_tokens_of_one_turn():
  s = _story([1.0], [0.5, 0.6, 0.7], [3])
  _close(_run(s, 'gae_tokens')[0], [0.46575, 0.385, 0.3])


BILEVEL = _story([0.2, 1.0], [0.3, 0.35, 0.4, 0.5, 0.55, 0.6], [3, 3])


def test_golden_bilevel():
  a, target, weight = _run(BILEVEL, 'gae_bilevel')
  _close(a, [0.85, 0.8, 0.75, 0.5, 0.45, 0.4])
  _close(target, [1.15] * 3 + [1.0] * 3)
  _close(weight, np.ones(6))
  a, *_ = _run(BILEVEL, ('gae_bilevel', {'token_lam': 0.9}))
  _close(a, [0.7025, 0.725, 0.75, 0.419, 0.41, 0.4])


def test_a_turn_without_reward_is_a_boundary():
  s = _story([0.0, 1.0], [0.3, 0.35, 0.4, 0.5, 0.55, 0.6], [3, 3])
  a, target, _ = _run(s, 'gae_bilevel')
  high = 0.95 * 0.6 - 0.4 + 0.95 * 0.4
  _close(target, [high + 0.4] * 3 + [1.0] * 3)
  _close(a, target - np.concatenate(s.token['value'][0]))


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_targets(layout):
  cases = {
    'gae_tokens': estimators.gae_tokens(STORY),
    'gae_turns': estimators.gae_turns(STORY),
    'gae_bilevel': estimators.gae_bilevel(STORY),
  }
  for name, (want, goal) in cases.items():
    a, target, weight = _run(STORY, name, layout=layout)
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


def test_bilevel_of_one_turn_is_token_gae():
  s = batches.story(seed=2, turns=1)
  hp = {'gamma': 0.7, 'lam': 0.3, 'token_gamma': 0.97, 'token_lam': 0.8}
  bilevel = _run(s, ('gae_bilevel', hp))
  tokens = _run(s, ('gae_tokens', {'gamma': 0.97, 'lam': 0.8}))
  for x, y in zip(bilevel, tokens, strict=True):
    _close(x, y)


def test_turns_of_one_token_are_tokens():
  s = batches.story(seed=2, longest=1)
  hp = {'gamma': 0.97, 'lam': 0.8}
  turns, tokens = _run(s, ('gae_turns', hp)), _run(s, ('gae_tokens', hp))
  for x, y in zip(turns, tokens, strict=True):
    _close(x, y)


def test_lambda_one_is_the_return_less_the_value():
  a, target, _ = _run(STORY, ('gae_tokens', {'lam': 1.0}))
  value = batches.flat(STORY.token['value'])
  back = [estimators.to_go(np.array(r)) for r in STORY.reward]
  want = estimators.spread(STORY, lambda i, k: back[i][k])
  _close(target, batches.flat(want))
  _close(a, batches.flat(want) - value)


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
    scored = laid.batch.turns.scored.copy()
    scored[1, 0] = False
    turns = laid.batch.turns.replace(scored=scored)
    return laid._replace(batch=laid.batch.replace(turns=turns))

  before, after = _run(STORY, name), _run(STORY, name, change=fail)
  where = estimators.spread(STORY, lambda i, k: float(i != 1))
  where = batches.flat(where)
  for x, y in zip(before, after, strict=True):
    _close(y, np.where(where > 0, x, 0))


def test_turns_that_did_not_happen_and_noise_do_not_matter():
  """Between the rows there is padding, whose values are noise."""
  one = _run(STORY, 'gae_tokens')
  order = np.random.default_rng(4).permutation
  laid = batches.lay(STORY, 'turn', padding=3, seed=77, order=order)
  two = _run(STORY, 'gae_tokens', change=lambda _: laid)
  for x, y in zip(one, two, strict=True):
    _close(x, y)


def test_value_targets_are_not_differentiated():
  laid = batches.lay(STORY)
  bound = links('turn_reward', 'gae_tokens', 'whiten_tokens')

  def f(signals):
    credit, _ = chain.advantage({'a': bound}, {}, [], laid.batch, signals)
    return jnp.sum(credit.token) + jnp.sum(credit.target['value'])

  grads = jax.jit(jax.grad(f))(laid.signals)
  assert all(not g.any() for g in jax.tree.leaves(grads))
