"""Asks compilers about decoders, meshes and devices, and writes a table.

  python -m experiments.bench_compiled
  python -m experiments.bench_compiled --cells='0.5B v5e-8 fsdp=8 decode'

No TPU and no card is needed (extras `tpu-compile` and `cuda-compile`); a cell
takes a minute or two. What a config needs: `experiments.plan --compile`.
"""

from absl import flags

from agentrl import cli

_CELLS = flags.DEFINE_list(
  'cells', [], 'Rows: model, topology, mesh and program of each. Default: all.'
)


def main() -> None:
  from agentrl.lab.bench import compiled_programs  # imports jax

  for line in compiled_programs.rows(_CELLS.value or compiled_programs.CELLS):
    print(line, flush=True)


if __name__ == '__main__':
  cli.run(main)
