"""Table of what TPU's compiler says of decoders, meshes and slices.

Nothing of it has run: figures are those of the compiled program, and bounds
assume peak rates. The update is that of configs/grpo.py, four micro-batches of
a row of 2,048 tokens a device, Adam, float32 parameters, bfloat16 products,
layers computed again backwards.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from ml_collections import ConfigDict

from agentrl.capacity import hardware, memory
from agentrl.capacity.tpu import hlo, table
from agentrl.configs import grpo
from agentrl.domain import suggest
from agentrl.nn.config import DecoderConfig

TOKENS = 2048  # of a row
MICRO = 4  # micro-batches
_ROWS = ('data', 'fsdp', 'expert')  # axes that split rows

CELLS = (  # model, slice, mesh and program
  '0.5B v5e-8 fsdp=8 update',
  '0.5B v5e-8 fsdp=8 decode',
  '1.5B v5e-16 fsdp=16 update',
  '1.5B v5e-16 data=4 fsdp=4 update',
  '7B v5e-64 fsdp=64 update',
  '7B v5e-64 data=8 fsdp=8 update',
  '7B v5e-64 fsdp=16 tensor=4 update',
  '7B v5p-64 fsdp=32 update',
  'experts v5e-8 fsdp=2 expert=4 update',
)
SHAPES: dict[str, dict[str, Any]] = {
  '0.5B': dict(width=896, layers=24, heads=14, kv_heads=2, mlp=4864),
  '1.5B': dict(width=1536, layers=28, heads=12, kv_heads=2, mlp=8960),
  '7B': dict(
    width=3584, layers=28, heads=28, kv_heads=4, mlp=18_944, tied=False
  ),
  'experts': dict(
    width=1024, layers=16, heads=16, kv_heads=4, mlp=768, experts=16, top_k=2
  ),
}
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
  for model, name, *_, program in parts:
    if model not in SHAPES:
      raise ValueError(
        f'--cells names {model!r}{suggest(model, SHAPES)}; choose from'
        f' {tuple(SHAPES)}'
      )
    table.check([program], hardware.parse(name))
  yield '| ' + ' | '.join(COLUMNS) + ' |'
  yield '|---' * len(COLUMNS) + '|'
  for model, name, *axes, program in parts:
    figures = _row(model, name, axes, program)
    yield (
      '| ' + ' | '.join([model, name, ' '.join(axes), program, *figures]) + ' |'
    )


def _row(model: str, name: str, axes: list[str], program: str) -> list[str]:
  """Figures of a cell."""
  where = hardware.parse(name)
  c: ConfigDict = grpo.get_config()
  c.mesh.update({k: int(v) for k, v in (x.split('=') for x in axes)})
  c.hp.minibatch.minibatches.n = 1
  rows = math.prod(n for axis, n in c.mesh.items() if axis in _ROWS)
  c.micro_batch = rows
  size = SHAPES[model]
  shape = DecoderConfig(
    vocab=152_064 if model == '7B' else 151_936,
    head_dim=size['width'] // size['heads'],
    theta=1e6,
    bias=True,
    attention='splash',
    remat='layer',
    dtype='bfloat16',
    **size,
  )
  work = memory.Workload(
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
