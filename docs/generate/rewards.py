"""Writes docs/REWARDS.md: every reward, and how rewards combine.

python -m docs.generate.rewards
"""

import inspect
from collections.abc import Iterator
from typing import NamedTuple

import jax.numpy as jnp

from agentrl import cli, registry
from agentrl.configs import base
from agentrl.configs.config import Config
from agentrl.run.play import collect
from agentrl.types import Batch
from docs.generate import components, config

PAGE = 'docs/REWARDS.md'
# Links named on this page: what compares members of a group, and what holds a
# stream back.
GROUP = ('center', 'scale', 'min_max', 'rank', 'gate')
_HEAD = """\
# Rewards

Made by `python -m docs.generate.rewards` from the registered functions; do not
edit it.

`c.reward` names components, and what a turn earns is their sum. Each is a pure
function of the turns, the task's own score (`outcome`) and how the trajectory
ended. A reward of a whole trajectory stands on its last turn, and padding earns
0. Components read *terms*: numbers of a turn that the rollout, the environment
or a judge gives ([BATCH.md](BATCH.md) lists them). Where a hyper-parameter
names terms, the config is checked before anything is compiled: a term that
nothing provides ends in one sentence.

A trajectory whose environment or judge failed gets a reward like others, but no
link and no metric counts it.
"""
_EXAMPLE = """\
## How rewards combine

A config names the components, sets their hyper-parameters under
`hp.reward.COMPONENT.NAME`, and leaves the comparison of trajectories to a
stream of links:

```python
from agentrl.configs import base


{code}```

What some trajectories of two turns earn with it:

| trajectory | {names} | sum |
|---|{rules}---|
{rows}

The second stream compares token counts in their own group instead of by a
price: the shortest attempt at a task gets 1 and the longest 0, less their mean.
"""
_GROUP = """\
## Quantities of a group

A reward sees one trajectory. What depends on the other attempts at a task is a
link of a stream: `('add_term', 'episode_sum', 'min_max')` brings a term to the
range from 0 to 1 in its group, and `c.coef` weighs the stream. Streams are
summed, so that one of them cannot switch another off: a price that only
solutions pay is a reward, or a stream that ends with `gate`.

| link | computes |
|---|---|"""


def get_config(arg=''):
  c = base.get_config(arg, method='priced_ladder')
  c.reward = ('ladder', 'priced')
  base.hp(c, 'reward', 'priced', terms=('tokens',), prices=(0.01,), cap=0.5)
  c.advantage = ('episode', 'short')
  c.stream.episode = ('episode_return', 'center', 'scale')
  c.stream.short = ('add_term', 'episode_sum', 'min_max', 'center')
  base.hp(c, 'short', 'add_term', name='tokens', coef=-1.0)
  c.coef.short = 0.2
  return base.finish(c)


class Case(NamedTuple):
  """A trajectory of two turns."""

  what: str
  tokens: tuple[int, int]  # sampled in each turn
  invalid: tuple[int, int]  # 1: the message was not understood
  outcome: float


CASES = (
  Case('nothing understood', (3, 3), (1, 1), 0.0),
  Case('one message understood', (3, 3), (1, 0), 0.0),
  Case('all understood, not solved', (3, 3), (0, 0), 0.0),
  Case('solved in few tokens', (3, 3), (0, 0), 1.0),
  Case('solved in many tokens', (30, 50), (0, 0), 1.0),
)


def page() -> str:
  """The whole page: every reward, an example, links of groups."""
  pieces = components.ours('reward')
  lines = [_HEAD, *_table(pieces), '', _example()]
  lines += [_GROUP, *map(_link, GROUP), '', '## Components', '']
  return '\n'.join([*lines, *(x for piece in pieces for x in _entry(piece))])


def earned(c: Config, case: Case) -> list[float]:
  """What each component of c.reward pays the trajectory, then the sum."""
  spec = base.wiring(c)
  batch = Batch.from_turns(
    [[[0] * n for n in case.tokens]],
    [[[0.0] * n for n in case.tokens]],
    reward=[[0.0, 0.0]],
    group=[0],
    outcome=[case.outcome],
  )
  terms = {'tokens': case.tokens, 'invalid': case.invalid}
  arrays = {name: jnp.asarray([x], jnp.float32) for name, x in terms.items()}
  batch = batch.replace(turns=batch.turns.replace(terms=arrays))
  specs = (*(spec._replace(reward=(name,)) for name in spec.reward), spec)
  return [float(collect.score(x, batch).turns.reward.sum()) for x in specs]


def _table(pieces: list[registry.Component]) -> Iterator[str]:
  yield '| name | equation | needs |'
  yield '|---|---|---|'
  for x in pieces:
    name = f'[`{x.name}`](#{x.name})'
    yield config.row(name, _equation(x), components.code(x.needs))


def _equation(piece: registry.Component) -> str:
  return (inspect.getdoc(piece.f) or '').partition('\n')[0]


def _example() -> str:
  c = get_config()
  rows = (
    config.row(case.what, *(f'{x + 0.0:.2f}' for x in earned(c, case)))
    for case in CASES
  )
  return _EXAMPLE.format(
    code=inspect.getsource(get_config),
    names=' | '.join(f'`{name}`' for name in c.reward),
    rules='---|' * len(c.reward),
    rows='\n'.join(rows),
  )


def _link(name: str) -> str:
  return config.row(f'`{name}`', _equation(registry.get('link', name)))


def _entry(piece: registry.Component) -> Iterator[str]:
  """A component: its docstring, and a table of its hyper-parameters."""
  text = (inspect.getdoc(piece.f) or '').partition('\nArgs')[0].rstrip()
  yield from (f'### {piece.name}', '', '```text', text, '```', '')
  path = f'{piece.f.__module__.replace(".", "/")}.py'
  needs = components.code(piece.needs)
  yield f'[`{path}`](../{path})' + (f'; needs {needs}' if needs else '')
  yield ''
  if piece.defaults:
    yield '| name | hyper-parameter | default | what it may be | meaning |'
    yield '|---|---|---|---|---|'
    yield from components.hyper_parameters(piece)
    yield ''


def main() -> None:
  with open(PAGE, 'w', encoding='utf-8') as f:
    f.write(page())
  print(f'written: {PAGE}')


if __name__ == '__main__':
  cli.run(main, required=())
