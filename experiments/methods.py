"""Writes docs/METHODS.md and a page in docs/methods for every method.

python -m experiments.methods
"""

from agentrl import cli


def main() -> None:
  cli.in_clone('docs.generate.methods').main()


if __name__ == '__main__':
  cli.run(main)
