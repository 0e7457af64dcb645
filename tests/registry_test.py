"""Names, defaults and declarations of the pieces of credit and loss."""

import pytest

import agentrl.advantage
import agentrl.loss  # noqa: F401  registers
from agentrl import registry
from agentrl.configs import base, grpo
from tests import errors

CELL = {'by': ('group',), 'unit': 'trajectory', 'singleton': 'zero'}
WHITE = {'by': (), 'unit': 'token', 'ddof': 1, 'singleton': 'zero'}
LINKS = {
  'turn_reward': {},
  'episode_return': {'gamma': 1.0},
  'episode_outcome': {},
  'step_return': {'gamma': 0.95},
  'return_to_go': {'gamma': 1.0},
  'return_to_go_tokens': {'gamma': 1.0},
  'at_last_turn': {},
  'at_last_token': {},
  'to_tokens': {},
  'add_signal': {'name': 'implicit_prm.step', 'coef': 1.0},
  'add_token_signal': {'name': 'implicit_prm.token', 'coef': 1.0},
  'kl_in_reward': {'coef': 1e-3},
  'scale_by_max': {'within': 'trajectory', 'eps': 1e-6},
  'center': CELL,
  'scale': CELL | {'ddof': 1, 'eps': 1e-6},
  'leave_one_out': CELL,
  'whiten': WHITE,
  'center_tokens': CELL,
  'leave_one_out_tokens': CELL,
  'whiten_tokens': WHITE,
  'gae_tokens': {'gamma': 1.0, 'lam': 0.95},
  'gae_turns': {'gamma': 1.0, 'lam': 0.95},
  'gae_bilevel': {
    'gamma': 0.95,
    'lam': 1.0,
    'token_gamma': 1.0,
    'token_lam': 1.0,
  },
}
LOSSES = {
  'ppo': {'clip_low': 0.2, 'clip_high': 0.2},
  'ppo_dual': {'clip_low': 0.2, 'clip_high': 0.2, 'dual': 3.0},
  'reinforce': {},
  'kl_k1': {},
  'kl_k2': {},
  'kl_k3': {},
  'entropy': {},
  'nll': {},
  'value': {'head': 0},
  'value_clipped': {'head': 0, 'clip': 0.2},
}
REDUCERS = {
  'token_mean': {},
  'trajectory_mean': {},
  'trajectory_turn_mean': {},
  'fixed': {'length': 1024},
}
PIECES = [
  (slot, name, hp)
  for slot, pieces in (
    ('link', LINKS),
    ('loss', LOSSES),
    ('loss_aggregation', REDUCERS),
  )
  for name, hp in pieces.items()
]


@pytest.mark.parametrize(('slot', 'name', 'hp'), PIECES)
def test_piece(slot, name, hp):
  piece = registry.get(slot, name)
  assert piece.defaults == hp
  assert piece.f.__doc__


@pytest.mark.parametrize('column', ['agent', 'arm', 'domain'])
def test_a_column_that_nobody_fills_is_refused(column):
  """Grouping by it would do nothing, and say nothing."""
  c = grpo.get_config()
  base.hp(c, 'episode', 'center', by=('group', column))
  with errors.raises(ValueError, f'column:{column} group node'):
    registry.check(base.wiring(c))


@pytest.mark.parametrize(
  ('terms', 'why'),
  [
    (('tokens', 'outcome'), ''),
    (('tokens', 'seconds'), 'term:seconds'),
    (('tokens',), 'prices 0.1 0.2 terms tokens'),
  ],
)
def test_terms_come_from_hyper_parameters(terms, why):
  """Each name of the tuple is a need; the task's own score is always there."""
  c = grpo.get_config()
  c.reward = ('env', 'priced')
  base.hp(c, 'reward', 'priced', terms=terms, prices=(0.1, 0.2))
  w = base.wiring(c)
  if not why:
    registry.check(w)
    assert registry.needs(w, 'reward', 'reward', 'priced') == ('term:tokens',)
    return
  with errors.raises(ValueError, why) as error:
    registry.check(w)
  assert '\n' not in str(error.value)


def test_one_term_comes_from_a_hyper_parameter():
  c = grpo.get_config()
  c.reward = ('calibration',)
  with errors.raises(ValueError, 'c.reward term:confidence'):
    registry.check(base.wiring(c))
  base.hp(c, 'reward', 'calibration', confidence='invalid')
  registry.check(base.wiring(c))


def test_columns_come_from_by():
  for name in ('center', 'scale', 'leave_one_out', 'whiten', 'whiten_tokens'):
    assert registry.get('link', name).needs == ('*by',)


def test_signals_are_declared():
  needs = {name: registry.get('link', name).needs for name in LINKS}
  assert needs['add_signal'] == ('signal:{name}',)
  assert set(needs['kl_in_reward']) == {'signal:old_logp', 'signal:ref_logp'}
  for name in ('gae_tokens', 'gae_turns', 'gae_bilevel'):
    assert needs[name] == ('signal:value',)
    assert registry.get('link', name).gives == ('target:value',)
  assert 'target:value' in registry.get('loss', 'value').needs
  assert set(registry.get('loss', 'ppo').needs) == {
    'output:logp',
    'signal:old_logp',
  }


def test_levels():
  """A link on turns cannot follow one that left tokens behind."""
  turn = ('center', 'gae_turns', 'return_to_go', 'turn_reward', 'whiten')
  token = ('center_tokens', 'gae_tokens', 'to_tokens', 'whiten_tokens')
  assert {registry.get('link', n).takes for n in turn} == {'turn'}
  assert {registry.get('link', n).leaves for n in turn} == {'turn'}
  assert {registry.get('link', n).takes for n in token} == {'any'}
  assert {registry.get('link', n).leaves for n in token} == {'token'}


@pytest.mark.parametrize(
  ('chain', 'why'),
  [
    (('turn_reward', 'to_tokens', 'center'), "'center' works on turns but"),
    (('turn_reward', 'optimal_token_baseline'), 'works on tokens but the'),
    (('turn_reward', 'to_tokens', 'whiten_tokens'), ''),
    (('turn_reward', 'positive_only', 'center'), ''),
  ],
)
def test_links_stand_where_their_level_is(chain, why):
  """A link on turns before what moves credit to tokens, one on tokens after."""
  signals = ('signal:old_logp', 'signal:old_sum_sq_prob', 'column:group')
  w = registry.MethodSpec(
    advantage=('a',),
    stream={'a': chain},
    loss=('reinforce',),
    minibatch='none',
    gives=(*signals, 'output:logp', 'term:env'),
  )
  if not why:
    registry.check(w)
    return
  with errors.raises(ValueError, f'c.stream.a {why}'):
    registry.check(w)


def test_mistakes_are_named():
  with errors.raises(ValueError, 'c.stream.a link centre'):
    registry.bind('link', 'centre', {}, 'c.stream.a')
  with errors.raises(ValueError, 'clip loss'):
    registry.bind('loss', 'ppo', {'clip': 0.1})
