"""A config in tables: rates of roles, plain descent, what tables refuse."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import optimizer
from agentrl.lab.tabular import build
from tests.lab.tabular import table_runs


def test_roles_learn_at_their_multiple_of_the_policys_rate():
  c = table_runs.config('oprl')
  c.role.policy.lr, c.role.prm.lr = 2e-4, 5e-5
  made = build.case(c, 'bifurcation', table_runs.SMALL, 'adam', {'length': 3})
  rules = build.at_rate(made.learner, 0.2).context.rules
  assert rules['policy'].lr == pytest.approx(0.2)
  assert rules['prm'].lr == pytest.approx(0.05)
  assert {rule.warmup for rule in rules.values()} == {0}


def test_sgd_is_a_step_along_the_gradient():
  rule = build.plain(optimizer.OptimizerConfig(lr=0.5))
  params = {'x': jnp.array([1.0, -2.0])}
  grads = {'x': jnp.array([3.0, 1e-4])}
  opt = optimizer.init(rule, params)
  got, _, _ = optimizer.step(rule, grads, opt, params)
  np.testing.assert_allclose(got['x'], [-0.5, -2.0 - 5e-5], rtol=1e-5)


@pytest.mark.parametrize('method', ['archer', 'areal', 'arpo', 'oni', 'opd'])
def test_what_tables_cannot_stand_for_is_said(method):
  with pytest.raises(ValueError):
    build.fits(table_runs.config(method))
