"""What a comparison wrote, to be held against another of the same study."""

import json


def report(folder):
  """Without what the clock said."""
  with open(folder / 'report.json', encoding='utf-8') as f:
    whole = json.load(f)
  del whole['spent'], whole['commands']
  for env in whole['envs'].values():
    for setting in env['settings'].values():
      for arm in setting['arms'].values():
        del arm['seconds']
  return whole
