"""Programs that are lowered for devices: what they are given."""

import jax
import jax.numpy as jnp
import pytest

from agentrl import mesh
from agentrl.configs import grpo
from agentrl.configs.config import to_dict
from agentrl.lab.capacity import report
from agentrl.lab.capacity.compiled import compiler, programs, targets
from agentrl.model import policy
from agentrl.run.check import fields


@pytest.mark.slow
@pytest.mark.parametrize(('order', 'copies'), [('fixed', 3), ('latest', 0)])
def test_an_update_is_given_the_earlier_versions(order, copies):
  target = targets.Target('cpu', '1')
  young, old = (grpo.get_config('tiny,env=countdown') for _ in range(2))
  old.staleness.update(bound=3, anchor='behaviour', order=order)
  given = []
  for c in map(fields.read, (young, old)):
    lm = report.language(c)
    job = compiler.CompileJob(
      to_dict(c), lm.shape, target, 'update', report.work(c, lm)
    )
    one = mesh.make(dict.fromkeys(mesh.AXES, 1), devices=jax.devices()[:1])
    with jax.set_mesh(one):
      args = jax.tree.leaves(programs.update(c, job).in_avals)
    given.append(sum(x.size for x in args if x.dtype == jnp.float32))
  parameters = mesh.count(policy.module(lm.shape).specs)
  assert given[1] - given[0] == copies * parameters
