"""Programs that tests start: by name, in threads or as commands."""

import json
import os
import sys
import time
from collections import Counter

from agentrl.env.files.program import world_of
from tests.gateway.stub import Client, user


def play(address, key, task):
  """A world, played as our own loop plays it."""
  client, (env, text) = Client(address, key), world_of(task)
  messages, step, terms = [user(text)], None, Counter()
  while step is None or not step.done:
    body = {'messages': messages}
    status, reply = client.post('v1/chat/completions', body)
    if status == 400:
      break
    message = reply['choices'][0]['message']
    step = env.step(message['content'])
    terms.update(step.info)
    messages += [message, user(step.text)]
  reward = {'reward': step.reward, 'score': step.score, 'terms': terms}
  assert client.post('reward', reward)[0] == 200


def once(address, key, task):
  """One call, and no reward: a grader scores it, or a judge."""
  Client(address, key).chat([user(task['question'])])


def termed(address, key, task):
  """One call, which earns nothing but terms, one of which nobody names."""
  client = Client(address, key)
  reply = client.chat([user(task['question'])])
  even = len(reply['choices'][0]['message']['content']) % 2
  terms = {'format': even, 'faults': 2, 'other': 1}
  client.post('reward', {'reward': 0, 'terms': terms})


def grade(task, messages):
  assert [x['role'] for x in messages] == ['user', 'assistant']
  return messages[0]['content'] == task['question']


def forked(address, key, task):
  """Two calls, the second with a history of its own; then a branch of it."""
  client = Client(address, key)
  client.chat([user('x')])
  other = {'role': 'assistant', 'content': 'never said'}
  talk = [user('x'), other, user('y')]
  message = client.chat(talk)['choices'][0]['message']
  for text in 'ab':
    said = client.chat([*talk, message, user(text)])
  text = said['choices'][0]['message']['content']
  client.post('reward', {'reward': sum(map(ord, text)) % 2})


def greedy(address, key, task):
  """Calls until it is refused, and fails of it."""
  client = Client(address, key)
  while True:
    client.chat([user('x')])


def broken(address, key, task):
  raise OSError(f'no {task["question"]}')


def strict(address, key, task):
  """Takes no message that was cut, as some clients do."""
  reply = Client(address, key).chat([user('x')])
  if reply['choices'][0]['finish_reason'] == 'length':
    raise RuntimeError('the response is incomplete')


def unrewarded(address, key, task):
  """Ends without a word."""


def slow(address, key, task):
  time.sleep(5)


def main():
  """The function named first, as a command: of what a command is given."""
  function = globals()[sys.argv[1]]
  address, key = os.environ['AGENTRL_ADDRESS'], os.environ['OPENAI_API_KEY']
  function(address, key, json.load(sys.stdin))


if __name__ == '__main__':
  main()
