"""Writes docs/BATCH.md: the arrays that travel the loop, from agentrl/types.py.

python -m docs.generate.batch
"""

import enum
import inspect
import re
from collections.abc import Iterator

from agentrl import cli, domain, registry, types
from agentrl.configs import envs
from agentrl.env import base as env_base
from agentrl.rollout import registered
from agentrl.rollout.compaction import SUMMARY
from agentrl.rollout.edits import EDIT, READ
from docs.generate import components, config

PAGE = 'docs/BATCH.md'
CLASSES = (
  types.Batch,
  types.Rows,
  types.Turns,
  types.Pairs,
  types.Credit,
  types.Outputs,
  types.Attempts,
  types.Prefix,
  types.Messages,
  types.Copies,
  types.TrainState,
)
ENUMS = (types.Status, types.Span)
# Fields whose comment stands above them.
LONGER = {
  types.Batch: {
    'sampled': '[] i32 each: attempts, tokens, environment steps it took',
    'attempted': '[A] each: task, outcome, counts; of every attempt it took',
    'readings': 'the same actions in another context, by name',
  }
}
# What rollouts and other components fill in, under the names of the registry.
MEANINGS = {
  'term:env': "the environment's own reward",
  'term:tokens': 'sampled tokens of the message, end of turn included',
  'term:entropy': 'entropy of the message, nats, summed over its tokens',
  'term:invalid': '1 where the message was not understood',
  'term:switch': '1 where the message began a new subgoal',
  'term:note_match': (
    'how much it raised the best score · likeness of entries chosen so far'
  ),
  'term:greedy_return': 'return of an attempt at temperature 0, on every turn',
  'term:{term}': 'what a judge says; `term` is its hyper-parameter',
  'column:task': 'index of the task',
  'column:group': 'attempts at one task in one batch are equal',
  'column:source': '0 sampled, 1 replayed from memory, 2 a demonstration',
  'column:age': 'steps since a replayed trajectory was sampled',
  'column:turn': 'index of the turn',
  'column:state': 'turns with the same observation are equal',
  'column:node': 'copies of one turn, shared by branches, are equal',
  'column:prefix': 'turns that the attempt was given',
  'column:branch': '1 where the trajectory was branched from another',
  'column:branch_from': 'which it parts from, also inside a message; or -1',
  'column:unplayed': '1 where the last turn is a candidate that was not played',
  'column:branch_turn': 'turn of the first token of its own',
  'column:branch_token': 'place of that token in its message',
  'column:unfinished': '1 where the attempt goes on in a later iteration',
  'column:agent': 'seat of a game; of a unit 0 its proposer, 1 a solver',
  'column:seat': 'the same, of the trajectory',
  'column:match': 'trajectories of one match or unit are equal',
}
_HEAD = """\
# Batch

Made by `python -m docs.generate.batch` from `agentrl/types.py`; do not edit it.

Letters of shapes: B trajectories, K turns, N rows, T tokens of a row, P pairs,
A trajectories that others branch from, L layers, H heads. Shapes are
capacities: padding has the id -1, weight 0 and log-prob 0.
"""


def page() -> str:
  """The whole page: data types, enums, terms and columns by name."""
  lines = [_HEAD]
  for cls in CLASSES:
    lines += [f'## {cls.__name__}', '', *_about(cls), *_fields(cls), '']
  for cls in ENUMS:
    lines += [f'## {cls.__name__}', '', *_about(cls), *_members(cls), '']
  return '\n'.join([*lines, *_named()])


def _about(cls: type) -> list[str]:
  return [inspect.cleandoc(cls.__doc__), ''] if cls.__doc__ else []


def _fields(cls: type) -> Iterator[str]:
  yield '| field | type | meaning |'
  yield '|---|---|---|'
  texts = domain.comments(cls) | LONGER.get(cls, {})
  for name, kind in inspect.get_annotations(cls).items():
    kind = re.sub(r'\w+\.', '', inspect.formatannotation(kind))
    text = texts[name]
    if shaped := re.match(r'(\[[^]]*\] ?\w*)(?: each)?:? *(.*)', text):
      each, text = shaped.groups()
      kind = f'dict of {each}' if kind.startswith('dict') else each
    yield config.row(f'`{name}`', f'`{kind.strip()}`', text)


def _members(cls: type[enum.IntEnum]) -> Iterator[str]:
  yield '| value | name | meaning |'
  yield '|---|---|---|'
  for line in inspect.getsource(cls).splitlines():
    if member := re.match(r'  ([A-Z_]+) = (\d+)(?:  # (.*))?$', line):
      name, value, text = member.groups()
      yield config.row(value, f'`{name}`', text or '')


def _named() -> Iterator[str]:
  """Terms and columns that components fill, then those of environments."""
  yield from ('## Terms and columns', '')
  yield (
    'Terms are entries of `turns.terms`. Columns are what turns are grouped by:'
    ' `by` of a link is a tuple of them.'
  )
  yield from ('', '| name | provided by | meaning |', '|---|---|---|')
  for name, meaning in MEANINGS.items():
    yield config.row(f'`{name}`', ', '.join(providers(name)), meaning)
  yield from (
    '',
    'Games add the columns `agent` and `seat`, the seat of a trajectory, and'
    ' `match`, equal for the seats of one match. Where several policies play,'
    ' the id `role` is the index of the one that wrote (`docs/POLICIES.md`).',
  )
  yield from ('', 'Environments add terms of their own:', '')
  yield from ('| environment | terms |', '|---|---|')
  terms = envs.TERMS | {
    name: env_base.find(name)().columns
    for name in (*env_base.FAMILIES, *env_base.JIT_FAMILIES)
  }
  for name, own in terms.items():
    if own:
      yield config.row(f'`{name}`', ' '.join(f'`{term}`' for term in own))
  yield ''
  yield (
    f"With `rollout.history='compact'` each has `{SUMMARY}`, 1 on turns that"
    f" are summaries; with 'edit' each has `{EDIT}`, 1 on turns that drop"
    f' turns, and `{READ}`, the tokens that a turn reads.'
  )
  yield ''


def provided() -> set[str]:
  """Terms and columns that some component provides."""
  pieces = (x for slot in registry.SLOTS for x in components.ours(slot))
  names = {name for piece in pieces for name in piece.gives}
  return {x for x in names if x.startswith(('term:', 'column:'))}


def providers(name: str) -> list[str]:
  """The components that provide it, such as "collect `branch`"."""
  if name in registered.GIVES:
    return ['every rollout']
  return [
    f'{slot} `{piece.name}`'
    for slot in registry.SLOTS
    for piece in components.ours(slot)
    if name in piece.gives
  ]


def main() -> None:
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(page())
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
