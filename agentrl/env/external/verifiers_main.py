"""Tasks of verifiers, run in its own virtual environment.

`python verifiers_main.py config`: answers lines of JSON as line_server asks.
Imports the standard library and verifiers alone.

  request   {"index": 3, "address": "http://...", "key": "...", "model": "..."}
  answer    {"reward": 1.0}
"""

import asyncio
import json
import os
import sys

_KEY = 'AGENTRL_POLICY_KEY'  # variable by which verifiers finds the key


class Tasks:
  """Tasks by their place in the taskset, which may have no end."""

  def __init__(self, taskset):
    self._rest, self._seen = iter(taskset), []

  def __getitem__(self, index):
    while len(self._seen) <= index:
      try:
        self._seen.append(next(self._rest))
      except StopIteration:
        raise IndexError(
          f'the taskset has {len(self._seen)} tasks; set env.size to that'
        ) from None
    return self._seen[index]


async def play(vf, env, tasks, request):
  """Returns the reward of an episode, added up over its traces."""
  from verifiers.v1.clients import EvalClientConfig, ModelContext

  os.environ[_KEY] = request['key']
  client = EvalClientConfig(
    base_url=f'{request["address"]}/v1', api_key_var=_KEY
  )
  context = ModelContext(
    model=request['model'], client=client, sampling=vf.SamplingConfig()
  )
  episode = await env.run_episode(tasks[request['index']], context)
  if not episode.ok:
    errors = [*episode.errors, *(e for t in episode.traces for e in t.errors)]
    raise RuntimeError('; '.join(f'{e.type}: {e.message}' for e in errors[:2]))
  return {'reward': float(sum(t.reward for t in episode.traces))}


async def serve(config, send):
  """Answers until the input ends."""
  import verifiers.v1 as vf
  from verifiers.v1.utils.loaders import load_environment, resolve_env_config

  env = load_environment(resolve_env_config(config))
  tasks, running = Tasks(env.taskset), {}

  async def answer(number, request):
    try:
      send({'id': number, 'answer': await play(vf, env, tasks, request)})
    except Exception as error:  # of one episode
      send({'id': number, 'error': f'{type(error).__name__}: {error}'})
    finally:
      running.pop(number, None)

  async with env.serving():
    while line := await asyncio.to_thread(sys.stdin.readline):
      message = json.loads(line)
      number = message['id']
      if 'cancel' in message:
        if number in running:
          running[number].cancel()
      else:
        running[number] = asyncio.create_task(
          answer(number, message['request'])
        )


def main():
  # Whatever a package prints goes to the errors, and not between the answers.
  output = os.fdopen(os.dup(1), 'w')
  os.dup2(2, 1)

  def send(message):
    output.write(json.dumps(message) + '\n')
    output.flush()

  asyncio.run(serve(json.loads(sys.argv[1]), send))


if __name__ == '__main__':
  main()
