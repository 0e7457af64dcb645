"""Play in the terminal: `python -m experiments.play --env=sokoban --seed=3`.

A line of input per turn: an action in words, or w a s d; q quits.
"""

import sys

import jax
from absl import flags

from agentrl import cli
from agentrl.configs import envs
from agentrl.domain import SEED, Path
from agentrl.env.jit import terminal

_ENV = flags.DEFINE_enum('env', 'sokoban', envs.JITTED, 'Game.')
_SEED = cli.flag('seed', 0, SEED, 'Picks the task and the slips')
_LEVELS = cli.flag(
  'levels', None, Path(empty=False), 'Sokoban levels to pick from'
)


def main() -> None:
  env, solved = terminal.make(_ENV.value, _SEED.value, _LEVELS.value)
  terminal.play(env, solved, sys.stdin, jax.random.key(_SEED.value))


if __name__ == '__main__':
  cli.run(main)
