"""Installation: where this package is found, and commands for extras."""

import importlib.metadata

# The name under which pip finds it. `agentrl` there is another project's.
DISTRIBUTION = 'agentrl-jax'
# The address of clones, here alone; put yours in place of OWNER and run
# `python -m docs.generate.notebooks --noexecute`.
REPOSITORY = 'https://github.com/OWNER/agentrl'


def command(extra: str) -> str:
  """The command that installs an extra of setup.py."""
  return f"pip install '{DISTRIBUTION}[{extra}]'"


def metadata() -> importlib.metadata.PackageMetadata:
  """Returns the installed package's metadata, under an older name too."""
  names = importlib.metadata.packages_distributions()['agentrl']
  name = DISTRIBUTION if DISTRIBUTION in names else names[0]
  return importlib.metadata.metadata(name)
