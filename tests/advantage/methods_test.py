"""Published methods as chains, against plain numpy and published numbers."""

import functools

import jax
import numpy as np
import pytest

import agentrl.advantage  # noqa: F401  registers the links
from agentrl.advantage import chain
from tests import batches
from tests.advantage import estimators
from tests.batches import links

TURN = {'unit': 'turn'}
STATE = {'unit': 'turn', 'by': ('group', 'state')}
TOKEN = {'unit': 'token'}
FIRST = {'unit': 'first_turn'}
STEP = ('step_return', ('center', STATE))
PRIME = {
  'outcome': (
    'episode_outcome',
    'leave_one_out',
    'at_last_turn',
    'at_last_token',
  ),
  'process': ('add_token_signal', 'scale_by_max', 'leave_one_out_tokens'),
}
EPISODE = ('episode_outcome', 'leave_one_out')
MERGED = (
  'episode_outcome',
  ('add_signal', {'coef': 0.5}),
  ('leave_one_out', TURN),
)
KL = ('kl_in_reward', {'coef': 0.3})
Z_STEP = ('add_signal', ('center', TURN), ('scale', TURN))
LOW = {'token_gamma': 0.97, 'token_lam': 0.9}

# name -> (streams, coefficients, finish, reference)
METHODS = {
  'grpo': (
    {'a': ('episode_return', 'center', 'scale')},
    {},
    (),
    estimators.grpo,
  ),
  'dr_grpo': ({'a': ('episode_return', 'center')}, {}, (), estimators.dr_grpo),
  'rloo': ({'a': ('episode_return', 'leave_one_out')}, {}, (), estimators.rloo),
  'reinforce_pp': (
    {
      'a': (
        'episode_outcome',
        'at_last_turn',
        'at_last_token',
        'return_to_go_tokens',
        'whiten_tokens',
      )
    },
    {},
    (),
    estimators.reinforce_pp,
  ),
  'reinforce_pp_kl': (
    {
      'a': (
        'episode_outcome',
        'at_last_turn',
        KL,
        ('return_to_go_tokens', {'gamma': 0.99}),
      )
    },
    {},
    ('whiten_tokens',),
    lambda s: estimators.reinforce_pp(s, 0.3, 0.99),
  ),
  'reinforce_pp_baseline': (
    {'a': ('episode_return', 'center', 'whiten')},
    {},
    (),
    estimators.reinforce_pp_baseline,
  ),
  'gigpo': (
    {
      'episode': ('episode_return', 'center', 'scale'),
      'step': (*STEP, ('scale', STATE)),
    },
    {'step': 1.5},
    (),
    lambda s: estimators.gigpo(s, omega=1.5),
  ),
  'gigpo_no_std': (
    {'episode': ('episode_return', 'center'), 'step': STEP},
    {},
    (),
    lambda s: estimators.gigpo(s, std=False),
  ),
  'prime': (
    PRIME,
    {'outcome': 5.0, 'process': 5.0},
    ('return_to_go_tokens', 'whiten_tokens'),
    estimators.prime,
  ),
  'oprl': (
    {'episode': ('episode_outcome', 'center', 'scale'), 'step': Z_STEP},
    {'step': 0.7},
    (),
    lambda s: estimators.oprl(s, alpha=0.7),
  ),
  'oprl_loo': (
    {'episode': EPISODE, 'step': ('add_signal', ('leave_one_out', TURN))},
    {},
    (),
    lambda s: estimators.oprl(s, estimators.loo),
  ),
  'oprl_first_turn': (
    {'episode': EPISODE, 'step': ('add_signal', ('leave_one_out', FIRST))},
    {},
    (),
    estimators.oprl_first_turn,
  ),
  'oprl_merged': ({'a': MERGED}, {}, (), estimators.oprl_merged),
  'oprl_process_only': (
    {'step': Z_STEP},
    {},
    (),
    lambda s: estimators.oprl(s, episode=False),
  ),
  'oprl_tokens': (
    {
      'episode': EPISODE,
      'step': ('add_token_signal', ('leave_one_out_tokens', TOKEN)),
    },
    {},
    (),
    estimators.oprl_tokens,
  ),
  'ppo_tokens': (
    {
      'a': (
        'turn_reward',
        KL,
        ('gae_tokens', {'gamma': 0.97, 'lam': 0.9}),
        'whiten_tokens',
      )
    },
    {},
    (),
    lambda s: estimators.white(estimators.gae_tokens(s, 0.97, 0.9, 0.3)[0]),
  ),
  'ppo_turns': (
    {'a': ('turn_reward', ('gae_turns', {'gamma': 0.9}), 'whiten')},
    {},
    (),
    lambda s: estimators.white(estimators.gae_turns(s, 0.9)[0]),
  ),
  'ppo_bilevel': (
    {'a': ('turn_reward', ('gae_bilevel', LOW), 'whiten_tokens')},
    {},
    (),
    lambda s: estimators.white(estimators.gae_bilevel(s, **LOW)[0]),
  ),
}

