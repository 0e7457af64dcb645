"""Writes docs/METHODS.md: what every config is made of, and what was measured.

  python -m experiments.methods

Everything is read from the configs, the registry and the tests; the numbers
and the picture are those that `python -m experiments.credit --out=docs` wrote.
"""

import glob
import importlib
import json
import os
import re
from typing import NamedTuple

from agentrl import registry
from agentrl.configs import base
from agentrl.run import config_file
from agentrl.study import credit_report

PAGE = 'docs/METHODS.md'
NUMBERS = 'docs/credit.json'
# Slots that a method rarely changes: shown where they are not these.
USUAL = {
  'task': 'fixed', 'rollout': 'jit', 'collect': 'once', 'plan': 'minibatches',
}  # fmt: skip
_SHOWN = tuple(c for c in credit_report.COLUMNS if c != 'seconds')
_HEAD = """\
# Methods

Made by `python -m experiments.methods` from `configs/`; do not edit it.
"""


class Said(NamedTuple):
  """What a config's docstring says."""

  line: str  # what the method is
  title: str  # of its paper; empty where it has none of its own
  arxiv: str
  rest: str  # equation, differences, what to expect; Markdown


def said(doc: str) -> Said:
  """Reads the docstring of a config."""
  parts = re.split(r'\n\s*\n', doc.strip())
  papers = [p for p in parts if p.startswith('Paper')]
  found = re.search(r'\b\d{4}\.\d{5}\b', papers[0] if papers else doc)
  title = ''
  if papers:
    title = re.sub(r'^Papers?:\s*', '', ' '.join(papers[0].split()))
    title = re.split(r',?\s*\(?(?:arXiv:?\s*)?\b\d{4}\.\d{5}', title)[0]
  rest = [p for p in parts[1:] if p not in papers[:1] and not _command(p)]
  return Said(
    line=' '.join(parts[0].split()),
    title=title.rstrip('., '),
    arxiv=found.group() if found else '',
    rest='\n\n'.join(map(_markdown, rest)),
  )


def _command(part: str) -> bool:
  return part.lstrip().startswith('python -m')


def _markdown(part: str) -> str:
  """Indented paragraphs are equations."""
  return f'```\n{part}\n```' if part.startswith('  ') else part


def section(name: str, tests: dict[str, str]) -> str:
  """The method's part of the page."""
  module = importlib.import_module(f'agentrl.configs.{name}')
  c, doc = module.get_config(), said(module.__doc__)
  w = base.wiring(c)
  lines = [f'## {name}', '', doc.line, '', f'Paper: {_paper(doc)}', '']
  lines += [f'- {what}: {text}' for what, text in _slots(c, w) if text]
  files = ', '.join(f'`{x}`' for x in (f'configs/{name}.py', *_files(w)))
  seen = ', '.join(f'`{x}`' for x in _mentions(name, tests)) or 'none'
  lines += [f'- files: {files}', f'- tests that name it: {seen}']
  return '\n'.join([*lines, *(['', doc.rest] if doc.rest else []), ''])


def _paper(doc: Said) -> str:
  link = f'[{doc.arxiv}](https://arxiv.org/abs/{doc.arxiv})'
  return f'{doc.title}, {link}' if doc.title else f'see {link}'


def _slots(c, w: registry.Wiring):
  """(what, pieces) of everything the method chooses."""

  def code(names, sep=' + '):
    return sep.join(f'`{n}`' for n in names)

  rare = {'task': w.task, 'rollout': w.rollout, 'collect': w.collect,
          'plan': w.plan}  # fmt: skip
  for slot, name in rare.items():
    yield slot, f'`{name}`' if name != USUAL[slot] else ''
  yield 'reward', code(w.reward) if w.reward != ('env',) else ''
  yield 'curate', code(w.curate, ', ')
  yield 'signals', code(w.signal, ', ')
  for stream in w.advantage:
    by = f' x {c.coef[stream]:g}' if c.coef[stream] != 1 else ''
    yield f'stream {stream}', code(w.stream[stream], ' → ') + by
  yield 'finish', code(w.finish, ' → ')
  terms = (
    f'`{n}`'
    + (f' x {c.coef[n]:g}' if c.coef[n] != 1 else '')
    + f' by `{w.reduce.get(n, "token_mean")}`'
    for n in w.loss
  )
  yield 'loss', ' + '.join(terms)
  yield 'memory', code(w.memory, ', ')
  beside = [f'`{n}` ({r.kind})' for n, r in c.role.items() if n != 'policy']
  yield 'roles beside the policy', ', '.join(beside)


def _files(w: registry.Wiring) -> list[str]:
  """The modules of its pieces, but for the usual ones."""
  found = [
    registry.get(slot, name).f.__module__
    for _, slot, name in registry.parts(w)
    if USUAL.get(slot) != name and (slot, name) != ('reward', 'env')
  ]
  return [x.replace('.', '/') + '.py' for x in sorted(set(found))]


def _mentions(name: str, tests: dict[str, str]) -> list[str]:
  pattern = re.compile(rf"""['"/]{name}(?:['"]|\.py)""")
  return [path for path, text in tests.items() if pattern.search(text)]


def page(names: list[str], report: dict) -> str:
  """The whole page, in alphabetical order.

  Args:
    report: of `crediting.measure`
  """
  tests = {}
  for path in sorted(glob.glob('tests/**/*.py', recursive=True)):
    with open(path, encoding='utf-8') as f:
      tests[path] = f.read()
  sections = [section(name, tests) for name in names]
  return '\n'.join([_HEAD, _measured(names, report), *sections])


def _measured(names: list[str], report: dict) -> str:
  size = report['size']
  lines = [
    f'Credit held against the truth on `{report["env"]}`: {size["seeds"]}'
    f' batches of {size["tasks"]} tasks x {size["group"]} trajectories of a'
    f' {report["policy"]} policy; learned signals saw {size["warm"]} batches'
    ' before. This is how far credit is from the truth, not how well a policy'
    ' learns with it. Methods that sample in a way of their own (branching,'
    ' messages in parts, ...) are measured and shown on a batch of their own.',
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
    '![The same turns, credited by every method](credit.png)',
    '',
    f'| method | paper | {" | ".join(_SHOWN)} |',
    f'|---|---|{"---|" * len(_SHOWN)}',
  ]
  for name in names:
    doc = said(importlib.import_module(f'agentrl.configs.{name}').__doc__)
    told = report['methods'].get(name)
    row = (f'{told[c]:.2f}' if told else '' for c in _SHOWN)
    link = f'[{doc.arxiv}](https://arxiv.org/abs/{doc.arxiv})'
    lines.append(f'| [{name}](#{name}) | {link} | {" | ".join(row)} |')
  left = [f'`{n}`: {report["skipped"][n]}.'
          for n in names if n in report['skipped']]  # fmt: skip
  return '\n'.join([*lines, '', *(['Not measured there:', '', *left, '']
                                  if left else [])])  # fmt: skip


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
