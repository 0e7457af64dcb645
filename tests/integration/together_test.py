"""Seeds that run together are the runs that they are alone."""

import os
import pathlib

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

from agentrl.configs import grpo, spear
from agentrl.lab.sweep import grid
from agentrl.log import trajectories
from agentrl.run import config_file, runner, seed_axis
from tests import errors
from tests.integration import resume_test
from tests.integration.cut import after_row
from tests.integration.same import assert_rows, rows

SMALL = resume_test.SMALL | {
  'steps': 3,
  'micro_batch': 8,
  'sft.steps': 2,
  'eval.episodes': 12,
  'eval.every': 2,
  'checkpoint.every': 2,
}
SEEDS = (3, 5)
ROWS = [
  (1, 'sft'),
  (2, 'sft'),
  (2, 'eval'),
  (3, 'rl'),
  (4, 'rl'),
  (4, 'eval'),
  (5, 'rl'),
  (5, 'eval'),
]


def configs(method, data, changes=(), arg='tiny'):
  out = []
  for seed in SEEDS:
    c = method.get_config(arg)
    values = SMALL | {'data': str(data), 'seed': seed} | dict(changes)
    c.update_from_flattened_dict(values)
    c.loss = (*c.loss, 'entropy')  # moves it even if nothing is solved
    out.append(c)
  return out


def state_at(workdir, step):
  """The arrays of the newest checkpoint, which is of that step."""
  there = pathlib.Path(workdir) / 'checkpoints'
  assert max(int(x.name) for x in there.iterdir() if x.name.isdecimal()) == step
  with ocp.StandardCheckpointer() as reader:
    return reader.restore(there.absolute() / str(step) / 'state')


def assert_same(one, other, expected):
  """The rows of every step, evaluations too, and the last state."""
  here, there = rows(one), rows(other)
  assert [(r['step'], r['phase']) for r in here] == expected
  assert_rows(here, there, rtol=1e-4, atol=1e-5)
  step = expected[-1][0]
  kept = [state_at(x, step) for x in (one, other)]
  assert kept[0].keys() == kept[1].keys()
  for name, x in kept[0].items():
    np.testing.assert_allclose(
      x, kept[1][name], rtol=1e-4, atol=1e-5, err_msg=name
    )
  # Each start has a lock of a number of its own.
  files = [{x.split('.')[0] for x in os.listdir(w)} for w in (one, other)]
  assert files[0] == files[1]
  heads = [trajectories.Log(x).heads for x in (one, other)]
  for name in ('step', 'phase', 'task', 'group', 'member', 'turns'):
    np.testing.assert_array_equal(heads[0][name], heads[1][name])


@pytest.mark.nightly
def test_one_beside_another_is_what_it_is_alone(tmp_path):
  """The second: what is shared was made for the first."""
  short = {'sft.steps': 0, 'steps': 2, 'eval.every': 0}
  runs = configs(grpo, tmp_path / 'data', short)
  (_, alone), beside = folders(tmp_path)
  runner.run(runs[1], alone)
  runner.run_seeds(runs, beside)
  want = [(0, 'eval'), (1, 'rl'), (2, 'rl'), (2, 'eval')]
  assert_same(alone, beside[1], want)
  assert_apart(*beside, 2)


@pytest.mark.nightly
@pytest.mark.parametrize(
  ('method', 'devices', 'arg'),
  [
    (grpo, 1, 'tiny'),  # one device: vmapped
    # A memory that adds to batches, and one that chooses tasks.
    (spear, 2, 'tiny'),
    (grpo, 2, 'tiny,tasks=prioritized'),
  ],
)
def test_cut_off_and_one_begun_alone(
  method, devices, arg, tmp_path, monkeypatch
):
  found = jax.devices()[:devices]
  monkeypatch.setattr(seed_axis.jax, 'devices', lambda: found)
  runs = configs(method, tmp_path / 'data', arg=arg)
  alone, beside = folders(tmp_path)
  for c, workdir in zip(runs, alone, strict=True):
    runner.run(c, workdir)
  with after_row(3):
    runner.run(runs[1], beside[1])
  with after_row(5):
    runner.run_seeds(runs, beside)
  runner.run_seeds(runs, beside)
  for one, other in zip(alone, beside, strict=True):
    assert_same(one, other, ROWS)
  assert_apart(*alone, 5)


@pytest.mark.nightly
def test_each_begins_with_its_own_policy(tmp_path):
  short = {'sft.steps': 0, 'steps': 1, 'eval.every': 0}
  runs = configs(grpo, tmp_path / 'data', short)
  first, beside = folders(tmp_path)
  runner.run_seeds(runs, first)
  for c, init in zip(runs, first, strict=True):
    c.init = init
  alone = [str(tmp_path / 'alone' / str(seed)) for seed in SEEDS]
  for c, workdir in zip(runs, alone, strict=True):
    runner.run(c, workdir)
  runner.run_seeds(runs, beside)
  for one, other in zip(alone, beside, strict=True):
    assert_same(one, other, [(0, 'eval'), (1, 'rl'), (1, 'eval')])


def folders(tmp_path):
  return [
    [str(tmp_path / x / str(seed)) for seed in SEEDS] for x in ('one', 'all')
  ]


def assert_apart(one, other, step):
  """Else equality says little."""
  one, other = (state_at(x, step) for x in (one, other))
  moved = [
    np.max(np.abs(x - other[name]))
    for name, x in one.items()
    if name.startswith('params/policy')
  ]
  assert max(moved) > 0.01


def test_what_cannot_go_together_is_told(tmp_path):
  one, other = configs(grpo, tmp_path)
  for changes, words in (
    ({'steps': 4}, 'config.steps 3 4'),
    ({'init': 'run'}, 'config.init'),
    ({'mesh.data': 2}, 'mesh.data'),
  ):
    wrong = config_file.change(other.copy_and_resolve_references(), changes)
    with errors.raises(ValueError, words):
      runner.run_seeds(
        [one, wrong][:: -1 if 'mesh.data' in changes else 1], ['a']
      )
  for seeds, init, words in (
    (['0', 'x'], [], '0 x'),
    ([], [], 'seeds'),
    (['0', '1'], ['run'], '1 2'),
  ):
    with errors.raises(ValueError, words):
      grid.of_seeds(seeds, init)
  assert grid.of_seeds(['4'], ['run']) == [{'seed': 4, 'init': 'run'}]