STORY = batches.story(seed=3)
VARIANTS = (
  'history',
  pytest.param('moved', marks=pytest.mark.nightly),
  pytest.param('packed', marks=pytest.mark.nightly),
  batches.EXPLICIT,
)


@pytest.fixture(autouse=True)
def _float64():
  with jax.enable_x64(True):
    yield


def _bound(streams, coef, post):
  return {k: links(*v) for k, v in streams.items()}, coef, links(*post)


def _all(batch, signals):
  out = {}
  for name, method in METHODS.items():
    credit, _ = chain.advantage(*_bound(*method[:3]), batch, signals)
    out[name] = chain.token_advantage(credit, batch.rows)
  return out


def _moved():
  order = np.random.default_rng(1).permutation
  return batches.lay(STORY, 'turn', padding=3, seed=9, order=order)


@functools.cache
def results(variant):
  """The story as it is laid, and what every method says of it."""
  if variant == 'explicit':
    laid = batches.lay(STORY, 'packed')
    args = laid.batch, laid.signals
    return laid, batches.on_a_mesh(_all, args, laid.batch.rows.tokens.shape)
  laid = _moved() if variant == 'moved' else batches.lay(STORY, variant)
  return laid, jax.jit(_all)(laid.batch, laid.signals)


@pytest.mark.parametrize('variant', VARIANTS)
@pytest.mark.parametrize('method', METHODS)
def test_is_the_equation(method, variant):
  laid, found = results(variant)
  x = batches.read(found[method], STORY, laid)
  want = METHODS[method][3](STORY)
  np.testing.assert_allclose(
    batches.flat(x), batches.flat(want), rtol=1e-9, atol=1e-12
  )
  assert np.all(np.asarray(found[method])[~laid.batch.rows.sampled] == 0)


def _simple(reward, *, step=None, group=None, size=1, prm=None, value=None):
  """A story with given turn rewards, `size` tokens a turn."""
  sizes = [[size] * len(r) for r in reward]
  blank = [[np.zeros(size) for _ in r] for r in reward]
  token = dict.fromkeys(batches.TOKEN_FIELDS, blank)
  token |= {'prm': prm or blank, 'value': value or blank}
  return batches.Story(
    group=group or [0] * len(reward),
    reward=reward,
    state=[[0] * len(r) for r in reward],
    step=step or reward,
    outcome=[float(sum(r)) for r in reward],
    size=sizes,
    answer=[[1] * len(r) for r in reward],
    token=token,
  )


def _run(s, streams, coef=None, post=()):
  laid = batches.lay(s)
  bound = _bound(streams, coef or {}, post)

  @jax.jit
  def f(batch, signals):
    credit, _ = chain.advantage(*bound, batch, signals)
    return chain.token_advantage(credit, batch.rows)

  return batches.read(f(laid.batch, laid.signals), s, laid)


