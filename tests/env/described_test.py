"""What a family says of a task is what an agent sees of it when it begins."""

import pytest

from agentrl.configs import envs, grpo
from agentrl.env import base
from agentrl.service.base import Function

NAMES = (
  'case_corpus', 'consultation', 'countdown', 'errands', 'event_stream',
  'fact_corpus', 'hidden_slots', 'household', 'interview', 'math_python',
  'recommendation', 'search_questions', 'shop', 'unreliable_tools',
)  # fmt: skip


@pytest.mark.parametrize('name', NAMES)
def test_it_is_the_first_observation(name):
  c = grpo.get_config(f'tiny,env={name}')
  try:
    family = envs.family(c)
  except ValueError as error:  # a package that it needs is not here
    pytest.skip(str(error))
  assert isinstance(family, base.DescribesTasks)
  asked = {x: Function(c.service[x].function) for x in base.needs(family)}
  tasks = [x.task for x in family.tasks('train', 3, 0)]
  seen = set()
  env = base.with_services(family, asked).env()
  for seed, task in enumerate(tasks):
    seen.add(family.describe(task))
    assert env.reset(task, seed) == family.describe(task)
  env.close()
  assert len(seen) > 1 or name == 'recommendation'  # which tells no task
