"""The tool and the reward that all examples share."""

import json
import urllib.request

SYSTEM = 'Use the tool, then answer with a number.'
NAME, DESCRIPTION = 'add', 'Adds two numbers.'
SCHEMA = {
  'type': 'object',
  'properties': {'a': {'type': 'number'}, 'b': {'type': 'number'}},
  'required': ['a', 'b'],
}
TURNS = 4


def add(arguments: dict) -> str:
  """Returns the sum as text, or why there is none."""
  try:
    return str(arguments['a'] + arguments['b'])
  except (KeyError, TypeError) as error:
    return f'{type(error).__name__}: {error}'


def post_reward(address: str, key: str, task: dict, answer: str) -> None:
  """Posts 1 for an answer that ends with the right number, else 0."""
  reward = float(answer.split()[-1:] == [task['answer']])
  post(address, key, {'reward': reward})


def post(address: str, key: str, earned: dict) -> None:
  """Posts a task's pay: {'reward': number}, and 'score' in [0, 1], 'terms'."""
  request = urllib.request.Request(
    f'{address}/reward',
    json.dumps(earned).encode(),
    {'Authorization': f'Bearer {key}'},
  )
  urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