def _check(got, want, atol=2e-6):
  got = batches.flat(got)
  np.testing.assert_allclose(got, want, rtol=0, atol=atol)


def test_golden_grpo():
  s = _simple([[1.0], [0.0], [0.0], [1.0]])
  got = _run(s, {'a': ('episode_return', 'center', 'scale')})
  _check(got, np.array([1, -1, -1, 1]) * 0.866024)
  got = _run(s, {'a': ('episode_return', 'center', ('scale', {'ddof': 0}))})
  _check(got, np.array([1, -1, -1, 1]) * 0.999998)


def test_golden_rloo():
  streams = {'a': ('episode_return', 'leave_one_out')}
  got = _run(_simple([[1.0], [0.0], [0.0], [1.0]]), streams)
  _check(got, np.array([1, -1, -1, 1]) * 2 / 3)
  _check(_run(_simple([[1.0], [0.0], [0.0]]), streams), [1, -0.5, -0.5])


def test_golden_gigpo_return():
  got = _run(_simple([[0.0, 0.0, 10.0]]), {'a': ('step_return',)})
  _check(got, [9.025, 9.5, 10])


STEPS = [[0.2, 0.4], [-0.1, 0.1, -0.6]]
WON = [[0.0, 1.0], [0.0, 0.0, 0.0]]


def test_golden_istar_z_norm():
  got = _run(
    _simple(WON, step=STEPS),
    {'e': ('episode_outcome', 'center', 'scale'), 's': Z_STEP},
  )
  # The published numbers leave out eps = 1e-6, which is 5e-6 here.
  _check(got, [1.23233, 1.757554, -0.969718, -0.444494, -2.282779], 1e-5)


def test_golden_istar_rloo():
  got = _run(
    _simple(WON, step=STEPS), {'s': ('add_signal', ('leave_one_out', TURN))}
  )
  _check(got, [0.25, 0.5, -0.125, 0.125, -0.75])


def test_golden_prime_batch_norm():
  prm = [[np.array([0.1, -0.3, 0.5])], [np.array([0.2, 0.2, 0.0])]]
  s = _simple([[0.0], [0.0]], size=3, prm=prm)
  got = _run(s, {'a': ('add_token_signal', 'scale_by_max')})
  _check(got, [0.2, -0.6, 1.0, 0.4, 0.4, 0])


def test_golden_istar_batch_norm():
  """Rows are turns, so that the largest step reward is 1."""
  got = _run(
    _simple(WON, step=STEPS),
    {'a': ('add_signal', ('scale_by_max', {'within': 'turn'}))},
  )
  _check(got, np.concatenate(STEPS) / 0.6)


def test_dr_grpo_is_rloo_times_n_minus_one_over_n():
  got = _run(STORY, {'a': ('episode_return', 'center')})
  rloo = _run(STORY, {'a': ('episode_return', 'leave_one_out')})
  n = np.array([4 if g < 3 else 1 for g in STORY.group])
  for i, (x, y) in enumerate(zip(got, rloo, strict=True)):
    factor = (n[i] - 1) / n[i]
    np.testing.assert_allclose(
      np.concatenate(x), factor * np.concatenate(y), rtol=1e-12
    )


def test_oprl_without_its_step_stream_is_its_base():
  episode = ('episode_outcome', 'center', 'scale')
  base = _run(STORY, {'episode': episode})
  got = _run(STORY, {'episode': episode, 'step': Z_STEP}, {'step': 0.0})
  np.testing.assert_array_equal(batches.flat(got), batches.flat(base))


def test_oprl_begins_as_its_base():
  """At the start the implicit PRM is the policy: its rewards are exactly 0."""
  episode = ('episode_outcome', 'center', 'scale')
  s = STORY._replace(step=[[0.0] * len(x) for x in STORY.step])
  got = _run(s, {'episode': episode, 'step': Z_STEP})
  base = _run(s, {'episode': episode})
  np.testing.assert_array_equal(batches.flat(got), batches.flat(base))
