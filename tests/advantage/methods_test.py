"""Published methods as chains, against plain numpy and published numbers."""

import functools

import numpy as np
import pytest

import agentrl.advantage  # noqa: F401  registers the links
from tests import batches
from tests.advantage import estimators, little_story, published
from tests.advantage.published import Method, single

pytestmark = pytest.mark.usefixtures('float64')

TURN = {'unit': 'turn'}
STATE = {'unit': 'turn', 'by': ('group', 'state')}
Z = ('center', 'scale')
GRPO = ('episode_return', *Z)
STEP = ('step_return', ('center', STATE))
EPISODE = ('episode_outcome', 'leave_one_out')
LAST = ('episode_outcome', 'at_last_turn')
KL = ('kl_in_reward', {'coef': 0.3})
Z_STEP = ('add_signal', ('center', TURN), ('scale', TURN))
LOW = {'token_gamma': 0.97, 'token_lam': 0.9}


def _oprl(want, *step, episode=EPISODE):
  return Method(want, {'episode': episode, 'step': step})


METHODS = {
  'grpo': single(estimators.grpo, *GRPO),
  'dr_grpo': single(estimators.dr_grpo, 'episode_return', 'center'),
  'rloo': single(estimators.rloo, 'episode_return', 'leave_one_out'),
  'reinforce_pp': single(
    estimators.reinforce_pp,
    *LAST,
    'at_last_token',
    'return_to_go_tokens',
    'whiten_tokens',
  ),
  'reinforce_pp_kl': single(
    lambda s: estimators.reinforce_pp(s, 0.3, 0.99),
    *LAST,
    KL,
    ('return_to_go_tokens', {'gamma': 0.99}),
    post=('whiten_tokens',),
  ),
  'reinforce_pp_baseline': single(
    estimators.reinforce_pp_baseline, 'episode_return', 'center', 'whiten'
  ),
  'gigpo': Method(
    lambda s: estimators.gigpo(s, omega=1.5),
    {'episode': GRPO, 'step': (*STEP, ('scale', STATE))},
    {'step': 1.5},
  ),
  'gigpo_no_std': Method(
    lambda s: estimators.gigpo(s, std=False),
    {'episode': ('episode_return', 'center'), 'step': STEP},
  ),
  'prime': Method(
    estimators.prime,
    {
      'outcome': (*EPISODE, 'at_last_turn', 'at_last_token'),
      'process': ('add_token_signal', 'scale_by_max', 'leave_one_out_tokens'),
    },
    {'outcome': 5.0, 'process': 5.0},
    ('return_to_go_tokens', 'whiten_tokens'),
  ),
  'oprl': Method(
    lambda s: estimators.oprl(s, alpha=0.7),
    {'episode': ('episode_outcome', *Z), 'step': Z_STEP},
    {'step': 0.7},
  ),
  'oprl_loo': _oprl(
    lambda s: estimators.oprl(s, estimators.loo),
    'add_signal',
    ('leave_one_out', TURN),
  ),
  'oprl_first_turn': _oprl(
    estimators.oprl_first_turn,
    'add_signal',
    ('leave_one_out', {'unit': 'first_turn'}),
  ),
  'oprl_merged': single(
    estimators.oprl_merged,
    'episode_outcome',
    ('add_signal', {'coef': 0.5}),
    ('leave_one_out', TURN),
  ),
  'oprl_process_only': single(
    lambda s: estimators.oprl(s, episode=False), *Z_STEP
  ),
  'oprl_tokens': _oprl(
    estimators.oprl_tokens,
    'add_token_signal',
    ('leave_one_out_tokens', {'unit': 'token'}),
  ),
  'ppo_tokens': single(
    lambda s: estimators.white(estimators.gae_tokens(s, 0.97, 0.9, 0.3)[0]),
    'turn_reward',
    KL,
    ('gae_tokens', {'gamma': 0.97, 'lam': 0.9}),
    'whiten_tokens',
  ),
  'ppo_turns': single(
    lambda s: estimators.white(estimators.gae_turns(s, 0.9)[0]),
    'turn_reward',
    ('gae_turns', {'gamma': 0.9}),
    'whiten',
  ),
  'ppo_bilevel': single(
    lambda s: estimators.white(estimators.gae_bilevel(s, **LOW)[0]),
    'turn_reward',
    ('gae_bilevel', LOW),
    'whiten_tokens',
  ),
}

