"""Writes docs/METHODS.md and a page of docs/methods for every method.

  python -m experiments.methods

All of it is read from the configs and the registry, from the results of the
board, and from the numbers and the picture that `python -m experiments.credit
--out=docs` wrote.
"""

import functools
import importlib
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentrl import registry
from agentrl.configs import base
from agentrl.lab.papers.credit import report as credit_report
from agentrl.run import config_file
from docs.generate import (
  advice,
  board,
  config,
  method_cost,
  method_groups,
  results,
)

PAGE = 'METHODS.md'
FOLDER = 'methods'
DOCS = pathlib.Path('docs')
NUMBERS = DOCS / 'credit.json'
# Slots that a method rarely changes: shown where they are not these.
USUAL = {
  'task': 'fixed',
  'recall': 'none',
  'prefix': 'none',
  'rollout': 'jit',
  'collect': 'once',
  'minibatch': 'minibatches',
}
# Begins the paragraph that says what of its paper a config lacks.
MISSING = 'Missing:'
_SHOWN = tuple(c for c in credit_report.COLUMNS if c != 'seconds')
_HEAD = """\
# Methods

Made by `python -m experiments.methods` from `configs/` and from
[results](RESULTS.md); do not edit it. A method is a config of a few lines, and
each has a page: its equation, its components and where it differs from its
paper.

## Which to try first

"""
_COST = """\
Methods are grouped by what they share. Costs are per iteration, beside sampling
and training the policy. *Networks* are those beside the policy.
*Passes* are networks that read the batch once more before the update, and the
gradient steps of trained ones; a signal counts as one pass of each network it
reads. *Attempts* are sampled for each trajectory that is trained on.
"""

_HALF = """\
What these lack is part of their paper's idea. A result of one of them is about
the part that runs.
"""


class Said(NamedTuple):
  """The parts of a config's docstring."""

  line: str  # what the method is
  title: str  # of its paper; empty where it has none of its own
  arxiv: str
  rest: str  # equation, differences, what to expect; Markdown
  missing: str  # what of its paper it lacks; empty if nothing of its idea

  @property
  def link(self) -> str:
    return f'[{self.arxiv}](https://arxiv.org/abs/{self.arxiv})'


def parse_docstring(doc: str) -> Said:
  """Reads the docstring of a config.

  Raises:
    ValueError: it says `missing` elsewhere, where no list finds it.
  """
  parts = re.split(r'\n\s*\n', doc.strip())
  papers = [p for p in parts if p.startswith('Paper')]
  match = re.search(r'\b\d{4}\.\d{5}\b', papers[0] if papers else doc)
  title = ''
  if papers:
    title = re.sub(r'^Papers?:\s*', '', ' '.join(papers[0].split()))
    title = re.split(r',?\s*\(?(?:arXiv:?\s*)?\b\d{4}\.\d{5}', title)[0]
  rest = [
    f'```\n{p}\n```' if p.startswith('  ') else p  # indented: equations
    for p in parts[1:]
    if p not in papers[:1] and not p.lstrip().startswith('python -m')
  ]
  return Said(
    line=' '.join(parts[0].split()),
    title=title.rstrip('., '),
    arxiv=match.group() if match else '',
    rest='\n\n'.join(rest),
    missing=_missing(parts),
  )


def _missing(parts: list[str]) -> str:
  found = [x for x in parts if x.startswith(MISSING)]
  for x in parts:
    if x not in found and (word := re.search(r'\bmissing\b', x, re.I)):
      raise ValueError(
        'what is missing must stand in a paragraph that begins with'
        f' {MISSING!r}, got {x[max(0, word.start() - 40) : word.end() + 40]!r}'
      )
  return ' '.join(' '.join(x.removeprefix(MISSING) for x in found).split())


