"""Serves trained agents at an address that speaks like OpenAI and Anthropic.

  python -m experiments.serve runs/oprl
  python -m experiments.serve before=runs/warm after=runs/oprl --port=8000

A MODEL is the folder of a run, of which the newest policy is served, or of a
checkpoint. Requests name one by the folder's name, or as NAME=FOLDER calls it,
and every one has an engine with weights of its own. Weights are read only, and
nothing is written. The server listens on this machine alone, and clients show a
key that it prints, unless --host and --nokey say otherwise.
"""

import os
import threading

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT, COUNT0, Text, Whole

_HOST = cli.flag('host', '127.0.0.1', Text(), 'Address to listen on')
_PORT = cli.flag('port', 0, Whole(0, 65_535), 'Port; 0: any free one')
_KEY = flags.DEFINE_bool('key', True, 'Whether clients must show a key.')
_KEY_ENV = cli.flag(
  'key_env', '', Text(), 'Environment variable with the key; none: drawn'
)
_SLOTS = cli.flag('slots', 8, COUNT, 'Requests of a model decoded together')
_CONTEXT = cli.flag(
  'context', 0, COUNT0, 'Tokens of a prompt and its message; 0: as trained'
)
_MESSAGE = cli.flag('message', 0, COUNT0, 'Tokens of a message; 0: as trained')


def main(*models: str) -> None:
  from agentrl.run import serving  # takes seconds

  key = None if _KEY.value else ''
  if _KEY_ENV.value and not (key := os.environ.get(_KEY_ENV.value, '')):
    raise ValueError(
      f'--key_env={_KEY_ENV.value} is no environment variable with a key; set'
      ' it, or leave the flag out to have a key drawn'
    )
  loaded = {
    name: serving.load(folder, _CONTEXT.value, _MESSAGE.value)
    for name, folder in serving.sources(models).items()
  }
  where = {'host': _HOST.value, 'port': _PORT.value, 'key': key}
  with serving.opened(loaded, slots=_SLOTS.value, **where) as gateway:
    print(serving.invitation(gateway, loaded), flush=True)
    try:
      threading.Event().wait()
    except KeyboardInterrupt:
      print('closing', flush=True)


if __name__ == '__main__':
  cli.run(main, operands=('MODEL...',))
