"""Estimates whether a config fits on given machines, and what a step costs.

  python -m experiments.plan --config=configs/grpo.py --topology=v5e-16 \\
    --config.mesh.fsdp=-1 --model=CHECKPOINT

Everything is computed from shapes; no array is made. With --model=DIR the
decoder is that of DIR/config.json, with its tokenizer if there is one; weights
are not needed, nor fetched for a name on the hub. If the config does not fit,
changes that make it fit are listed, and the fewest devices on which it fits.

With --compile=update,prefill,decode,rollout the compiler of these devices says
what the programs need, a minute or two each (rollout: of environments inside
jit); no TPU and no H100 is needed (extras `tpu-compile`, `cuda-compile`).
"""

from absl import flags

from agentrl import cli
from agentrl.domain import Path

_CONFIG = cli.config_flag()
_TOPOLOGY = flags.DEFINE_string(
  'topology', None, 'Accelerators to plan for, e.g. v5e-16, h100-8 or 8xH100.'
)
_MODEL = cli.flag(
  'model',
  None,
  Path(empty=False),
  'Directory with the config.json of a checkpoint, or its name on the hub',
)
_MEASURED = cli.flag(
  'measured',
  None,
  Path(empty=False),
  "Run that collected in threads on the config's devices, or its seconds of"
  ' collecting and of an update such as 30,10; recommends a staleness.bound',
)
_COMPILE = flags.DEFINE_list(
  'compile', [], 'Programs to compile: update, prefill, decode, rollout.'
)


def main() -> None:
  from agentrl.lab.capacity import hardware, report  # jax, after the flags

  c, where, names = _CONFIG.value, _TOPOLOGY.value, _COMPILE.value
  if names:
    from agentrl.lab.capacity.compiled import table

    table.check(c, names, hardware.parse(where))
  print(report.report(c, where, _MODEL.value, _MEASURED.value), flush=True)
  if names:
    print()
    for line in table.lines(c, where, names, _MODEL.value):
      print(line, flush=True)


if __name__ == '__main__':
  cli.run(main, required=('config', 'topology'))
