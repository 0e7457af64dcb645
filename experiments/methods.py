"""Writes docs/METHODS.md: every method, what it is made of, its credit.

python -m experiments.methods
"""

from agentrl import cli

methods = cli.in_clone('docs.generate.methods')

if __name__ == '__main__':
  cli.run(methods.main)
