"""Play in the terminal: `python -m experiments.play --env=sokoban --seed=3`.

A line of input per turn: an action in words, or w a s d; q quits.
"""

import sys
from collections.abc import Iterable

import jax
import jax.numpy as jnp
from absl import flags

from agentrl.domain import SEED, Path
from agentrl.env import base, splits
from agentrl.env.jit import bifurcation, boxoban, frozen_lake, sokoban_levels
from configs import worlds
from experiments import cli

_ENV = flags.DEFINE_enum('env', 'sokoban', worlds.JITTED, 'Game.')
_SEED = cli.flag('seed', 0, SEED, 'Picks the task and the slips')
_LEVELS = cli.flag(
  'levels', None, Path(empty=False), 'Sokoban levels to pick from'
)
WORDS = {'w': 'up', 'a': 'left', 's': 'down', 'd': 'right'}


def make(name: str, seed: int, levels: str | None):
  """-> (environment, task)."""
  if levels and name != 'sokoban':
    raise ValueError(f'--levels={levels} is for --env=sokoban, not {name}')
  source, env_for, split = sokoban_levels.Generated(), sokoban_levels.env_for, 0
  if name == 'frozen_lake':
    source, env_for = frozen_lake.Lakes(), frozen_lake.env_for
  elif name == 'bifurcation':
    source, env_for = bifurcation.Bifurcations(), bifurcation.env_for
  elif levels:
    source = boxoban.Boxoban(levels, max_nodes=20_000)
    split = int(not source.sizes()['train'])  # a file may hold one level
  return env_for(source), next(source.solved(splits.SPLITS[split], 1, seed))


def play(env, solved: base.SolvedTask, lines: Iterable[str], key: jax.Array):
  """One trajectory with the actions of `lines`; what happens is printed."""
  state, obs = env.reset(key, solved.task)
  print(f'{base.render_text(env, obs)}{", ".join(env.actions)}, or q')
  for turn, line in enumerate(lines, 1):
    word = WORDS.get(line.strip().lower(), line.strip().lower())
    if word == 'q':
      return
    action = env.actions.index(word) if word in env.actions else -1
    turn_key = jax.random.fold_in(key, turn)
    state, obs, reward, done = env.step(state, jnp.int32(action), turn_key)
    print(f'{base.render_text(env, obs)}reward {float(reward):g}')
    if done:
      won = 'solved' if env.score(state) == 1 else 'lost'
      best = len(solved.actions) or 'unknown'
      print(f'{won} in {turn} moves; the shortest is {best}')
      return


def main() -> None:
  env, solved = make(_ENV.value, _SEED.value, _LEVELS.value)
  play(env, solved, sys.stdin, jax.random.key(_SEED.value))


if __name__ == '__main__':
  cli.run(main)
