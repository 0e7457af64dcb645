"""Distillation: the divergence of the policy from a teacher, over all words."""

from typing import Annotated

import chex

from agentrl import registry
from agentrl.domain import Named, Real
from agentrl.loss import ppo
from agentrl.types import Loss, LossInputs


@registry.register(
  'loss',
  needs=('output:divergence', 'role:{role}', 'reading:{reading}'),
  takes='any',
)
def distillation(
  x: LossInputs,
  *,
  role: Named = 'teacher',
  reading: Named = registry.OWN,
  beta: Annotated[float, Real(0, 1, compiled=True)] = 1.0,
) -> Loss:
  """D_β(π_T, π), nats: of whole distributions at each sampled token.

  β = 0 is KL(π_T ‖ π), β = 1 is KL(π ‖ π_T), and in between the generalised
  Jensen divergence (GKD, arXiv 2306.13649; nn/chunked_divergence.py has the
  equations). No advantage enters, and no token pays for those after it.

  What is computed here is a metric; the learner makes x.outputs.divergence of
  these hyper-parameters (learner/teacher.py), because losses run no model.

  Args:
    role: the teacher, a language model; nothing reaches its parameters. The
      policy is the one of the iteration's beginning
    reading: what it reads: 'own' as the policy did, or one of c.reading
    beta: β
  """
  del role, reading, beta
  value = x.outputs.divergence
  assert value is not None, 'learner/teacher.py fills it'
  chex.assert_equal_shape([value, x.credit.weight])
  return value, {'divergence': ppo.metric(value, ppo.weight_of(x))}
