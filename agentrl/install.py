"""Installation: this package's name in registries, and commands for extras."""

import importlib.metadata

# The name under which pip finds it. `agentrl` there is another project's.
DISTRIBUTION = 'agentrl-jax'


def command(extra: str) -> str:
  """The command that installs an extra of setup.py."""
  return f"pip install '{DISTRIBUTION}[{extra}]'"


def metadata() -> importlib.metadata.PackageMetadata:
  """What is installed here, under an older name too."""
  names = importlib.metadata.packages_distributions()['agentrl']
  name = DISTRIBUTION if DISTRIBUTION in names else names[0]
  return importlib.metadata.metadata(name)
