"""Writes docs/METHODS.md: every method with its components, cost and credit.

  python -m experiments.methods

All but the advice is read from the configs, the registry and the tests; the
numbers and the picture are those that `python -m experiments.credit --out=docs`
wrote.
"""

import functools
import glob
import importlib
import json
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from ml_collections import ConfigDict

from agentrl import registry
from agentrl.configs import base
from agentrl.lab.papers.credit import report as credit_report
from agentrl.run import config_file
from docs.generate import config, method_cost, method_groups

PAGE = 'docs/METHODS.md'
NUMBERS = 'docs/credit.json'
# Slots that a method rarely changes: shown where they are not these.
USUAL = {
  'task': 'fixed',
  'prefix': 'none',
  'rollout': 'jit',
  'collect': 'once',
  'minibatch': 'minibatches',
}
_SHOWN = tuple(c for c in credit_report.COLUMNS if c != 'seconds')
_HEAD = """\
# Methods

Made by `python -m experiments.methods` from `configs/`; do not edit it.
"""
# Every number stands in RESULTS.md.
FIRST = """\
## Which to try first

Start with [grpo](#grpo): it needs no network beside the policy, and no method
that sees outcomes alone is far above it in [RESULTS.md](RESULTS.md). Then
change one thing. If states recur within a group, try [gigpo](#gigpo): +3.0
points over GRPO in a grid world and +0.7 on sparse Sokoban. If the environment
can score every turn, try [vpr](#vpr): +14.4 points in the grid,
where the score is the truth. A critic of tokens, [ppo](#ppo), gives +2.1 points
there and costs a second network. Process reward models ([oprl](#oprl),
[prime](#prime)) were not above GRPO. Tune the learning rate of each method: at
one common rate the sign of a difference can turn. All of this is of small
models in small worlds; measure in yours.
"""
_COST = """\
The tables below group methods by what they share. Their cost is per iteration,
beside sampling and training the policy. *Networks* are those beside the policy.
*Passes* are networks that read the batch once more before the update, and the
gradient steps of trained ones; a signal counts as one pass of each network it
reads. *Attempts* are sampled for each trajectory that is trained on.
"""


class Said(NamedTuple):
  """The parts of a config's docstring."""

  line: str  # what the method is
  title: str  # of its paper; empty where it has none of its own
  arxiv: str
  rest: str  # equation, differences, what to expect; Markdown

  @property
  def link(self) -> str:
    return f'[{self.arxiv}](https://arxiv.org/abs/{self.arxiv})'


def parse_docstring(doc: str) -> Said:
  """Reads the docstring of a config."""
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
  )


def section(name: str, tests: dict[str, str]) -> str:
  """The method's part of the page."""
  c, doc = method(name)
  w = base.wiring(c)
  paper = f'{doc.title}, {doc.link}' if doc.title else f'see {doc.link}'
  lines = [f'### {name}', '', doc.line, '', f'Paper: {paper}', '']
  lines += [f'- {what}: {text}' for what, text in _slots(c, w) if text]
  files = ', '.join(
    f'[`{x}`](../{x})' for x in (f'configs/{name}.py', *_files(w))
  )
  pattern = re.compile(rf"""['"/]{name}(?:['"]|\.py)""")
  seen = [f'`{path}`' for path, text in tests.items() if pattern.search(text)]
  seen = ', '.join(seen) or 'none'
  lines += [f'- files: {files}', f'- tests that name it: {seen}']
  return '\n'.join([*lines, *(['', doc.rest] if doc.rest else []), ''])


def _slots(c, w: registry.MethodSpec):
  """(what, components) of everything the method chooses."""

  def code(names, sep=' + '):
    return sep.join(f'`{n}`' for n in names)

  rare = {
    'task': w.task,
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
def method(name: str) -> tuple[ConfigDict, Said]:
  """A method's config, and what its docstring says."""
  module = importlib.import_module(f'agentrl.configs.{name}')
  return module.get_config(), parse_docstring(module.__doc__)


def page(names: list[str], report: dict) -> str:
  """The whole page, group by group.

  Args:
    report: of `credit.measure`
  """
  method_groups.check(names)
  tests = {}
  for path in sorted(glob.glob('tests/**/*.py', recursive=True)):
    with open(path, encoding='utf-8') as f:
      tests[path] = f.read()
  lines = [_HEAD, FIRST, '## Cost', '', _COST]
  for title in method_groups.GROUPS:
    lines.append(f'- [{_capital(title)}](#{_anchor(title)})')
  lines += ['', '## Credit', '', _measured(report)]
  for title, members in method_groups.GROUPS.items():
    lines += [f'## {_capital(title)}', '', *_overview(members), '']
    lines += [section(name, tests) for name in members]
  return '\n'.join(lines)


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
      f'[{name}](#{name})',
      doc.line,
      doc.link,
      cost.networks_text(),
      cost.passes_text(),
      cost.attempts_text(),
    )


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
    lines.append(f'| [{name}](#{name}) | {row} |')
  reasons = [f'`{name}`: {skipped[name]}.' for name in sorted(skipped)]
  return '\n'.join([*lines, '', 'Not measured there:', '', *reasons, ''])


def _picture(report: dict) -> list[str]:
  """The picture, and which methods it shows."""
  if 'picture' not in report:  # drawn before it was of a few
    return ['![The same turns, credited by every method](credit.png)']
  picture = report['picture']
  links = ', '.join(f'[{x}](#{x})' for x in picture['shown'])
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
  text = page(names, read_numbers())
  os.makedirs(os.path.dirname(PAGE), exist_ok=True)
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(text)
  print(f'written: {PAGE}, {len(names)} methods')
