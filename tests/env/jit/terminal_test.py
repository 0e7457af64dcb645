"""Playing by hand, from a list of lines and through a pipe."""

import os
import pathlib
import subprocess
import sys

import jax
import pytest

from agentrl.env.jit import terminal

ROOT = pathlib.Path(__file__).parents[3]
LETTERS = {word: letter for letter, word in terminal.WORDS.items()}


def test_a_solution_in_words_and_letters_wins(capsys):
  env, solved = terminal.make('sokoban', 1, None)
  words = [env.actions[a] for a in solved.actions]
  words[0] = LETTERS[words[0]].upper()
  terminal.play(env, solved, ['hm?', *words, 'up'], jax.random.key(0))
  out = capsys.readouterr().out
  best = len(solved.actions)
  assert out.endswith(f'solved in {best + 1} moves; the shortest is {best}\n')
  assert 'reward -0.2\n' in out
  assert 'reward 10.9\n' in out
  # The first board, one for each line, and none for the line after the end.
  assert out.count('######\n') == 2 * (best + 2)


def test_quitting(capsys):
  env, solved = terminal.make('sokoban', 1, None)
  terminal.play(env, solved, ['q', 'up'], jax.random.key(0))
  assert 'reward' not in capsys.readouterr().out


def test_a_lake_can_be_lost(capsys):
  env, solved = terminal.make('frozen_lake', 0, None)
  lines = ['down', 'left', 'up', 'right'] * 100
  terminal.play(env, solved, lines, jax.random.key(0))
  out = capsys.readouterr().out
  assert out.splitlines()[-1].split(' in ')[0] in ('solved', 'lost')


def test_a_bifurcation_is_won_by_its_demonstration(capsys):
  env, solved = terminal.make('bifurcation', 0, None)
  words = [env.actions[a] for a in solved.actions]
  terminal.play(env, solved, words, jax.random.key(0))
  out = capsys.readouterr().out
  assert out.endswith('solved in 5 moves; the shortest is 5\n')


@pytest.mark.parametrize('rows', ['#@$.#', '#@$ .#', '#@$  .#', '#@$   .#'])
def test_a_file_with_one_level_of_either_split(rows, tmp_path, capsys):
  file = tmp_path / 'one.txt'
  wall = '#' * len(rows)
  file.write_text(f'{wall}\n{rows}\n{wall}\n')
  env, solved = terminal.make('sokoban', 0, str(file))
  terminal.play(env, solved, ['d'] * 5, jax.random.key(0))
  best = len(rows) - 4
  last = f'solved in {best} moves; the shortest is {best}'
  assert capsys.readouterr().out.splitlines()[-1] == last


def test_levels_are_for_sokoban():
  with pytest.raises(ValueError, match='is for --env=sokoban, not frozen_lake'):
    terminal.make('frozen_lake', 0, 'x.txt')


def test_through_a_pipe():
  run = subprocess.run(
    [sys.executable, '-m', 'experiments.play', '--seed=1'],
    input='up\nq\n',
    capture_output=True,
    text=True,
    cwd=ROOT,
    env=os.environ | {'JAX_PLATFORMS': 'cpu'},
    check=True,
  )
  assert 'up, down, left, right, or q' in run.stdout
  assert run.stdout.count('reward -0.1') == 1
