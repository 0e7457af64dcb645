"""Writes the results of comparisons into their pages in docs/results.

python -m experiments.results --take=runs/studies/oprl
"""

from agentrl import cli

results = cli.in_clone('docs.generate.results')

if __name__ == '__main__':
  cli.run(results.main)
