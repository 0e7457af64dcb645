"""Whether a config fits machines that are not at hand, and what a step costs.

  python -m experiments.plan --config=configs/grpo.py --topology=v5e-16 \\
    --config.mesh.fsdp=-1 --model=CHECKPOINT

Nothing is trained and no array is made: all of it is worked out from shapes.
With --model=DIR the decoder is the one of DIR/config.json, and words are those
of its tokenizer if that is there too; weights are not needed. Where it does not
fit, the changes of the config are told that make it.
"""

from absl import flags

from agentrl import cli
from agentrl.domain import Path

_CONFIG = cli.config_flag()
_TOPOLOGY = flags.DEFINE_string(
  'topology', None, 'The machines, e.g. v5e-16 or 8xH100.'
)
_MODEL = cli.flag(
  'model',
  None,
  Path(empty=False),
  'A directory with the config.json of a checkpoint',
)


def main() -> None:
  from agentrl.capacity import (
    report,  # takes seconds: a wrong flag is told at once
  )

  print(report.report(_CONFIG.value, _TOPOLOGY.value, _MODEL.value))


if __name__ == '__main__':
  cli.run(main, required=('config', 'topology'))
