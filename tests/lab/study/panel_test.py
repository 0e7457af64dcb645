"""Panels: tasks and seeds that neither machine nor order of names changes."""

import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest

from agentrl.env import splits
from agentrl.lab.study import panel
from agentrl.lab.study.spec import Arm, Env, Study
from agentrl.lab.tabular import mdp, train
from tests import errors
from tests.lab.study import made_up_study


def tables(**changes) -> Study:
  world = {'world': 'key_door', 'iterations': 2, 'settings': {'size': 3}}
  fields = {
    'by': 'tabular',
    'arms': (Arm('a', 'A', 'configs/grpo.py'),),
    'envs': {'door': Env('door', world)},
    'grid': (0.1, 0.2),
    'rate': 0.1,
    'pairs': 5,
  }
  return made_up_study.make_study(**{**fields, **changes})


def test_of_tables_a_seed_has_the_key_of_what_is_played():
  s = tables(first_seed=3)
  got = panel.panel(s, '')
  assert got['seeds'] == {'pairs': [3, 4, 5, 6, 7], 'tuning': [50000, 50001]}
  keys = got['tasks']['door']
  every = [*keys['pairs'], *keys['tuning']]
  assert len(set(every)) == len(every) == 7
  world = mdp.WORLDS['key_door'](size=3)
  tasks = train.draw_tasks(world, 4, 5)
  whole = [tasks.next, tasks.start, tasks.won, tasks.over]
  text = repr([x.shape for x in whole] + ['0.1']).encode()
  text += b''.join(np.asarray(x, np.int32).tobytes() for x in whole)
  assert keys['pairs'][2] == splits.content_key(text)


def test_arms_do_not_change_the_panel_and_worlds_do():
  one = panel.digest(panel.panel(tables(), ''))
  arms = (Arm('a', 'A', 'configs/grpo.py'), Arm('b', 'B', 'configs/rloo.py'))
  assert panel.digest(panel.panel(tables(arms=arms), '')) == one
  slippery = {'world': 'key_door', 'settings': {'size': 3, 'slip': 0.2}}
  for other in ({'envs': {'door': Env('d', slippery)}}, {'first_seed': 1}):
    assert panel.digest(panel.panel(tables(**other), '')) != one


def test_the_hash_is_of_what_is_said_and_not_of_its_order():
  there = {'seeds': {'pairs': [0], 'tuning': []}, 'tasks': {'é': ['a', 'b']}}
  turned = dict(reversed(list(there.items())))
  turned['seeds'] = dict(reversed(list(turned['seeds'].items())))
  assert panel.digest(turned) == panel.digest(there)
  swapped = {**there, 'tasks': {'é': ['b', 'a']}}
  assert panel.digest(swapped) != panel.digest(there)


def test_another_panel_is_refused_in_the_folder(tmp_path):
  s = tables()
  first = panel.keep(s, str(tmp_path))
  assert panel.keep(s, str(tmp_path)) == first
  kept = (tmp_path / panel.FILE).read_text()
  assert panel.digest(json.loads(kept)) == first
  with errors.raises(ValueError, f'{first[:16]}'):
    panel.keep(tables(pairs=6), str(tmp_path))
  assert (tmp_path / panel.FILE).read_text() == kept


STUDY = """
import contextlib, os, sys
from agentrl.lab.study import panel
from agentrl.lab.study.spec import Arm, Env, Study

if sys.argv[2] == 'turned':  # folders list their files from the last on
  listed, scanned = os.listdir, os.scandir

  @contextlib.contextmanager
  def scan(*path):
    with scanned(*path) as found:
      yield iter(list(found)[::-1])

  os.listdir, os.scandir = lambda *path: listed(*path)[::-1], scan

s = Study(
  name='s', title='s', question='s', by='train', claims=(), threshold='a',
  reference='a', env_steps=1, tokens=1, grid=(1.0, 2.0), rate=1.0,
  warm='configs/grpo.py:tiny',
  arms=(Arm('a', 'A', 'configs/grpo.py:tiny'),
        Arm('b', 'B', 'configs/gigpo.py:tiny', {'env.test': 3})),
  envs={'levels': Env('L', {'env.levels': 'levels', 'env.train': 12,
                            'env.test': 4, 'rollout.max_turns': 8})},
  changes={'data': sys.argv[1]},
)
print(panel.digest(panel.panel(s, 'runs')))
print(panel.panel(s, 'runs')['tasks']['levels']['pairs'])
"""


def levels(folder: pathlib.Path, names) -> None:
  """Five files of distinct levels, written in the order of their names."""
  folder.mkdir()
  for name in names:
    own = 'bdaec'.index(name)
    text = []
    for i in range(8):
      plane = np.full((6, 7), '#')
      plane[1:5, 1:6] = ' '
      plane[1, 1], plane[2, 2 + own % 3], plane[4, 5] = '@', '$', '.'
      plane[3, 1 + i % 4] = '#' if i else ' '
      plane[1, 3 + (i + own) % 3] = '#' if i > 3 else ' '
      rows = '\n'.join(map(''.join, plane))
      text.append(f'; {i}\n{rows}\n')
    (folder / f'{name}.txt').write_text('\n'.join(text))


@pytest.mark.nightly
def test_the_same_command_elsewhere_names_the_same_tasks(tmp_path):
  """Another locale, hash seed, number of devices, order of files."""
  said = []
  for where, order, more in (
    ('here', 'abcde', {'PYTHONHASHSEED': '1', 'LC_ALL': 'C'}),
    (
      'turned',
      'edcba',
      {
        'PYTHONHASHSEED': '2',
        'LC_ALL': 'tr_TR.UTF-8',
        'LANG': 'tr_TR.UTF-8',
        'PYTHONUTF8': '0',
        'XLA_FLAGS': '--xla_force_host_platform_device_count=3',
      },
    ),
  ):
    home = tmp_path / where
    home.mkdir()
    levels(home / 'levels', order)
    code = home / 'study.py'
    code.write_text(STUDY)
    env = {**os.environ, **more, 'PYTHONPATH': os.getcwd()}
    command = [sys.executable, str(code), str(home / 'data'), where]
    done = subprocess.run(
      command, cwd=home, env=env, capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    said.append(done.stdout)
  assert said[0] == said[1]
  assert 'warm start' in said[0]


def test_more_seeds_at_once_draw_the_same_tasks():
  """A seed's tasks do not depend on how many are drawn beside it."""
  arguments = {'world': 'chain'}
  many = panel.mdp_keys(arguments, [0, 1, 2, 3])
  assert [panel.mdp_keys(arguments, [i])[0] for i in range(4)] == many
  with jax.default_device(jax.devices()[-1]):
    assert panel.mdp_keys(arguments, [2]) == many[2:3]
