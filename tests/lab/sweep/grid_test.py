"""Grids of changes, axes from the command line, names of runs."""

import pytest

from agentrl.lab.sweep import grid
from tests import errors


def test_names_depend_on_the_changes_alone():
  one = grid.name_of({'seed': 1, 'role.policy.lr': 1e-3})
  assert one == grid.name_of({'role.policy.lr': 1e-3, 'seed': 1})
  assert one == 'role.policy.lr=0.001,seed=1'
  long = [grid.name_of({'env.levels': 'x' * 200 + end}) for end in 'ab']
  assert len(set(long)) == 2
  assert max(map(len, long)) <= grid.LONGEST
  assert '/' not in grid.name_of({'env.levels': '../levels'})


def test_expand():
  def sweep(add):
    for x in grid.grid(role__policy__lr=(1, 2), steps=(3,)):
      add(x)

  runs = grid.expand(sweep, [grid.axis('coef.step=0.5,1')], 2)
  assert len(runs) == 8
  assert runs[0] == {
    'role.policy.lr': 1,
    'steps': 3,
    'coef.step': 0.5,
    'seed': 0,
  }
  assert grid.expand(None, [], 0) == [{}]
  with pytest.raises(ValueError):
    grid.expand(lambda add: [add({'seed': 1}) for _ in range(2)], [], 0)


def test_axes():
  assert grid.axis("post=('whiten',),()") == ('post', [('whiten',), ()])
  assert grid.axis('env.name=sokoban,frozen_lake')[1] == [
    'sokoban',
    'frozen_lake',
  ]
  assert list(grid.zipped(a=(1, 2), b=(3, 4))) == [
    {'a': 1, 'b': 3},
    {'a': 2, 'b': 4},
  ]
  points = list(grid.draws(50, lr=('log', 1e-4, 1e-2)))
  assert points == list(grid.draws(50, lr=('log', 1e-4, 1e-2)))
  assert all(1e-4 <= p['lr'] <= 1e-2 for p in points)
  for wrong in (
    lambda: grid.axis('seed'),
    lambda: list(grid.zipped(a=(1,), b=(1, 2))),
    lambda: list(grid.draws(1, lr=('log', 0.0, 1.0))),
  ):
    with pytest.raises(ValueError):
      wrong()


def test_changes_are_read_as_python_reads_them():
  changes = grid.changes(
    ['steps=20', 'coef.step=0.5', 'data=a,b', "post=('x',)"]
  )
  assert changes == {
    'steps': 20,
    'coef.step': 0.5,
    'data': 'a,b',
    'post': ('x',),
  }
  with errors.raises(ValueError, '--set steps PATH VALUE'):
    grid.changes(['steps'])
