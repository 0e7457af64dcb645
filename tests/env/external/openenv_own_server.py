"""A server of openenv itself: `python openenv_own_server.py port sessions`.

Its episodes have `length` turns, 3 or as reset says, and echo what they get.
"""

import sys

import uvicorn
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Say(Action):
  message: str


class Heard(Observation):
  echo: str


class Echo(Environment):
  SUPPORTS_CONCURRENT_SESSIONS = True

  def __init__(self):
    super().__init__()
    self.seed, self.turn, self.length = 0, 0, 3

  def reset(self, seed=None, episode_id=None, length=3):
    self.seed, self.turn, self.length = seed, 0, length
    return Heard(echo=f'begin {seed}', done=False)

  def step(self, action, timeout_s=None):
    self.turn += 1
    if action.message == 'raise':
      raise RuntimeError('it broke')
    done = self.turn == self.length
    return Heard(echo=f'{self.seed}: {action.message}', reward=0.5, done=done)

  @property
  def state(self):
    return State(step_count=self.turn)


def main(port, sessions):
  app = create_fastapi_app(Echo, Say, Heard, max_concurrent_envs=sessions)
  uvicorn.run(app, host='127.0.0.1', port=port, log_level='warning')


if __name__ == '__main__':
  main(int(sys.argv[1]), int(sys.argv[2]))
