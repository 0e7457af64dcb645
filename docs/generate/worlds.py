"""Draws docs/images/worlds.png: the first observation of each jit environment.

python -m docs.generate.worlds
"""

import jax

from agentrl import cli
from agentrl.configs import envs
from agentrl.env.jit import base
from agentrl.report import animation
from agentrl.run import config_file
from agentrl.run.play import jit_env

PICTURE = 'docs/images/worlds.png'


def first_observation(name: str) -> str:
  """The text of the first training task with the settings of a config."""
  source, env = jit_env.environment(config_file.load(f'grpo:env={name}'))
  (solved,) = source.tasks('train', 1, 1)
  return base.render_text(env, env.reset(jax.random.key(0), solved.task)[1])


def main() -> None:
  animation.picture({n: first_observation(n) for n in envs.JITTED}, PICTURE)
  print(f'written: {PICTURE}')


if __name__ == '__main__':
  cli.run(main, required=())
