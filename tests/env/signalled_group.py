"""A program whose group is told to end while commands of its own run.

  python -m tests.env.signalled_group FOLDER

Begins a command and a line server, which end and answer once a file is there,
then tells its whole group to end, as Ctrl-C does, and makes the file.
"""

import os
import pathlib
import signal
import sys
import threading
import time

from agentrl.env.external.line_server import LineServer
from agentrl.env.files.program_run import CommandRun

ANSWER = """
import json, os, sys, time
input()
while not os.path.exists(sys.argv[1]):
  time.sleep(0.01)
print(json.dumps({'id': 0, 'answer': {}}), flush=True)
"""


def main(folder: pathlib.Path) -> None:
  wait = f'touch {folder}/begun; while ! test -e {folder}/sent; do sleep .05;'
  run = CommandRun(['sh', '-c', f'{wait} done'], 'http://h/s/a', 'key', {})
  told = []

  def live():
    try:
      run.wait()
      told.append('whole')
    except Exception as error:
      told.append(str(error))

  thread = threading.Thread(target=live)
  thread.start()
  words = [sys.executable, '-c', ANSWER, str(folder / 'sent')]
  server = LineServer(words, {})
  pending = server.ask({})
  signals = []
  for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: signals.append(number))
  while not (folder / 'begun').exists():
    time.sleep(0.01)
  for number in (signal.SIGTERM, signal.SIGINT):
    os.killpg(0, number)
  time.sleep(0.3)
  (folder / 'sent').touch()
  thread.join()
  told.append(dict(pending.wait()))
  server.close()
  print(told, len(signals))


if __name__ == '__main__':
  main(pathlib.Path(sys.argv[1]))
