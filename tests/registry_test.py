"""Declarations of components, and that the core knows none by its name."""

import ast
import pathlib
import re
from typing import Annotated

import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.advantage
import agentrl.loss  # noqa: F401  registers
from agentrl import loop, registry
from agentrl.configs import base, envs, grpo
from agentrl.configs.config import declared
from agentrl.domain import Real
from agentrl.lab.papers.dose import (  # noqa: F401  register
  degraded_truth,
  prm_persistence,
)
from agentrl.lab.tabular import build
from agentrl.rollout import registered
from agentrl.run.check import validate
from agentrl.signal.base import Signal, nothing
from agentrl.types import SAMPLED, Outputs
from tests import batches, errors
from tests.reward import ragged


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
    (('turn_reward', 'to_tokens', 'center'), "'center' works on turns"),
    (
      ('turn_reward', 'optimal_token_baseline'),
      "'optimal_token_baseline' works on tokens",
    ),
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


ROOT = pathlib.Path(__file__).parent.parent / 'agentrl'
CORE = ('loop.py', 'hooks.py', 'evaluate.py', 'registry.py')
CORE += ('run', 'learner', 'lab/tabular')
# Names of components that are values of something else there.
OTHERWISE = {
  ('run/workdir.py', 'none'): 'of model.remat',
  ('run/check/compaction_checks.py', 'none'): 'of compaction.summary',
  ('run/play/host_env.py', 'none'): 'of compaction.summary',
}


def other_words():
  """Words of the field that some component is called like."""
  every = [
    registry.get(slot, x)
    for slot in registry.SLOTS
    for x in registry.names(slot)
  ]
  kinds = {y.partition(':')[0] for x in every for y in (*x.needs, *x.gives)}
  fields = {x for path in declared() for x in path.split('.')}
  terms = {*registered.TERMS, registry.OUTCOME, *envs.terms(grpo.get_config())}
  return kinds | fields | terms | set(Outputs.__dataclass_fields__)


def texts(tree):
  """(line, text) of what is no docstring."""
  docs = {
    id(x.body[0].value)
    for x in ast.walk(tree)
    if isinstance(x, ast.Module | ast.ClassDef | ast.FunctionDef)
    and x.body
    and isinstance(x.body[0], ast.Expr)
  }
  for x in ast.walk(tree):
    text = isinstance(x, ast.Constant) and isinstance(x.value, str)
    if text and id(x) not in docs:
      yield x.lineno, x.value


def named(source, names):
  """(line, name) of the components that a source names, in messages too."""
  for line, text in texts(ast.parse(source)):
    words = {text, *re.findall(r"['`](\w+)['`]", text)}
    yield from ((line, x) for x in sorted(words & names))


def by_price(x, *, of: str = 'tokens', price: float = 2.0):
  return price * x.turns.terms[of]


def test_a_function_of_a_module_is_a_component_with_its_own_defaults(
  registry_of_test,
):
  registry.register('reward', needs=('term:{of}',))(by_price)
  name = f'{__name__}:by_price'
  piece = registry.get('reward', name)
  assert (piece.name, piece.needs) == (name, ('term:tokens',))
  assert not piece.defaults
  case = ragged.make({'tokens': [[3.0]]}, [0.0]).inputs
  f = registry.bind('reward', name, {})
  np.testing.assert_array_equal(f(case), 2 * case.turns.terms['tokens'])
  with errors.raises(ValueError, 'price'):
    registry.bind('reward', name, {'price': 1.0})
  with errors.raises(ValueError, f'c.reward {__name__}:CORE'):
    registry.get('reward', f'{__name__}:CORE', 'c.reward')
  with errors.raises(ValueError, f'c.reward {__name__}:gone'):
    registry.get('reward', f'{__name__}:gone', 'c.reward')


