"""Installation: this package's name in registries, and commands for extras."""

# The name under which pip finds it. `agentrl` there is another project's.
DISTRIBUTION = 'agentrl-jax'


def command(extra: str) -> str:
  """The command that installs an extra of setup.py."""
  return f"pip install '{DISTRIBUTION}[{extra}]'"
