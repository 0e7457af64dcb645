"""Numbers that change over a run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer, registry, schedule
from agentrl.learner import update
from agentrl.schedule import Schedule
from agentrl.signal.base import Context
from tests import errors


@pytest.mark.parametrize(
  ('shape', 'at_quarter'),
  [('linear', 1.0 + 2.0 / 4), ('cosine', 1.0 + 1 - np.sqrt(0.5))],
)
def test_shapes(shape, at_quarter):
  s = Schedule(shape, 1.0, 3.0, 8)
  assert s.at(0) == pytest.approx(1.0)
  assert s.at(2) == pytest.approx(at_quarter, rel=1e-6)
  assert s.at(4) == pytest.approx(2.0)
  assert s.at(8) == pytest.approx(3.0)
  assert s.at(100) == pytest.approx(3.0)


@pytest.mark.parametrize('shape', ['linear', 'cosine', 'constant'])
def test_begins_at_its_start_to_the_last_bit(shape):
  """Also where start - end rounds."""
  for start, end in [(1e-4, 1e-5), (1e-3, 1e-4), (3e-4, 0.0)]:
    assert Schedule(shape, start, end, 20).at(0) == np.float32(start)


def test_constant_keeps_its_start():
  s = Schedule('constant', 0.5, 9.0, 4)
  assert [float(s.at(i)) for i in (0, 2, 9)] == [0.5, 0.5, 0.5]


def test_no_steps_is_the_end_after_the_first():
  s = Schedule('linear', 1.0, 3.0, 0)
  assert [float(s.at(i)) for i in (0, 1, 2)] == [1.0, 3.0, 3.0]


def test_the_step_may_be_traced():
  s = Schedule('cosine', 1.0, 3.0, 8)
  traced = jax.jit(s.at)(jnp.int32(3))
  np.testing.assert_allclose(traced, s.at(3), rtol=1e-6)


def test_an_unknown_shape_is_named():
  with errors.raises(ValueError, 'cubic'):
    Schedule('cubic', 0.0, 1.0, 4).at(0)


def learner(**schedules):
  wiring = registry.MethodSpec(
    advantage=('step',),
    stream={'step': ('add_signal',)},
    loss=('ppo',),
    hp={'step': {'add_signal': {'coef': 1.0, 'name': 'x'}}},
  )
  return update.Algorithm.from_spec(
    wiring,
    Context({}, {'policy': optimizer.OptimizerConfig()}, 1),
    coef={'step': 2.0, 'ppo': 1.0},
    schedules={k.replace('__', '.'): v for k, v in schedules.items()},
  )


def test_resolve_puts_each_number_where_it_is_read():
  made = learner(
    coef__step=Schedule('linear', 2.0, 0.0, 4),
    hp__step__add_signal__coef=Schedule('linear', 0.0, 1.0, 4),
    hp__minibatch__minibatches__n=Schedule('constant', 1.0, 1.0, 1),
    role__policy__lr=Schedule('linear', 1.0, 3.0, 4),
  )
  now = schedule.resolve(made, jnp.int32(1))
  assert float(now.coef['step']) == 1.5
  assert now.coef['ppo'] == 1.0
  assert float(now.context.rules['policy'].lr) == 1.5
  assert float(now.spec.hp['step']['add_signal']['coef']) == 0.25
  assert now.spec.hp['step']['add_signal']['name'] == 'x'
  assert float(now.spec.hp['minibatch']['minibatches']['n']) == 1.0
  # The learner itself is as it was.
  assert made.coef == {'step': 2.0, 'ppo': 1.0}
  assert made.spec.hp['step']['add_signal']['coef'] == 1.0


def test_a_tuple_is_a_schedule():
  made = learner(coef__step=('linear', 2.0, 0.0, 4))
  assert float(schedule.resolve(made, 4).coef['step']) == 0.0


@pytest.mark.parametrize(
  'path',
  [
    'coef',
    'coef.stepp',
    'hp.step.coef',
    'role.policy.max_grad_norm',
    'role.critic.lr',
    'micro_batch',
  ],
)
def test_a_path_to_nothing_is_named(path):
  made = learner()._replace(schedules={path: Schedule('linear', 0, 1, 1)})
  with pytest.raises(ValueError) as e:
    schedule.resolve(made, 0)
  errors.check(str(e.value), f'c.schedule.{path} coef')
