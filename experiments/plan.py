"""Estimates whether a config fits on given machines, and what a step costs.

  python -m experiments.plan --config=configs/grpo.py --topology=v5e-16 \\
    --config.mesh.fsdp=-1 --model=CHECKPOINT

Everything is computed from shapes; no array is made. With --model=DIR the
decoder is that of DIR/config.json, with its tokenizer if there is one; weights
are not needed. If the config does not fit, changes that make it fit are listed.
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
  'Directory with the config.json of a checkpoint',
)


def main() -> None:
  from agentrl.capacity import report  # imports jax, after flags are checked

  print(report.report(_CONFIG.value, _TOPOLOGY.value, _MODEL.value))


if __name__ == '__main__':
  cli.run(main, required=('config', 'topology'))
