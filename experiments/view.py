"""Shows the logged trajectories of a run in a browser.

  python -m experiments.view runs/oprl
  python -m experiments.view runs/oprl --out=some.html --only=phase=eval

The first serves a page to this machine until it is interrupted and follows a
run in progress. The second writes the newest trajectories that fit to one file;
--only takes filters such as phase=rl,from=100,to=200,outcome=unsolved,task=3.
"""

import os
import threading
import webbrowser

from absl import flags

from agentrl import cli
from agentrl.domain import COUNT, Path, Whole
from agentrl.runtime import storage

_OUT = cli.flag(
  'out', None, Path(empty=False), 'File to write, in place of serving'
)
_ONLY = flags.DEFINE_list('only', [], 'Filters of --out, e.g. phase=eval.')
_MOST = cli.flag('most', 200, COUNT, 'Most trajectories to write with --out')
_PORT = cli.flag('port', 0, Whole(0, 65_535), 'Port to serve; 0: any free one')
_OPEN = flags.DEFINE_bool('open', True, 'Whether to open a browser.')


def main(run: str) -> None:
  from agentrl.log import trajectories  # takes seconds
  from agentrl.report.trajectories import page, server

  log = trajectories.Log(run)
  name = os.path.basename(storage.absolute(run))
  if _OUT.value:
    filters = page.query(dict(x.partition('=')[::2] for x in _ONLY.value))
    n = page.save(log, name, _OUT.value, filters, _MOST.value)
    print(f'{n} of {len(log)} trajectories are in {_OUT.value}')
    return
  try:
    viewer = server.Server(log, name, _PORT.value)
  except (OSError, OverflowError) as error:
    raise ValueError(
      f'--port={_PORT.value} cannot be listened on ({error}); leave it out to'
      ' take a free one'
    ) from error
  print(f'{len(log)} trajectories at {viewer.url} until ^C', flush=True)
  if _OPEN.value:
    # A browser for terminals returns only when it is closed.
    browse = lambda: webbrowser.open(viewer.url)  # noqa: E731
    threading.Thread(target=browse, daemon=True).start()
  try:
    viewer.serve_forever()
  except KeyboardInterrupt:
    viewer.server_close()


if __name__ == '__main__':
  cli.run(main, operands=('RUN',))
