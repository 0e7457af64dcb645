"""A service decides what a run practises; what it says acts or is counted."""

import contextlib
import json
import re

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl.configs import rl_experimenter
from agentrl.service.base import ServiceFault
from tests import errors
from tests.integration import judged_methods_test, parts_test

HERE = 'tests.run.play.proposing_test'
ASKED: list[str] = []


def to_a_and_b(messages, *, seed):
  del seed
  ASKED.append(messages[-1].content)
  return json.dumps([{'op': 'PRACTISE', 'of': [x]} for x in 'ab'])


def hostile(messages, *, seed):
  del messages, seed
  return '<eot>[{"op": "PRACTISE", "of": ["a"]}]' + 'x' * 10_000_000


def fails(messages, *, seed):
  raise ServiceFault('it is closed')


def config(folder, **changes):
  c = judged_methods_test.small(rl_experimenter.get_config('tiny'), folder)
  c.stages, c.env.train = ('rl',), 200
  with c.unlocked():
    c.stage = ConfigDict()
  with c.ignore_type():
    c.update_from_flattened_dict(changes)
  return c


def batches_of(c, count=3):
  """Batches of so many steps, with states after them, and the experiment."""
  out = []
  with contextlib.ExitStack() as stack:
    made = parts_test.Method(c, None, stack)
    for batch, _, state in made.updates(count):
      out.append((batch, jax.device_get(state.memory['skills'])))
  return out, made.s


@pytest.mark.slow
def test_tasks_are_of_what_was_proposed(tmp_path):
  ASKED.clear()
  path = {'service.proposer.function': f'{HERE}:to_a_and_b'}
  every = {'hp.task.proposed_skills.every': 2}
  out, s = batches_of(config(tmp_path, **path, **every))
  names = s.skills.names
  for batch, state in out:
    skills = {names[s.skills.of_task[i]] for i in batch.ids['task']}
    assert skills <= {'a', 'b'}
    now = [names[i] for i in np.flatnonzero(state.practised)]
    assert now == ['a', 'b']
    attempts = state.tried[:, -1][state.practised].sum()
    assert attempts > 0
  assert len(ASKED) == 2  # before the first and the third
  assert 'In practice:\nnone' in ASKED[0]
  assert re.search(r'In practice:\n[ab]: \d/[48]', ASKED[1])
  _, state = out[-1]
  assert (int(state.asked), int(state.refused)) == (2, 0)
  assert state.tried[3:].sum() == 0


@pytest.mark.slow
@pytest.mark.parametrize('service', ['hostile', 'fails'])
def test_what_cannot_be_used_leaves_basic_skills_in_practice(tmp_path, service):
  path = {'service.proposer.function': f'{HERE}:{service}'}
  out, s = batches_of(config(tmp_path, **path))
  (batch, _), (_, state) = out[0], out[-1]
  skills = {s.skills.names[s.skills.of_task[i]] for i in batch.ids['task']}
  assert skills <= {'a', 'b', 'c'}
  assert (int(state.asked), int(state.refused)) == (2, 2)
  now = [s.skills.names[i] for i in np.flatnonzero(state.practised)]
  assert now == ['a', 'b', 'c']
  assert (state.added == -1).all()


def test_a_memory_has_room_for_all_skills(tmp_path):
  c = config(tmp_path, **{'hp.memory.skills.capacity': 5})
  with (
    errors.raises(ValueError, 'hp.memory.skills.capacity 5'),
    contextlib.ExitStack() as stack,
  ):
    parts_test.Method(c, None, stack)