def method_page(name: str, group: str) -> str:
  """Returns the page of a method."""
  c, doc = method(name)
  w, cost = base.wiring(c), method_cost.cost(c)
  paper = f'{doc.title}, {doc.link}' if doc.title else f'see {doc.link}'
  lines = [f'# {name}', '', doc.line, '', f'Paper: {paper}', '']
  lines += [doc.rest, ''] if doc.rest else []
  lines += ['```bash', _train(name), '```', '', '## Components', '']
  lines += [f'- {what}: {text}' for what, text in _slots(c, w) if text]
  lines += ['', '## Cost', '', 'Beside sampling and training the policy:', '']
  lines += [
    f'- networks: {cost.networks_text()}',
    f'- passes: {cost.passes_text()}',
    f'- attempts for each trajectory: {cost.attempts_text()}',
  ]
  lines += ['', '## Source', '']
  for path in (f'configs/{name}.py', *_files(w)):
    lines.append(f'- [`{path}`](../../{path})')
  anchor = _anchor(group)
  lines += ['', f'Group: [{group}](../{PAGE}#{anchor}).']
  return '\n'.join([*lines, ''])


def _train(name: str) -> str:
  return (
    f'python -m experiments.train --config=configs/{name}.py \\\n'
    f'  --workdir=runs/{name}'
  )


def _slots(c, w: registry.MethodSpec):
  """(what, components) of everything the method chooses."""

  def code(names, sep=' + '):
    return sep.join(f'`{n}`' for n in names)

  rare = {
    'task': w.task,
    'recall': w.recall,
    'prefix': w.prefix,
    'rollout': w.rollout,
    'collect': w.collect,
    'minibatch': w.minibatch,
  }
  for slot, name in rare.items():
    yield slot, f'`{name}`' if name != USUAL[slot] else ''
  own = c.role.policy.optimizer
  yield 'optimizer', f'`{own}`' if own != 'adam' else ''
  yield 'reward', code(w.reward) if w.reward != ('env',) else ''
  yield 'curate', code(w.curate, ', ')
  yield 'signals', code(w.signal, ', ')
  for stream in w.advantage:
    by = f' x {c.coef[stream]:g}' if c.coef[stream] != 1 else ''
    yield f'stream {stream}', code(w.stream[stream], ' → ') + by
  yield 'post', code(w.post, ' → ')
  terms = (
    f'`{n}`'
    + (f' x {c.coef[n]:g}' if c.coef[n] != 1 else '')
    + f' by `{w.loss_aggregation[n]}`'
    for n in w.loss
  )
  yield 'loss', ' + '.join(terms)
  yield 'memory', code(w.memory, ', ')
  beside = [f'`{n}` ({r.kind})' for n, r in c.role.items() if n != 'policy']
  yield 'roles beside the policy', ', '.join(beside)


def _files(w: registry.MethodSpec) -> list[str]:
  """The modules of its components, but for the usual ones."""
  modules = [
    registry.get(slot, name).f.__module__
    for _, slot, name in registry.parts(w)
    if USUAL.get(slot) != name and (slot, name) != ('reward', 'env')
  ]
  return [x.replace('.', '/') + '.py' for x in sorted(set(modules))]


@functools.cache
def method(name: str) -> tuple[Any, Said]:
  """A method's config, and what its docstring says."""
  module = importlib.import_module(f'agentrl.configs.{name}')
  return module.get_config(), parse_docstring(module.__doc__)


def pages(names: list[str], report: dict) -> dict[str, str]:
  """Returns the text of every page by its path below docs.

  Args:
    report: of `credit.measure`
  """
  method_groups.check(names)
  return {PAGE: index(report)} | {
    f'{FOLDER}/{name}.md': method_page(name, group)
    for group, members in method_groups.GROUPS.items()
    for name in members
  }


