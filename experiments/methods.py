"""Writes docs/METHODS.md: every method, its components and its credit.

python -m experiments.methods
"""

from agentrl import cli


def main() -> None:
  cli.in_clone('docs.generate.methods').main()


if __name__ == '__main__':
  cli.run(main)
