"""Judged and gated turns, states, milestones: chains against plain numpy."""

import functools

import jax
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.configs import base  # noqa: F401  registers every piece
from tests import batches
from tests.advantage import estimators, little_story
from tests.advantage import step_estimators as plain
from tests.batches import links

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


def _adca(*links):
  return (
    {'q': (LABEL, *links, 'center', POPULATION), 'o': OUTCOME},
    {'q': 0.1},
    ('return_to_go',),
  )


# name -> (streams, coefficients, finish, reference)
# Of the trajectory FAILED one judgement failed.
TRAJECTORY = {
  'cm2': (
    {
      'a': (
        ('add_term', JUDGE),
        ('require_members', TURN | {'least': 3}),
        ('center', TURN),
      )
    },
    {},
    (),
    lambda s: plain.cm2(s, 3),
  ),
  'ppr': (
    {
      'a': (
        ('add_label', JUDGE),
        'episode_outcome',
        'add_constant',
        ('gae_tokens', LAM),
      )
    },
    {},
    (),
    lambda s: plain.ppr(s, **LAM),
  ),
  'adca': (*_adca(), lambda s: plain.adca(s, plain.labels)),
  'adca_allocation': (
    *_adca('share_outcome'),
    lambda s: plain.adca(s, plain.shares),
  ),
  'mira': (
    {
      'a': (
        ('add_term', JUDGE | {'coef': 0.5}),
        ('new_best', {'gamma': 0.9}),
        'turn_reward',
        ('gae_turns', LAM),
      )
    },
    {},
    (),
    lambda s: plain.mira(s, 0.5, **LAM),
  ),
}
# All of its turns failed.
CELLS = {
  'dr_mas': (
    {'a': ('episode_return', ('center', AGENT), ('scale', AGENT))},
    {},
    (),
    lambda s: plain.dr_mas(s, _agent),
  ),
  'hgpo': (
    {'a': ('step_return', ('scale_history', HISTORY))},
    {},
    (),
    lambda s: plain.hgpo(s, **HISTORY),
  ),
  'infopo': (
    {
      'e': ('episode_return', 'center', 'scale'),
      'i': (
        'add_signal',
        'standardize_followed',
        ('gate_by_spread', {'temperature': 0.5}),
      ),
    },
    {'i': 0.3},
    (),
    lambda s: plain.infopo(s, 0.3, 0.5),
  ),
  'hgpo_mean': (
    {'a': ('step_return', ('center_history', {'depth': 1}))},
    {},
    (),
    lambda s: plain.hgpo(s, 1, 1.0, 1.0, std=False),
  ),
  'vpr': (
    {'a': (*VERIFIED, ('drop_flat', STATE), ('center', STATE))},
    {},
    (('whiten_tokens', {'unit': 'turn', 'ddof': 0}),),
    lambda s: plain.vpr(s)[0],
  ),
  'vpr_turn': (
    {'a': (*VERIFIED, ('standardize', {'least': 10}))},
    {},
    (),
    lambda s: plain.vpr_turn(s, 10),
  ),  # second turns: just 10
}
METHODS = TRAJECTORY | CELLS
VARIANTS = ('moved', batches.EXPLICIT)


def _agent(i, k):
  return (i + k) % 2


STORY = little_story.equal_steps()


@pytest.fixture(scope='module', autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


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


def _failed(batch, turns):
  scored = np.asarray(batch.turns.scored).copy()
  scored[plain.FAILED, turns] = False
  return batch.replace(turns=batch.turns.replace(scored=scored))


def _credit(method, batch, signals):
  streams, coef, finish, _ = method
  bound = {k: links(*v) for k, v in streams.items()}
  return chain.advantage(bound, coef, links(*finish), batch, signals)[0]


@jax.jit
def _all(one, whole, signals):
  out = {}
  for name, method in METHODS.items():
    batch = one if name in TRAJECTORY else whole
    credit = _credit(method, batch, signals)
    out[name] = chain.token_advantage(credit, batch.rows), credit.weight
  return out


@functools.cache
def results(variant):
  laid = _lay(variant)
  args = _failed(laid.batch, 0), _failed(laid.batch, slice(None))
  args = (*args, laid.signals)
  if variant == 'explicit':
    return laid, batches.on_a_mesh(_all, args, laid.batch.rows.tokens.shape)
  return laid, jax.device_get(_all(*args))


@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize('method', METHODS)
def test_is_the_equation(method, variant):
  laid, found = results(variant)
  x = batches.read(found[method][0], STORY, laid)
  want = batches.flat(METHODS[method][3](STORY))
  assert np.any(want != 0)
  np.testing.assert_allclose(batches.flat(x), want, rtol=1e-9, atol=1e-12)


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


def test_one_agent_makes_dr_mas_the_group():
  steps = [[1.0, 0.0], [0.5], [0.0, 0.0, 0.0]]
  link = {'by': ('group',), 'unit': 'turn'}
  one = little_story.turn_credit(
    steps, steps, 'episode_return', ('center', AGENT)
  )
  want = little_story.turn_credit(
    steps, steps, 'episode_return', ('center', link)
  )
  np.testing.assert_array_equal(np.concatenate(one), np.concatenate(want))
