"""Table of what compilers of TPUs and NVIDIA cards say of decoders and meshes.

Nothing of it has run: figures are those of the compiled program, and bounds
assume peak rates. The update is that of configs/grpo.py (`oprl:update`: of
configs/oprl.py, a process reward model beside the policy), in micro-batches of
a row a device (SIZES), Adam, float32 parameters, bfloat16 products, layers
computed again backwards (`remat=dots`: products are kept). The rollout is that
of the config's own environment and sizes.

Kernels are those of a layer, in the loops that have layers: of decoding, for a
token of all slots; of an update, forwards and backwards. Conditions are those
of a trip of these loops, casts those of parameters in a run of the program.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from agentrl import mesh
from agentrl.configs import grpo, oprl
from agentrl.domain import suggest
from agentrl.lab.bench import sampling
from agentrl.lab.capacity import hardware
from agentrl.lab.capacity.compiled import hlo, table, targets
from agentrl.lab.capacity.estimate import Workload


class CellSize(NamedTuple):
  """Sizes of the programs, for each device that has rows."""

  tokens: int  # of a row
  micro: int  # micro-batches
  slots: int
  capacity: int  # of a slot


# On cards as they were measured (docs/PERFORMANCE.md).
SIZES = {
  'tpu': CellSize(tokens=2048, micro=4, slots=8, capacity=2048),
  'cuda': CellSize(tokens=4096, micro=8, slots=64, capacity=640),
}

CELLS = (  # model, topology, mesh or remat, and program
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
  '0.5B h100-1 update',
  '0.5B h100-1 decode',
  '0.5B h100-1 attention=pallas decode',
  '1.5B h100-1 update',
  '1.5B h100-1 decode',
  '1.5B h100-8 fsdp=8 update',
  '7B h100-1 decode',
  '7B h100-1 update',
  '7B h100-8 fsdp=8 update',
  '7B h100-8 fsdp=8 remat=dots update',
  '7B h100-8 fsdp=4 tensor=2 update',
  '7B h100-8 fsdp=8 decode',
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
  'topology',
  'mesh',
  'program',
  'arguments GB',
  'all GB',
  'gathered GB',
  'reduced GB',
  'bound of utilisation',
  'kernels of a layer',
  'conditions of a trip',
  'casts GB',
)


def rows(cells: Sequence[str]) -> Iterator[str]:
  """Writes lines of a Markdown table, one for each of `cells` (as CELLS).

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
  """Returns the config and the program of a cell's last word."""
  method, _, program = words.rpartition(':')
  return METHODS[method or 'grpo'].get_config(), program


def _row(model: str, name: str, sizes: dict[str, str], words: str) -> list[str]:
  """Returns the figures of a cell."""
  where = hardware.parse(name)
  platform = targets.target(where).platform
  size = SIZES[platform]
  c, program = _program(words)
  c.mesh.update({k: int(v) for k, v in sizes.items() if k in mesh.AXES})
  c.hp.minibatch.minibatches.n = 1
  rows = mesh.num_shards('batch', c.mesh)
  c.micro_batch = rows
  shape = dataclasses.replace(
    SHAPES[model],
    remat=sizes.get('remat', SHAPES[model].remat),
    decode_attention=sizes.get('attention', 'xla'),
  )
  work = Workload(
    rows=rows * size.micro,
    tokens=size.tokens,
    micro=rows,
    epochs=1,
    batch=rows * size.micro,
    slots=rows * size.slots,
    turns=8,
    read=128,
    message=128,
    afresh=False,
    capacity=size.capacity,
  )
  made = table.compiled(c, shape, work, where, program)
  if made.refused:
    refused = f'{made.hbm / 1e9:.1f} (refused)'
    return ['', refused, *[''] * (len(COLUMNS) - 6)]
  sent = hlo.totals(made.collectives)
  reduced = sum(sent.get(kind, 0.0) for kind in table.REDUCED)
  bound = ''
  if program == 'update' and platform == 'tpu':
    bound = f'{table.utilisation(c, shape, work, where, made):.2f}'
  each = zip(made.layers, made.loops, strict=True)
  layers = [(n, x) for n, x in each if n]
  return [
    f'{made.arguments / 1e9:.2f}',
    f'{made.hbm / 1e9:.2f}',
    f'{(sum(sent.values()) - reduced) / 1e9:.1f}',
    f'{reduced / 1e9:.1f}',
    bound,
    ' + '.join(str(n) for n, _ in layers),
    ' + '.join(str(x.trip.conditionals) for _, x in layers),
    f'{made.counts.cast_bytes / 1e9:.1f}',
  ]
