"""Table policies: a token is a cell and a choice."""

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.lab.tabular import policy
from agentrl.types import Rows


def test_a_token_is_a_cell_and_a_choice():
  table = policy.TablePolicy(states=3, actions=2, tokens=3)
  got = policy.cells(table, jnp.array([0, 2]), jnp.array([1, 0]))
  np.testing.assert_array_equal(got, [[0, 2, 4], [10, 11, 13]])
  assert table.cells == 15
  params = {'table': jax.random.normal(jax.random.key(0), (15, 2))}
  on = jnp.array([[True, True, False]])
  blank = jnp.zeros((1, 3), jnp.int32)
  rows = Rows(
    tokens=jnp.array([[1, 8, 3]]),
    seg=blank,
    traj=blank,
    turn=blank,
    span=blank,
    sampled=on,
    weight=on * 1.0,
    logp=blank * 0.0,
    version=blank,
  )
  needs = ('logp', 'entropy', 'sum_sq_prob')
  out = policy.policy(table).apply(params, rows, needs)
  x = np.asarray(params['table'], np.float64)
  p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
  np.testing.assert_allclose(
    out.logp, [[np.log(p[0, 1]), np.log(p[4, 0]), 0]], rtol=1e-5
  )
  want = [-(p[i] * np.log(p[i])).sum() for i in (0, 4)]
  np.testing.assert_allclose(out.entropy, [[*want, 0]], rtol=1e-5)
  want = [(p[i] ** 2).sum() for i in (0, 4)]
  np.testing.assert_allclose(out.sum_sq_prob, [[*want, 0]], rtol=1e-5)
