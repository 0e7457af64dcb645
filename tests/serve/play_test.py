"""Playing by hand, from a list of lines and through a pipe."""

import os
import pathlib
import subprocess
import sys

import pytest

from agentrl.configs import envs
from agentrl.run import config_file
from agentrl.run.play import jit_env
from agentrl.serve import play
from tests import errors

ROOT = pathlib.Path(__file__).parents[2]
LETTERS = {word: letter for letter, word in play.LETTERS.items()}


def solution(name: str, seed: int) -> list[str]:
  """The actions that solve what `play` shows for this seed."""
  source, env = jit_env.environment(config_file.load(f'grpo:env={name}'))
  (solved,) = source.tasks('train', 1, seed)
  return [env.actions[a] for a in solved.actions]


def test_a_solution_in_words_and_letters_wins(capsys):
  words = solution('sokoban', 1)
  lines = [LETTERS[words[0]].upper(), *words[1:], 'up']
  play.play('sokoban', 1, None, lines)
  out, n = capsys.readouterr().out, len(words)
  assert out.endswith(f'solved in {n} moves; the shortest solution has {n}\n')
  assert 'reward 10.9\n' in out
  # The first board, one for each move, and none for the line after the end.
  assert out.count('######\n') == 2 * (n + 1)


def test_a_mistyped_word_costs_nothing(capsys):
  play.play('sokoban', 1, None, ['hm?', '', 'up', 'q'])
  out = capsys.readouterr().out
  assert "'hm?': up, down, left, right" in out
  assert out.count('reward ') == 1
  assert 'left unsolved after 1 moves' in out


@pytest.mark.parametrize('name', ['sokoban', 'frozen_lake'])
def test_the_legend_has_every_symbol_and_comes_first(name, capsys):
  play.play(name, 0, None, ['q'])
  out = capsys.readouterr().out
  _, env = jit_env.environment(config_file.load(f'grpo:env={name}'))
  assert out.startswith(env.legend)
  symbols = [x for x in env.pieces if x.strip() and not x.isdigit()]
  assert [x for x in symbols if f'{x} ' not in env.legend] == []


def test_a_lake_can_be_lost(capsys):
  play.play('frozen_lake', 0, None, ['down', 'left', 'up', 'right'] * 100)
  last = capsys.readouterr().out.splitlines()[-1]
  assert last.split(' in ')[0] in ('solved', 'lost')


def test_a_world_of_text_takes_messages(capsys):
  play.play('interview', 0, None, ['', 'below 15?', 'q', 'is it 3?'])
  out = capsys.readouterr().out
  assert "'': any text" in out
  assert out.count('you: below 15?') == 1
  assert out.count('reward 0') == 1


def test_a_person_may_hand_over_and_take_over():
  person = play.Person(['', 'nope', 'up', 'g'], ('up', 'down'), agent=True)
  assert [person.ask() for _ in range(5)] == [None, 'up', None, None, None]
  with pytest.raises(play.Quit):
    play.Person([]).ask()


@pytest.mark.parametrize('rows', ['#@$.#', '#@$ .#', '#@$  .#', '#@$   .#'])
def test_a_file_with_one_level_of_either_split(rows, tmp_path, capsys):
  file = tmp_path / 'one.txt'
  wall = '#' * len(rows)
  file.write_text(f'{wall}\n{rows}\n{wall}\n')
  play.play('sokoban', 0, str(file), ['d'] * 5)
  n = len(rows) - 4
  last = f'solved in {n} moves; the shortest solution has {n}'
  assert capsys.readouterr().out.splitlines()[-1] == last


def test_mistakes_are_sentences():
  with errors.raises(ValueError, '--env sokoban frozen_lake'):
    play.play('frozen_lake', 0, 'x.txt', [])
  with errors.raises(ValueError, 'sokobann'):
    play.play('sokobann', 0, None, [])


@pytest.mark.slow
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
  assert 'up, down, left, right (w a s d, arrow keys); q: quit' in run.stdout
  assert run.stdout.count('reward -0.1') == 1
  assert run.stderr.startswith('loading sokoban')


def test_a_game_of_several_seats_names_who_reads_what(capsys):
  c = config_file.load('grpo:env=negotiation')
  (solved,) = envs.family(c).tasks('train', 1, 0)
  play.play('negotiation', 0, None, solved.demonstration)
  out = capsys.readouterr().out
  assert out.count('pool ') == 2  # each seat is told once
  assert [f'{seat}: ' in out for seat in ('first', 'second')] == [True] * 2
  assert ' earns ' in out
  assert '{' not in out
  assert out.splitlines()[-1].startswith('solved in 2 moves')


def test_moves_that_are_letters_or_capitals_are_played_as_they_are(capsys):
  actions = ['a', 'b', 'A_', 'a_']
  person = play.Person(['a', 'A_', 'B'], actions)
  assert [person.ask() for _ in range(3)] == ['a', 'A_', 'b']