def test_the_core_knows_no_component_by_its_name():
  names = {x for slot in registry.SLOTS for x in registry.names(slot)}
  names -= other_words()
  found = []
  for part in CORE:
    path = ROOT / part
    for file in sorted(path.rglob('*.py')) if path.is_dir() else [path]:
      own = str(file.relative_to(ROOT))
      found += [
        f'{own}:{line}: {x}'
        for line, x in named(file.read_text(encoding='utf-8'), names)
        if (own, x) not in OTHERWISE
      ]
  assert not found, 'let the component bring it along (registry.register)'


def test_a_name_is_found_in_code_and_in_messages():
  source = '"""of `ppo`"""\nx = "ppo"\ny = "set it to \'ppo\'"\nz = "ppo_x"\n'
  assert list(named(source, {'ppo'})) == [(2, 'ppo'), (3, 'ppo')]


def own_config():
  c = grpo.get_config('tiny')
  c.signal = ('own',)
  return base.finish(c)


def test_every_hyper_parameter_has_a_meaning():
  pieces = [
    registry.get(slot, name)
    for slot in registry.SLOTS
    for name in registry.names(slot)
  ]
  ours = [x for x in pieces if x.f.__module__.startswith('agentrl.')]
  lacks = [
    f'{x.slot} {x.name}: {name}'
    for x in ours
    for name, meaning in x.meanings.items()
    if not meaning
  ]
  assert not lacks
  assert sum(len(x.defaults) for x in ours) > 500


def test_a_docstring_says_more_than_a_type(registry_of_test):
  @registry.register('link')
  def mine(
    x,
    *,
    low: Annotated[float, Real(0), 'of the type'] = 0.0,
    high: Annotated[float, Real(0), 'of the type'] = 1.0,
    free=2,
  ):
    """Does nothing.

    Args:
      high: of the docstring,
        in two lines
    """

  assert registry.get('link', 'mine').meanings == {
    'low': 'of the type',
    'high': 'of the docstring, in two lines',
    'free': '',
  }


def test_a_component_of_a_user_asks_of_the_rest_of_the_config(registry_of_test):
  """It sees its hyper-parameters, and is asked once for all of its places."""
  asked = []

  def fits(spec, config):
    ((scope, hp),) = registry.settings_of(spec, 'signal', 'own')
    asked.append(scope)
    if config.rollout.group_size >= hp['members']:
      return ''
    return f'rollout.group_size must be {hp["members"]} or more'

  @registry.register('signal', check=fits)
  def own(context, *, members: int = 4):
    del context, members

  c = own_config()
  validate.config(c)
  assert asked == ['signal']
  c.hp.signal.own.members = 99
  with pytest.raises(ValueError, match='group_size must be 99 or more'):
    validate.config(c)


def test_a_component_of_a_user_measures_what_was_collected(registry_of_test):
  def measure(batch):
    return {'longest': (jnp.max(jnp.sum(batch.turns.valid, 1)), jnp.ones(()))}

  @registry.register('signal', metrics=measure)
  def own(context):
    del context

  measures = registry.metrics(base.wiring(own_config()))
  assert measures == (measure,)
  batch = batches.lay(batches.story(7)).batch
  terms = dict.fromkeys(
    ('tokens', 'entropy'), jnp.ones_like(batch.turns.reward)
  )
  batch = batch.replace(
    turns=batch.turns.replace(terms=terms),
    sampled={name: jnp.int32(1) for name in SAMPLED},
  )
  want = int(batch.turns.valid.sum(1).max())
  assert loop.observe_components(batch, measures)['rollout/longest'][0] == want
  assert 'rollout/longest' not in loop.observe(batch)


def test_a_component_of_a_user_has_a_table(registry_of_test):
  def own(context):
    del context
    return Signal('score_then_update', lambda *x: ({}, {}), nothing)

  registry.register('signal')(own)
  with pytest.raises(ValueError, match=r"has a table, .*'own'"):
    build.fits(own_config())
  registry.register('signal', tabular=True)(own)
  assert build.fits(own_config()).signal == ('own',)