STORY = batches.story(seed=3)
VARIANTS = (
  'history',
  pytest.param('moved', marks=pytest.mark.nightly),
  pytest.param('packed', marks=pytest.mark.nightly),
  batches.EXPLICIT,
)


def _moved():
  order = np.random.default_rng(1).permutation
  return batches.lay(STORY, 'turn', padding=3, seed=9, order=order)


@functools.cache
def results(variant):
  """The story as it is laid, and what every method says of it."""
  explicit = variant == 'explicit'
  laid = (
    _moved()
    if variant == 'moved'
    else batches.lay(STORY, 'packed' if explicit else variant)
  )
  return laid, published.run(METHODS, laid, explicit)


@pytest.mark.slow
@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize('method', METHODS)
def test_is_the_equation(method, variant):
  laid, found = results(variant)
  published.check(found[method][0], METHODS[method].want(STORY), STORY, laid)


def _golden(s, want, *names, episode=(), atol=2e-6):
  """The sum of two streams is what was published."""
  laid = batches.lay(s)
  method = Method(None, {'a': names, 'episode': episode})
  ((got, _),) = published.run({'x': method}, laid).values()
  got = batches.flat(batches.read(got, s, laid))
  np.testing.assert_allclose(got, want, rtol=0, atol=atol)


FOUR = little_story.make([[1.0], [0.0], [0.0], [1.0]])
STEPS = [[0.2, 0.4], [-0.1, 0.1, -0.6]]
ISTAR = little_story.make([[0.0, 1.0], [0.0, 0.0, 0.0]], step=STEPS)


def test_golden_grpo():
  want = np.array([1, -1, -1, 1])
  _golden(FOUR, want * 0.866024, *GRPO)
  ddof = ('scale', {'ddof': 0})
  _golden(FOUR, want * 0.999998, 'episode_return', 'center', ddof)


def test_golden_rloo():
  names = ('episode_return', 'leave_one_out')
  _golden(FOUR, np.array([1, -1, -1, 1]) * 2 / 3, *names)
  three = little_story.make([[1.0], [0.0], [0.0]])
  _golden(three, [1, -0.5, -0.5], *names)


def test_golden_gigpo_return():
  s = little_story.make([[0.0, 0.0, 10.0]])
  _golden(s, [9.025, 9.5, 10], 'step_return')


def test_golden_istar_z_norm():
  want = [1.23233, 1.757554, -0.969718, -0.444494, -2.282779]
  # The published numbers leave out eps = 1e-6, which is 5e-6 here.
  _golden(ISTAR, want, *Z_STEP, episode=('episode_outcome', *Z), atol=1e-5)


def test_golden_istar_rloo():
  want = [0.25, 0.5, -0.125, 0.125, -0.75]
  _golden(ISTAR, want, 'add_signal', ('leave_one_out', TURN))


def test_golden_prime_batch_norm():
  prm = [[np.array([0.1, -0.3, 0.5])], [np.array([0.2, 0.2, 0.0])]]
  s = little_story.make([[0.0], [0.0]], size=[[3], [3]], prm=prm)
  want = [0.2, -0.6, 1.0, 0.4, 0.4, 0]
  _golden(s, want, 'add_token_signal', 'scale_by_max')


def test_golden_istar_batch_norm():
  """Rows are turns, so that the largest step reward is 1."""
  names = 'add_signal', ('scale_by_max', {'within': 'turn'})
  _golden(ISTAR, np.concatenate(STEPS) / 0.6, *names)
