"""Serves trained agents at an address that speaks like OpenAI and Anthropic.

  python -m experiments.serve before=runs/warm after=runs/oprl --port=8000

A MODEL is the folder of a run, whose newest policy is served, or of a
checkpoint. Requests name one by the folder's name, or as NAME=FOLDER calls it;
adapters of one rank on one base share an engine and the base's weights, other
models have their own. Weights are read only and nothing is written; with
--updates a run in training may bring new ones (host.generator). Only this
machine is listened to, and clients show a key that is printed, unless --host
and --nokey say otherwise.
"""

import contextlib
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
_UPDATES = cli.flag(
  'updates', '', Text(), 'Folder of new weights of a run in training; none'
)
_MESSAGE = cli.flag('message', 0, COUNT0, 'Tokens of a message; 0: as trained')


def main(*models: str) -> None:
  from agentrl.serve import serving  # takes seconds

  key = None if _KEY.value else ''
  if _KEY_ENV.value and not (key := os.environ.get(_KEY_ENV.value, '')):
    raise ValueError(
      f'--key_env={_KEY_ENV.value} must name an environment variable that holds'
      ' a key; set it, or leave the flag out to have a key drawn'
    )
  loaded = serving.load_all(
    serving.sources(models), _CONTEXT.value, _MESSAGE.value
  )
  how = {'slots': _SLOTS.value, 'updates': _UPDATES.value, 'key': key}
  how |= {'host': _HOST.value, 'port': _PORT.value}
  with serving.opened(loaded, **how) as gateway:
    print(serving.invitation(gateway, loaded), flush=True)
    with contextlib.suppress(KeyboardInterrupt):
      threading.Event().wait()


if __name__ == '__main__':
  cli.run(main, operands=('MODEL...',))
