"""Aims of a card: which are reached, and who takes turns."""

import subprocess

import pytest

from agentrl.lab.bench import aims


@pytest.mark.parametrize('least', [True, False])
def test_a_bound_itself_is_reached(least):
  aim = aims.Aim('x', 'step', 'seconds', 2.0, least, 's')
  assert aim.reached(2.0)
  assert aim.reached(2.1) == least
  assert aim.reached(1.9) != least


def test_parts_and_figures_of_aims_are_known():
  assert {x.part for x in aims.AIMS} | aims.PEERS.keys() <= {*aims.PARTS}


def test_medians_are_held_against_the_aims():
  found = {'step': {'seconds': [1.0, 3.0, 2.0], 'times_torch': [1.2, 1.0, 1.3]}}
  rows = [x.strip('| ').split(' | ') for x in aims.table(found)]
  assert rows[2][:2] == ['step', '2 s']
  named = {row[0]: row[-1].split('| ')[-1] for row in rows}
  assert named['step'] == 'reached'
  assert named['larger step'] == 'not measured'


def test_ours_and_theirs_take_turns(monkeypatch):
  """Rates of torch become seconds; what does not end has no figure."""
  asked = []

  def own(part, *_):
    asked.append(part)
    return {} if part == 'iteration' else {'seconds': 2.0}

  def theirs(command, _):
    asked.append('torch')
    figure = next(x for x in command if x.startswith('--only='))[7:]
    return {figure: 8.0}

  monkeypatch.setattr(aims, '_child', own)
  monkeypatch.setattr(aims, '_json', theirs)
  parts = 'step', 'decode', 'iteration', 'step_large'
  out = aims.measure('tiny', parts, 2, 1, 60.0, 'python', tell=str)
  turn = ['step', 'torch', 'decode', 'torch', 'iteration', 'step_large']
  assert asked == 2 * turn
  assert out['step']['times_torch'] == [4.0, 4.0]
  size = aims.SIZES['tiny'].own
  assert out['decode']['torch'] == [size.batch * size.new / 8.0] * 2
  assert out.keys() == {'step', 'decode', 'step_large'}


def test_what_takes_too_long_prints_nothing():
  assert aims._run(['sleep', '60'], 0.1) == ''


@pytest.mark.nightly
@pytest.mark.parametrize('part', aims.PARTS)
def test_each_part_has_the_figures_of_its_aim(part):
  found = aims.ours(part, aims.SIZES['tiny'], 1)
  assert found['seconds'] > 0
  figures = {x.figure for x in aims.AIMS if x.part == part}
  assert figures - {'times_torch'} <= found.keys()


def test_torch_is_imported_beside_modules_of_other_names():
  """`profile` is ours in that folder, and Python's for all that is imported."""
  code = (
    'import runpy, sys; sys.argv = ["x", "--help"];'
    f'sys.path.insert(0, {str(aims.peers.OWN.parent)!r});'
    f'mine = runpy.run_path({str(aims.peers.OWN)!r});'
    'import profile; print(profile.__file__)'
  )
  command = [aims.sys.executable, '-c', code]
  done = subprocess.run(command, capture_output=True, text=True, check=True)
  assert str(aims.peers.OWN.parent) not in done.stdout
