"""Plays GEM's games: `python gem_episodes.py ids`, in an interpreter with GEM.

Prints a line of JSON for each id: episodes, turns, and in how many episodes a
second environment, which has played others before, said something else.
"""

import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3]))

from agentrl.env.external.gymnasium_env import GymnasiumMaker

EPISODES = 20
TURNS = 12
WAYS = ('up', 'down', 'left', 'right')
DIGITS = '123456789'
# What the actions of a game are made of, a choice of each.
MOVES = {
  'GuessTheNumber': (DIGITS,),
  'Mastermind': ('123', '456', '78', '9'),
  'Minesweeper': (('reveal', 'flag'), '01234', '01234'),
  'FifteenPuzzle': (WAYS,),
  'Sudoku': ('1234', '1234', '1234'),
  'TowerofHanoi': ('ABC', 'ABC'),
  'Game2048': (WAYS,),
  'Sokoban': (WAYS,),
}


def play(env, game, seed):
  """Everything that an episode says."""
  random_move = random.Random(seed)
  out = [env.reset({'seed': seed}, 0)]
  for _ in range(TURNS):
    move = ' '.join(random_move.choice(x) for x in MOVES[game])
    step = env.step(f'\\boxed{{{move}}}')
    out.append(list(step[:4]))
    if step.done:
      break
  return out


def main(ids):
  for id in ids:
    game = id.split(':')[1].split('-')[0]
    maker = GymnasiumMaker('gem:make', id, '', solved=1.0)
    one, two = maker.env(), maker.env()
    first = {seed: play(one, game, seed) for seed in range(EPISODES)}
    again = {seed: play(two, game, seed) for seed in reversed(range(EPISODES))}
    row = {
      'id': id,
      'episodes': len(first),
      'turns': sum(len(x) - 1 for x in first.values()),
      'differ': sum(first[seed] != again[seed] for seed in first),
      'distinct': len({json.dumps(x) for x in first.values()}),
      'ended': sum(x[-1][2] for x in first.values()),
    }
    print(json.dumps(row), flush=True)


if __name__ == '__main__':
  main(sys.argv[1:])
