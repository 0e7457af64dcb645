"""Tasks of the skills that a service has proposed to practise."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from agentrl import domain, registry
from agentrl.env.skills import SKILLS
from agentrl.memory.skills import Skills
from agentrl.task import base, pool
from agentrl.types import AttemptPlan, Attempts

ASK = (
  'You decide what an agent practises. Judge by the curves which skills have'
  ' converged, and propose what to practise next: what it may learn now, but'
  ' cannot do yet.'
)


def fits(spec: registry.MethodSpec, config: Any) -> str:
  """Says why a service cannot decide before each batch; '' if it can."""
  if config.staleness.bound:
    return (
      f'staleness.bound must be 0 with task={spec.task!r}, whose service'
      f' decides by the newest curves, got {config.staleness.bound}'
    )
  return ''


@registry.register(
  'task',
  needs=('memory:skills', SKILLS, 'service:{service}'),
  check=fits,
)
def proposed_skills(
  plan: AttemptPlan,
  memory: Mapping[str, Any],
  step: int,
  *,
  service: Annotated[str, domain.Text('a service', empty=False)] = 'proposer',
  instruction: Annotated[str, domain.Text('a text', empty=False)] = ASK,
  every: domain.Count = 2,
  operations: domain.Count = 32,
  shown: domain.Count = 64,
  level: domain.Rate = 0.8,
  tolerance: domain.Rate = 0.2,
  confirm: Annotated[bool, domain.Flag()] = True,
) -> Attempts:
  """Draws tasks of the skills in practice alone, each skill as likely:

    w_i = 1[skill of i is in practice] / tasks of that skill

  A service reads the curve of each skill and the library, says which skills
  have converged, which puts them into the library, and proposes what to
  practise: basic skills, or compositions of skills in the library (Game On,
  arXiv 2409.03402). At first, and until it has proposed anything, basic skills
  are practised. A step with more groups than tasks repeats some.

  Args:
    service: name in c.service
    instruction: what it is asked to do, before the curves
    every: steps from one question to the next
    operations: of an answer that are read, at most
    shown: skills of each kind that the service sees, at most
    level: share of attempts solved from which a flat curve has converged
    tolerance: most that a flat curve changes from its older to its newer half
    confirm: a skill comes into the library only if its curve has converged, by
      `level` and `tolerance`, whatever the service says; False: it decides
  """
  # Of run/play/proposing.
  del service, instruction, every, operations, shown, level, tolerance, confirm
  x: Skills = memory['skills']
  skill, practised = np.asarray(x.skill), np.asarray(x.practised)
  (among,) = np.nonzero(practised[skill])
  count = np.bincount(skill, minlength=len(practised))
  weight = 1 / count[skill[among]]
  drawn = pool.draw(weight, plan.groups, plan.seed, step)
  return base.attempts_at(plan, among[drawn])
