"""Draws docs/images/view and docs/images/dashboard: pages of real runs.

  python -m docs.generate.pictures --run=runs/oprl --tree=runs/tree \\
    --compared=runs/grpo

Needs Chromium, and the runs: two that logged trajectories at several steps, one
of them with a method whose trajectories branch, and one to compare with.
"""

import pathlib
import tempfile

from absl import flags

from agentrl import cli
from agentrl.log import trajectories
from agentrl.report.dashboard import curves
from agentrl.report.dashboard import page as dashboard_page
from agentrl.report.trajectories import page as trajectories_page

_RUN = flags.DEFINE_string('run', None, 'Run whose trajectories are shown.')
_TREE = flags.DEFINE_string('tree', None, 'Run whose trajectories branch.')
_COMPARED = flags.DEFINE_string(
  'compared', None, 'Run beside --run on the dashboard.'
)
IMAGES = pathlib.Path('docs/images')
VIEW = {1280: 800, 375: 700}  # pixels of a window: width, height


def routes(log: trajectories.Log) -> dict[str, str]:
  """{picture: address in the viewer}, of what shows most.

  A group with solved and unsolved members late in RL, and its best member.
  """
  groups: dict[tuple, list[int]] = {}
  for i in range(len(log)):
    x = log[i]
    if x['phase'] == 'rl':
      groups.setdefault((x['step'], x['group']), []).append(i)
  mixed = [
    members
    for members in groups.values()
    if len({log[i]['outcome'] for i in members}) > 1
  ]
  best = max(mixed[-1], key=lambda i: log[i]['outcome'])
  return {
    'list': 'list/',
    'one': f'one/{best}',
    'group': f'group/{best}',
    'tree': f'tree/{best}',
    'times': 'side/{},{}'.format(*two_times(log)),
  }


def two_times(log: trajectories.Log) -> tuple[int, int]:
  """A held-out task at the first evaluation and the last, solved only then."""
  tasks: dict[int, list[int]] = {}
  for i in range(len(log)):
    if log[i]['phase'] == 'eval':
      tasks.setdefault(log[i]['task'], []).append(i)
  pairs = [(m[0], m[-1]) for m in tasks.values() if len(m) > 1]
  return max(pairs, key=lambda x: log[x[1]]['outcome'] - log[x[0]]['outcome'])


def main() -> None:
  from tests.report import chromium

  with chromium.browser() as browser, tempfile.TemporaryDirectory() as folder:

    def draw(url: str, drawn: str, name: str, width: int, height: int, **how):
      browser.size(width, height, **how)
      browser.do('Page.navigate', url='about:blank')
      browser.do('Page.navigate', url=url)
      browser.wait(drawn)
      browser.picture(IMAGES / name)
      print(f'written: {IMAGES / name}')

    views = ('list', 'one', 'group', 'times')
    for run, names in ((_RUN.value, views), (_TREE.value, ('tree',))):
      log = trajectories.Log(run)
      out = pathlib.Path(folder) / f'{pathlib.Path(run).name}.html'
      trajectories_page.save(log, out.stem, str(out), {}, len(log))
      found = routes(log)
      for name in names:
        url = f'file://{out}#{found[name]}'
        for width, height in VIEW.items():
          draw(url, chromium.DRAWN, f'view/{name}_{width}.png', width, height)
    out = pathlib.Path(folder) / 'dashboard.html'
    text = dashboard_page.page(curves.read([_RUN.value, _COMPARED.value]))
    out.write_text(text, encoding='utf-8')
    url, drawn = f'file://{out}', "document.querySelector('#numbers')"
    draw(url, drawn, 'dashboard/1280_light.png', 1280, 1400)
    draw(url, drawn, 'dashboard/375_dark.png', 375, 1400, dark=True)


if __name__ == '__main__':
  cli.run(main, required=('run', 'tree', 'compared'))