def index(report: dict) -> str:
  """Returns METHODS.md: advice, an overview of each group, measured credit."""
  published = results.reports(str(DOCS / 'results'))
  lines = [
    _HEAD
    + advice.text(published[board.NAME], published[advice.LANGUAGE], FOLDER),
    '## All methods',
    '',
    _COST,
  ]
  for title, members in method_groups.GROUPS.items():
    lines += [f'### {_capital(title)}', '', *_overview(members), '']
  lines += ['## Half done', '', _HALF, *_half_done(), '']
  return '\n'.join([*lines, '## Credit', '', _measured(report)])


def _link(name: str) -> str:
  return f'[{name}]({FOLDER}/{name}.md)'


def _capital(title: str) -> str:
  return title[0].upper() + title[1:]


def _anchor(title: str) -> str:
  """The anchor that GitHub gives a heading."""
  return re.sub(r'[^\w -]', '', title.lower()).replace(' ', '-')


def _overview(members: tuple[str, ...]) -> Iterator[str]:
  yield '| method | | paper | networks | passes | attempts |'
  yield '|---|---|---|---|---|---|'
  for name in members:
    c, doc = method(name)
    cost = method_cost.cost(c)
    yield config.row(
      _link(name),
      doc.line,
      doc.link,
      cost.networks_text(),
      cost.passes_text(),
      cost.attempts_text(),
    )


def _half_done() -> Iterator[str]:
  yield '| method | missing |'
  yield '|---|---|'
  for name in config_file.methods():
    if lacks := method(name)[1].missing:
      yield config.row(_link(name), _capital(lacks))


def _measured(report: dict) -> str:
  size, skipped = report['size'], report['skipped']
  lines = [
    f'Credit held against the truth on `{report["env"]}`: {size["seeds"]}'
    f' batches of {size["tasks"]} tasks x {size["group"]} trajectories of a'
    f' {report["policy"]} policy; learned signals saw {size["warm"]} batches'
    ' before. This is how far credit is from the truth, not how well a policy'
    ' learns with it. Methods that sample in a way of their own (branching,'
    ' messages in parts, ...) are measured on a batch of their own and not in'
    ' the picture.',
    '',
    'An implicit PRM is told which trajectories were solved, not where; here'
    ' the observations after the decisive turn show the result, and it learns'
    ' to tell trajectories apart there as well: its pairs are all in the right'
    ' order while much of its reward stands on later turns.',
    '',
    '```',
    '\n'.join(credit_report.LEGEND.splitlines()[:-1]),
    '```',
    '',
    *_picture(report),
    '',
    f'| method | {" | ".join(_SHOWN)} |',
    f'|---|{"---|" * len(_SHOWN)}',
  ]
  for name in sorted(report['methods']):
    scores = report['methods'][name]
    row = ' | '.join(f'{scores[c]:.2f}' for c in _SHOWN)
    lines.append(f'| {_link(name)} | {row} |')
  reasons = [f'`{name}`: {skipped[name]}.' for name in sorted(skipped)]
  return '\n'.join([*lines, '', 'Not measured there:', '', *reasons, ''])


def _picture(report: dict) -> list[str]:
  """The picture, and which methods it shows."""
  if 'picture' not in report:  # drawn before it was of a few
    return ['![The same turns, credited by every method](credit.png)']
  picture = report['picture']
  links = ', '.join(map(_link, picture['shown']))
  return [
    '![The same turns, credited by methods that differ](credit.png)',
    '',
    f'The picture shows {links}: of {picture["of"]} methods that credit the'
    ' same turns, those whose credit differs most. First come the two furthest'
    ' apart by cosine distance over all turns, then each time the one that is'
    ' furthest from all that are shown.',
  ]


def read_numbers() -> dict:
  with open(NUMBERS, encoding='utf-8') as f:
    return json.load(f)


def main() -> None:
  names = config_file.methods()
  made = pages(names, read_numbers())
  (DOCS / FOLDER).mkdir(exist_ok=True)
  for old in (DOCS / FOLDER).glob('*.md'):
    old.unlink()
  for path, text in made.items():
    (DOCS / path).write_text(text, encoding='utf-8')
  print(f'written: {DOCS / PAGE}, {len(names)} methods')
