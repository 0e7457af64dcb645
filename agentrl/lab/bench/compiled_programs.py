"""Table of what TPU's compiler says of decoders, meshes and slices.

Nothing of it has run: figures are those of the compiled program, and bounds
assume peak rates. The update is that of configs/grpo.py (`oprl:update`: of
configs/oprl.py, a process reward model beside the policy), four micro-batches
of a row of 2,048 tokens a device, Adam, float32 parameters, bfloat16 products,
layers computed again backwards (`remat=dots`: products are kept). The rollout
is that of the config's own environment and sizes.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from agentrl import mesh
from agentrl.configs import grpo, oprl
from agentrl.domain import suggest
from agentrl.lab.bench import sampling
from agentrl.lab.capacity import hardware
from agentrl.lab.capacity.estimate import Workload
from agentrl.lab.capacity.compiled import hlo, table

TOKENS = 2048  # of a row
MICRO = 4  # micro-batches

CELLS = (  # model, slice, mesh or remat, and program
  '0.5B v5e-8 fsdp=8 update',
  '0.5B v5e-8 fsdp=8 oprl:update',
  '0.5B v5e-8 fsdp=8 decode',
  '0.5B v5e-8 fsdp=8 rollout',
  '1.5B v5e-16 fsdp=16 update',
  '1.5B v5e-16 data=4 fsdp=4 update',
  '7B v5e-64 fsdp=64 update',
  '7B v5e-64 fsdp=64 remat=dots update',
  '7B v5e-64 data=8 fsdp=8 update',
  '7B v5e-64 fsdp=16 tensor=4 update',
  '7B v5p-64 fsdp=32 update',
  '7B v5p-64 fsdp=32 remat=dots update',
  'experts v5e-8 fsdp=2 expert=4 update',
)
SHAPES = sampling.QWEN | {
  '7B': sampling.qwen(
    width=3584,
    layers=28,
    heads=28,
    mlp=18_944,
    kv_heads=4,
    vocab=152_064,
    tied=False,
  ),
  'experts': sampling.qwen(
    width=1024,
    layers=16,
    heads=16,
    mlp=768,
    kv_heads=4,
    experts=16,
    top_k=2,
  ),
}
METHODS = {'grpo': grpo, 'oprl': oprl}
COLUMNS = (
  'model',
  'slice',
  'mesh',
  'program',
  'arguments GB',
  'all GB',
  'gathered GB',
  'reduced GB',
  'bound of utilisation',
)


def rows(cells: Sequence[str]) -> Iterator[str]:
  """Lines of a Markdown table, one for each of `cells` (as CELLS).

  Raises: ValueError for a cell that is none, before any is compiled.
  """
  parts = [text.split() for text in cells]
  for model, name, *_, words in parts:
    if model not in SHAPES:
      raise ValueError(
        f'--cells names {model!r}{suggest(model, SHAPES)}; choose from'
        f' {tuple(SHAPES)}'
      )
    config, program = _program(words)
    table.check(config, [program], hardware.parse(name))
  yield '| ' + ' | '.join(COLUMNS) + ' |'
  yield '|---' * len(COLUMNS) + '|'
  for model, name, *sizes, words in parts:
    figures = _row(model, name, dict(x.split('=') for x in sizes), words)
    yield (
      '| ' + ' | '.join([model, name, ' '.join(sizes), words, *figures]) + ' |'
    )


def _program(words: str) -> tuple[Any, str]:
  """The config and the program of a cell's last word."""
  method, _, program = words.rpartition(':')
  return METHODS[method or 'grpo'].get_config(), program


def _row(model: str, name: str, sizes: dict[str, str], words: str) -> list[str]:
  """Figures of a cell."""
  where = hardware.parse(name)
  c, program = _program(words)
  c.mesh.update({k: int(v) for k, v in sizes.items() if k in mesh.AXES})
  c.hp.minibatch.minibatches.n = 1
  rows = mesh.num_shards('batch', c.mesh)
  c.micro_batch = rows
  remat = sizes.get('remat', SHAPES[model].remat)
  shape = dataclasses.replace(SHAPES[model], remat=remat)
  work = Workload(
    rows=rows * MICRO,
    tokens=TOKENS,
    micro=rows,
    epochs=1,
    batch=rows * MICRO,
    slots=8 * rows,
    turns=8,
    read=128,
    message=128,
    afresh=False,
    capacity=TOKENS,
  )
  made = table.compiled(c, shape, work, where, program)
  if made.refused:
    return ['', f'{made.hbm / 1e9:.1f} (refused)', '', '', '']
  sent = hlo.totals(made.collectives)
  reduced = sum(sent.get(kind, 0.0) for kind in table.REDUCED)
  bound = ''
  if program == 'update':
    bound = f'{table.utilisation(c, shape, work, where, made):.2f}'
  return [
    f'{made.arguments / 1e9:.2f}',
    f'{made.hbm / 1e9:.2f}',
    f'{(sum(sent.values()) - reduced) / 1e9:.1f}',
    f'{reduced / 1e9:.1f}',
    bound,
  ]
