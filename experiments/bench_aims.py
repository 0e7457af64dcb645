"""Measures one card beside torch, and says which aims it reaches.

  python -m experiments.bench_aims
  python -m experiments.bench_aims --torch_python=PYTHON --seconds=600
  python -m experiments.bench_aims --size=tiny --device=cpu --rounds=1

Ours and torch's (transformers' and TRL's too, where PYTHON has them) take turns
in processes of their own. What does not end in time is not measured. The sizes
of `card` need 80 GB.
"""

import json

from absl import flags

from agentrl import cli
from agentrl.domain import Path, Real

_SIZE = flags.DEFINE_enum('size', 'card', ('card', 'tiny'), 'Sizes.')
_PART = flags.DEFINE_string('part', '', 'One of ours alone.')
_ROUNDS = flags.DEFINE_integer('rounds', 2, 'Turns of each.', lower_bound=1)
_REPEATS = flags.DEFINE_integer('repeats', 3, 'Runs a turn.', lower_bound=1)
_SECONDS = cli.flag('seconds', 600.0, Real(1), 'Limit of all parts')
_TORCH = cli.flag('torch_python', '', Path(), 'Python with torch; empty: none')
_DEVICE = flags.DEFINE_enum('device', 'cuda', ('cuda', 'cpu'), 'Of torch.')
_OUT = cli.flag('out', '', Path(), 'File to write the figures to; empty: none')


def main() -> None:
  from agentrl.lab.bench import aims  # imports jax

  found: dict
  if _PART.value:
    found = aims.ours(_PART.value, aims.SIZES[_SIZE.value], _REPEATS.value)
  else:
    found = aims.measure(
      _SIZE.value,
      aims.PARTS,
      _ROUNDS.value,
      _REPEATS.value,
      _SECONDS.value,
      _TORCH.value,
      _DEVICE.value,
    )
    for line in aims.table(found):
      print(line)
  if _OUT.value:
    with open(_OUT.value, 'w', encoding='utf-8') as f:
      json.dump(found, f, indent=2)


if __name__ == '__main__':
  cli.run(main)
