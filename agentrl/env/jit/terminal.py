"""Games in a terminal: a person is asked for every action."""

from collections.abc import Iterable

import jax
import jax.numpy as jnp

from agentrl.env import splits
from agentrl.env.jit import (
  base,
  bifurcation,
  boxoban,
  frozen_lake,
  sokoban_levels,
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
