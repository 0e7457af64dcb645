"""Judged and gated turns, states, milestones: chains against plain numpy."""

import functools

import jax
import numpy as np
import pytest

from agentrl.configs import base  # noqa: F401  registers every piece
from tests import batches
from tests.advantage import estimators, little_story, published, unscored
from tests.advantage import step_estimators as plain
from tests.advantage.published import Method, single

pytestmark = pytest.mark.usefixtures('float64')

JUDGE = {'name': 'judge'}
TURN = {'by': ('group', 'turn')}
AGENT = {'by': ('group', 'agent'), 'unit': 'turn'}
STATE = {'by': ('group', 'state'), 'unit': 'turn'}
LABEL = ('add_label', JUDGE | {'good': 0.2, 'bad': -0.2})
POPULATION = ('scale', {'ddof': 0})
OUTCOME = ('episode_return', 'center', POPULATION, 'at_last_turn')
VERIFIED = ('episode_outcome', 'at_last_turn', ('add_term', JUDGE))
LAM = {'gamma': 0.9, 'lam': 0.8}
HISTORY = {'depth': 2, 'alpha': 0.7, 'first': 2.0}


def _adca(want, *more):
  return Method(
    want,
    {'q': (LABEL, *more, 'center', POPULATION), 'o': OUTCOME},
    {'q': 0.1},
    ('return_to_go',),
  )


# Of the trajectory FAILED one judgement failed.
TRAJECTORY = {
  'cm2': single(
    lambda s: plain.cm2(s, 3),
    ('add_term', JUDGE),
    ('require_members', TURN | {'least': 3}),
    ('center', TURN),
  ),
  'ppr': single(
    lambda s: plain.ppr(s, **LAM),
    ('add_label', JUDGE),
    'episode_outcome',
    'add_constant',
    ('gae_tokens', LAM),
  ),
  'adca': _adca(lambda s: plain.adca(s, plain.labels)),
  'adca_allocation': _adca(
    lambda s: plain.adca(s, plain.shares), 'share_outcome'
  ),
  'mira': single(
    lambda s: plain.mira(s, 0.5, **LAM),
    ('add_term', JUDGE | {'coef': 0.5}),
    ('new_best', {'gamma': 0.9}),
    'turn_reward',
    ('gae_turns', LAM),
  ),
}
# All of its turns failed.
CELLS = {
  'dr_mas': single(
    lambda s: plain.dr_mas(s, _agent),
    'episode_return',
    ('center', AGENT),
    ('scale', AGENT),
  ),
  'hgpo': single(
    lambda s: plain.hgpo(s, **HISTORY),
    'step_return',
    ('scale_history', HISTORY),
  ),
  'infopo': Method(
    lambda s: plain.infopo(s, 0.3, 0.5),
    {
      'e': ('episode_return', 'center', 'scale'),
      'i': (
        'add_signal',
        'standardize_followed',
        ('gate_by_spread', {'temperature': 0.5}),
      ),
    },
    {'i': 0.3},
  ),
  'hgpo_mean': single(
    lambda s: plain.hgpo(s, 1, 1.0, 1.0, std=False),
    'step_return',
    ('center_history', {'depth': 1}),
  ),
  'vpr': single(
    lambda s: plain.vpr(s)[0],
    *VERIFIED,
    ('drop_flat', STATE),
    ('center', STATE),
    post=(('whiten_tokens', {'unit': 'turn', 'ddof': 0}),),
  ),
  'vpr_turn': single(  # second turns: just 10
    lambda s: plain.vpr_turn(s, 10),
    *VERIFIED,
    ('standardize', {'least': 10}),
  ),
}
METHODS = TRAJECTORY | CELLS
VARIANTS = ('moved', batches.EXPLICIT)


def _agent(i, k):
  return (i + k) % 2


STORY = little_story.equal_steps()


def _lay(name):
  if name == 'moved':
    order = np.random.default_rng(1).permutation
    laid = batches.lay(STORY, 'turn', padding=3, seed=9, order=order)
  else:
    laid = batches.lay(STORY, 'packed')
  b, k = laid.batch.turns.valid.shape
  agent = np.fromfunction(_agent, (b, k), dtype=np.int32)
  turns = laid.batch.turns.replace(agent=agent)
  return laid._replace(batch=laid.batch.replace(turns=turns))


@jax.jit
def _all(one, whole, signals):
  found = published.credits(TRAJECTORY, one, signals)
  return found | published.credits(CELLS, whole, signals)


@functools.cache
def results(variant):
  laid = _lay(variant)
  one = unscored.turns(laid.batch, (plain.FAILED, 0))
  args = one, unscored.turns(laid.batch, plain.FAILED), laid.signals
  if variant == 'explicit':
    return laid, batches.on_a_mesh(_all, args, laid.batch.rows.tokens.shape)
  return laid, jax.device_get(_all(*args))


@pytest.mark.slow
@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize('method', METHODS)
def test_is_the_equation(method, variant):
  laid, found = results(variant)
  want = METHODS[method].want(STORY)
  assert np.any(batches.flat(want) != 0)
  published.check(found[method][0], want, STORY, laid)


@pytest.mark.parametrize('variant', VARIANTS)
def test_vpr_takes_flat_and_lone_states_out_of_the_loss(variant):
  laid, found = results(variant)
  kept = plain.vpr(STORY)[1]
  want = estimators.spread(STORY, lambda i, k: float((i, k) in kept))
  assert 0 < len(kept) < sum(map(len, STORY.size))
  got = batches.read(found['vpr'][1], STORY, laid)
  np.testing.assert_array_equal(batches.flat(got), batches.flat(want))


def test_golden_renorm():
  got = little_story.turn_credit(
    [[0.2, 0.9], [0.2, 0.9]],
    [[0.0, 1.0], [0.0, 0.0]],
    ('add_term', JUDGE),
    'episode_outcome',
    'add_constant',
  )
  np.testing.assert_allclose(got, [[0.2, 0.9], [-0.8, -0.1]], rtol=1e-12)
