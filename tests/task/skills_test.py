"""Tasks of skills in practice: those alone, and each skill as likely."""

import jax
import numpy as np
import pytest

from agentrl import registry
from agentrl.configs import rl_experimenter
from agentrl.memory import skills
from agentrl.run.check import service_checks, validate
from agentrl.task import fixed
from agentrl.types import AttemptPlan
from tests import errors
from tests.memory import skills_test

N, S = 40, 4
SKILL = np.repeat(np.arange(S), [20, 10, 6, 4]).astype(np.int32)
PLAN = AttemptPlan(N, group=4, batch=12, limit=5, seed=3, temperature=0.7)


def state(*practised):
  empty = skills_test.batch(
    skills_test.attempts(np.random.default_rng(0)), skills_test.told()
  )
  made = jax.device_get(skills.empty(empty, N, S, 4))
  now = np.isin(np.arange(S), practised)
  return made.replace(skill=SKILL, practised=now)


def drawn(memory, step, plan=PLAN, **hp):
  piece = registry.bind('task', 'proposed_skills', hp)
  return piece(plan, {'skills': memory}, step)


def test_tasks_are_of_skills_in_practice_alone():
  """Unlike those of all tasks."""
  for practised in ([0], [3], [1, 2], [0, 1, 2, 3]):
    for step in range(20):
      a = drawn(state(*practised), step)
      assert {*SKILL[a.task].tolist()} <= {*practised}
      np.testing.assert_array_equal(a.task, np.repeat(a.task[::4], 4))
      assert len({*a.task.tolist()}) == 3
      again = drawn(state(*practised), step)
      np.testing.assert_array_equal(a.task, again.task)
  seen = [SKILL[fixed.fixed(PLAN, {}, step).task] for step in range(20)]
  assert {*np.concatenate(seen).tolist()} == {0, 1, 2, 3}


def test_each_skill_is_as_likely_whatever_tasks_it_has():
  memory, count, draws = state(0, 1, 3), np.zeros(S), 3000
  for step in range(draws):
    count[SKILL[drawn(memory, step).task[0]]] += 1
  error = 5 * np.sqrt(2 / 9 / draws)
  np.testing.assert_allclose(count[[0, 1, 3]] / draws, 1 / 3, atol=error)
  assert not count[2]


def test_a_step_may_want_more_tasks_than_a_skill_has():
  a = drawn(state(3), 0, PLAN._replace(batch=4 * 6))
  assert {*a.task.tolist()} == {36, 37, 38, 39}
  assert len(a.task) == 24


@pytest.mark.parametrize(
  ('path', 'value', 'names'),
  [
    ('staleness.bound', 1, 'staleness.bound 1 proposed_skills'),
    ('hp.task.proposed_skills.level', 1.5, 'hp.task.proposed_skills.level 1.5'),
    ('hp.task.proposed_skills.every', 0, 'hp.task.proposed_skills.every 0'),
    ('hp.task.proposed_skills.service', 'nobody', 'service:nobody'),
    ('memory', (), 'proposed_skills memory:skills'),
    ('service.proposer.function', '', 'service.proposer'),
  ],
)
def test_what_does_not_fit_is_refused(path, value, names):
  c = rl_experimenter.get_config('tiny')
  c.staleness.anchor = 'behaviour'
  with c.ignore_type():
    c.update_from_flattened_dict({path: value})
  with errors.raises(ValueError, names):
    service_checks.services(validate.config(c), (), 'thread')


def test_a_world_without_skills_is_refused():
  c = rl_experimenter.get_config('tiny,env=countdown')
  with errors.raises(ValueError, 'proposed_skills env:skills'):
    validate.config(c)
