"""A process that answers lines, and what its death costs."""

import sys
import threading

import pytest

from agentrl.env.external.line_server import LineError, LineServer
from tests import errors

SCRIPT = """
import json, os, sys, threading, time

lock = threading.Lock()

def send(message):
  with lock:
    print(json.dumps(message), flush=True)

waiting = {}
for line in sys.stdin:
  message = json.loads(line)
  number = message['id']
  if 'cancel' in message:
    continue
  do = message['request']['do']
  if do == 'echo':
    answer = {'pid': os.getpid(), 'env': os.environ['MARK']}
    send({'id': number, 'answer': answer})
  elif do == 'hold':
    waiting[number] = True
  elif do == 'release':
    for x in reversed(list(waiting)):
      send({'id': x, 'answer': {'number': x}})
    send({'id': number, 'answer': {}})
  elif do == 'fail':
    send({'id': number, 'error': 'it does not work'})
  elif do == 'no answer':
    send({'id': number, 'answer': 3})
  elif do == 'garbage':
    print('{', flush=True)
  elif do == 'number':
    print('{"id": [1]}', flush=True)
  elif do == 'long':
    print('x' * (1 << 21), flush=True)
  elif do == 'die':
    print('my last words', file=sys.stderr, flush=True)
    os._exit(3)
"""


@pytest.fixture(scope='module')
def server():
  it = LineServer([sys.executable, '-c', SCRIPT], {'MARK': 'here'})
  yield it
  it.close()


def ask(server, do):
  return server.ask({'do': do})


def test_answers_find_their_questions(server):
  first = ask(server, 'echo').wait()
  assert first['env'] == 'here'
  held = [ask(server, 'hold') for _ in range(3)]
  assert ask(server, 'echo').wait() == first
  assert not any(x.future.done() for x in held)
  ask(server, 'release').wait()
  numbers = [x.wait()['number'] for x in held]
  assert numbers == sorted(set(numbers))


def test_an_error_is_of_one_request(server):
  before = ask(server, 'echo').wait()
  with pytest.raises(LineError):
    ask(server, 'fail').wait()
  with pytest.raises(LineError):
    ask(server, 'no answer').wait()
  assert ask(server, 'echo').wait() == before


@pytest.mark.parametrize(
  ('do', 'words'),
  [('die', '3'), ('garbage', ''), ('number', ''), ('long', 'long')],
)
def test_a_death_costs_what_is_under_way(server, do, words):
  before, held = ask(server, 'echo').wait(), ask(server, 'hold')
  last = ask(server, do)
  for one in (held, last):
    with errors.raises(LineError, words):
      one.wait()
  assert ask(server, 'echo').wait()['pid'] != before['pid']


def test_what_is_taken_back_is_over_at_once(server):
  held = ask(server, 'hold')
  held.cancel()
  held.cancel()
  with pytest.raises(LineError):
    held.wait()
  ask(server, 'release').wait()


def test_a_process_outlives_the_thread_that_asked_first():
  server = LineServer([sys.executable, '-c', SCRIPT], {'MARK': 'x'})
  pids = []
  thread = threading.Thread(
    target=lambda: pids.append(ask(server, 'echo').wait()['pid'])
  )
  thread.start()
  thread.join()
  assert ask(server, 'echo').wait()['pid'] == pids[0]
  server.close()
  server.close()


def test_a_command_that_is_none():
  server = LineServer(['/no/such/program'], {})
  with pytest.raises(LineError):
    ask(server, 'echo').wait()
  server.close()


def test_nothing_is_started_until_it_is_asked():
  LineServer(['/no/such/program'], {}).close()
