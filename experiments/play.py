"""Plays one episode in the terminal: a person, the agent of a run, or both.

  python -m experiments.play --env=sokoban --seed=3
  python -m experiments.play --env=countdown
  python -m experiments.play --workdir=runs/oprl
  python -m experiments.play --workdir=runs/oprl --gif=agent.gif

A line is a move: an action in words, w a s d or an arrow key, or in worlds of
text a message. With --workdir, Enter lets the agent of that run move and g lets
it play on; what it reads is what it read in training. q quits. --gif asks
nobody: it draws the first of the agent's episodes on held-out tasks that is
solved.
"""

import sys

from agentrl import cli
from agentrl.domain import SEED, Path, Real, Text

_ENV = cli.flag('env', None, Text(), 'Environment to play without an agent')
_WORKDIR = cli.workdir_flag('Run whose agent plays', bucket=True)
_SEED = cli.flag('seed', 0, SEED, 'Seed of the task and of all randomness')
_LEVELS = cli.flag('levels', None, Path(empty=False), 'File of Sokoban levels')
_TEMPERATURE = cli.flag(
  'temperature', 1.0, Real(0, 100), 'Temperature of the agent; 0: greedy'
)
_GIF = cli.flag('gif', None, Path(empty=False), 'Animation to write')


def main() -> None:
  if _WORKDIR.value and _ENV.value:
    raise ValueError(
      f'--env={_ENV.value} beside --workdir={_WORKDIR.value}: a run plays its'
      ' own environment; leave one of the two out'
    )
  if _GIF.value and not _WORKDIR.value:
    raise ValueError(
      f'--gif={_GIF.value} shows the agent of a run; name it with --workdir'
    )
  env = _ENV.value or 'sokoban'
  print(f'loading {_WORKDIR.value or env} ...', file=sys.stderr, flush=True)
  from agentrl.runtime import storage  # takes seconds, as the others do
  from agentrl.serve import keyboard, play, play_agent

  if not _WORKDIR.value:
    lines = keyboard.lines(sys.stdin)
    play.play(env, _SEED.value, _LEVELS.value, lines)
    return
  run = storage.absolute(_WORKDIR.value)
  how = _SEED.value, _LEVELS.value, _TEMPERATURE.value
  if _GIF.value:
    from agentrl.report import animation

    print(animation.write(_GIF.value, *play_agent.solved_episode(run, *how)))
    return
  play_agent.play(run, *how, keyboard.lines(sys.stdin))


if __name__ == '__main__':
  cli.run(main)
