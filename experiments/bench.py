"""Times sampling and training beside the bound of the machine.

  python -m experiments.bench
  python -m experiments.bench --only=decode,iteration --json=bench.json
  python -m experiments.bench --only=decode,gradient --size=0.5B --profile
  python -m experiments.bench --only=checkpoint,store,memory,games,judge,gateway
  python -m experiments.bench --only=room --size=135M --repeats=3
  python -m experiments.bench --only=decode --size=135M --torch_python=PYTHON
  python -m experiments.bench --only=decode --peers=FOLDER \
    --tunix_python=PYTHON --trl_python=PYTHON

`ratio` is the median over the bound: 1 would be as fast as this machine can
multiply or copy. Figures of one run may be compared with one another; seconds
of different runs may not.
"""

import json

from absl import flags

from agentrl import cli

_ONLY = flags.DEFINE_list(
  'only', None, 'Sections to run; default: those with a bound.'
)
_REPEATS = flags.DEFINE_integer('repeats', 7, 'Runs a figure.', lower_bound=1)
_JSON = flags.DEFINE_string('json', None, 'File to write the figures to.')
_SIZE = flags.DEFINE_enum(
  'size',
  'full',
  ('full', 'tiny', '0.2M', '135M', '0.5B', '1.5B'),
  'Decoder size; 0.5B and 1.5B are for accelerators, in bfloat16.',
)
_PROFILE = flags.DEFINE_bool('profile', False, 'Print kernels by part, too.')
_DATA = flags.DEFINE_string('data', 'data', 'Folder of task sets.')
_PEERS = flags.DEFINE_string('peers', '', 'Folder of scripts of peers.')
_ROUNDS = flags.DEFINE_integer('rounds', 3, 'Rounds of peers.', lower_bound=1)
_PYTHONS = {
  name: flags.DEFINE_string(f'{name}_python', '', f'Python with {name}.')
  for name in ('torch', 'tunix', 'trl')
}


def main() -> None:
  from agentrl.lab.bench import harness, peers, sampling  # import jax

  args = sampling.SIZES[_SIZE.value], _DATA.value, _REPEATS.value
  out = harness.run(*args, _ONLY.value or (), profiles=_PROFILE.value)
  pythons = {name: flag.value for name, flag in _PYTHONS.items() if flag.value}
  if pythons:
    how = _PEERS.value, pythons, _ROUNDS.value
    out['peers'] = harness.compare(*args, *how)
    print('\n'.join(peers.table(out['peers'])))
  if _JSON.value:
    with open(_JSON.value, 'w', encoding='utf-8') as f:
      json.dump(out, f, indent=2)


if __name__ == '__main__':
  cli.run(main)
