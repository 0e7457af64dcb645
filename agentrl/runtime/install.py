"""Installation: where this package is found, and commands for extras."""

import importlib.metadata
import json
import os
import pathlib
import shlex

# The name in setup.py. `agentrl` in the registry is another project's.
DISTRIBUTION = 'agentrl-jax'
_ROOT = pathlib.Path(__file__).parents[2]


def command(extra: str) -> str:
  """Returns the command that adds an extra to this installation."""
  return f'pip install {requirement(extra, _ROOT)}'


def requirement(extra: str, root: pathlib.Path) -> str:
  """Returns what pip is asked for: a clone, a wheel's address, or the name.

  Args:
    root: folder of the package; a clone has setup.py there
  """
  if (root / 'setup.py').is_file():
    where = '.' if root == pathlib.Path(os.getcwd()) else root
    return f'-e {shlex.quote(f"{where}[{extra}]")}'
  text = _distribution().read_text('direct_url.json')
  source = f' @ {_address(json.loads(text))}' if text else ''
  return shlex.quote(f'{DISTRIBUTION}[{extra}]{source}')


def _address(direct: dict) -> str:
  """Returns the address of PEP 610's record as pip takes it."""
  vcs = direct.get('vcs_info')
  if vcs is None:
    return direct['url']
  return f'{vcs["vcs"]}+{direct["url"]}@{vcs["commit_id"]}'


def metadata() -> importlib.metadata.PackageMetadata:
  """Returns the installed package's metadata, under an older name too."""
  return _distribution().metadata


def _distribution() -> importlib.metadata.Distribution:
  names = importlib.metadata.packages_distributions()['agentrl']
  name = DISTRIBUTION if DISTRIBUTION in names else names[0]
  return importlib.metadata.distribution(name)
