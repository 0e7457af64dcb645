"""Looks at the trajectories that a run kept, in a browser.

  python -m experiments.view runs/oprl
  python -m experiments.view runs/oprl --out=some.html --only=phase=eval

The first serves a page on this machine alone until it is interrupted, and
follows a run that is still going on. The second writes a file that shows the
newest trajectories that fit, to be sent to somebody; --only takes the filters
of the page, such as phase=rl,from=100,to=200,outcome=unsolved,task=3.
"""

import os
import threading
import webbrowser

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT, Path, Whole
from agentrl.log import trajectories
from agentrl.report.trajectories import page
from agentrl.report.trajectories import server as trajectories_server

_OUT = cli.flag(
  'out', None, Path(empty=False), 'File to write, in place of serving'
)
_ONLY = flags.DEFINE_list('only', [], 'Filters of --out: name=value,...')
_MOST = cli.flag('most', 200, COUNT, 'Trajectories of --out')
_PORT = cli.flag('port', 0, Whole(0, 65_535), 'Of the server; 0: any free one')
_OPEN = flags.DEFINE_bool('open', True, 'Whether to open a browser.')


def main(run: str) -> None:
  log = trajectories.Log(run)
  name = os.path.basename(os.path.abspath(run))
  if _OUT.value:
    asked = page.query(dict(x.partition('=')[::2] for x in _ONLY.value))
    n = page.save(log, name, _OUT.value, asked, _MOST.value)
    print(f'{n} of {len(log)} trajectories are in {_OUT.value}')
    return
  try:
    server = trajectories_server.Server(log, name, _PORT.value)
  except (OSError, OverflowError) as error:
    raise ValueError(
      f'--port={_PORT.value} cannot be listened on ({error}); leave it out to'
      ' take a free one'
    ) from error
  print(f'{len(log)} trajectories at {server.url} until ^C', flush=True)
  if _OPEN.value:
    # A browser for terminals returns only when it is closed.
    browse = lambda: webbrowser.open(server.url)  # noqa: E731
    threading.Thread(target=browse, daemon=True).start()
  try:
    server.serve_forever()
  except KeyboardInterrupt:
    server.server_close()


if __name__ == '__main__':
  cli.run(main, operands=('RUN',))
