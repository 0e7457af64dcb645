"""A frozen policy that follows notes gains by a list of true ones."""

import jax
import numpy as np
import pytest
from ml_collections import ConfigDict

from agentrl import Run
from agentrl.configs import inspo, training_free_grpo
from agentrl.env.worlds.door_codes import DoorCodes
from agentrl.log import metrics
from agentrl.run import runner

STEPS = 6


def config(folder, module=training_free_grpo):
  c = module.get_config('tiny')
  c.data = str(folder / 'data')
  c.env.test, c.eval.episodes, c.checkpoint.every = 200, 400, 1000
  return c


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('training_free')


@pytest.fixture(scope='module')
def follower(folder):
  """The folder of a policy that was trained on told tasks alone."""
  c = config(folder)
  with c.unlocked():
    c.stages, c.steps = ('follow',), 0
  runner.run(c, str(folder / 'follower'))
  return str(folder / 'follower')


def played(
  folder, follower, name, most=STEPS, module=training_free_grpo, **changes
):
  """Steps from the follower on, at most so many; where it was left if it was.

  Returns: the states after each step, and rows of metrics
  """
  c = config(folder, module)
  with c.unlocked():
    c.init, c.stages, c.stage = follower, ('rl',), ConfigDict()
    c.checkpoint.every = 1
  with c.ignore_type():
    c.update_from_flattened_dict(changes)
  states = []
  with Run(c, workdir=str(folder / name)) as run:
    for _, state, _ in run:
      states.append(jax.device_get((state.params, state.memory)))
      if len(states) == most:
        break
    words = run.experiment.tokenizer
  rows = metrics.read(str(folder / name / 'metrics.jsonl'))
  return states, rows, words


def same(a, b):
  jax.tree.map(np.testing.assert_array_equal, a, b)


def success(rows):
  return [x['eval/success'] for x in rows if x['phase'] == 'eval'][-1]


@pytest.mark.slow
@pytest.mark.nightly
def test_a_list_is_learned_and_no_parameter(folder, follower):
  states, rows, words = played(folder, follower, 'own')
  first = states[0][0]
  for params, _ in states:
    same(params, first)
  bank = states[-1][1]['texts']
  read = {
    words.decode(x[:n].tolist())
    for x, n in zip(bank.tokens, bank.length, strict=True)
    if n
  }
  codes = DoorCodes().lasting()
  assert read == {f'{door}{x}' for door, x in zip('abc', codes, strict=True)}

  # Interrupted, it goes on with the same list.
  played(folder, follower, 'cut', most=2)
  later, _, _ = played(folder, follower, 'cut')
  assert len(later) == STEPS - 2
  same(later[-1], states[-1])

  # The list is written and not read; and its notes are of other doors.
  writer = 'agentrl.env.worlds.door_codes:shuffled_lesson'
  arms = {
    'empty': {'hp.recall.whole.arm': 'empty'},
    'shuffled': {'service.writer.function': writer},
  }
  others = {
    name: success(played(folder, follower, name, **changes)[1])
    for name, changes in arms.items()
  }
  assert success(rows) > 0.5
  assert max(others.values()) < 0.42


@pytest.mark.slow
@pytest.mark.nightly
def test_instructions_evolve_beside_a_policy(folder, follower):
  """And both stay as they were where a run was cut off."""

  def evolved(name, most=20, **changes):
    return played(
      folder, follower, name, most, module=inspo, **{'steps': 20} | changes
    )

  states, _, words = evolved('inspo')
  bank = states[-1][1]['texts']
  evolved('inspo_cut', most=9)
  later, _, _ = evolved('inspo_cut')
  same(later[-1], states[-1])
  still = {'role.policy.lr': 0.0}
  _, alone, _ = evolved('instructions', **still)
  _, first, _ = evolved('first', **still, **{'hp.memory.texts.every': 1000})
  assert np.sum(bank.length > 0) > 2
  assert words.decode(bank.tokens[0, : bank.length[0]].tolist()).count('1') == 3
  assert success(alone) > success(first) + 0.15
