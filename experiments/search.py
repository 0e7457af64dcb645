"""Compares searchers at one budget of calls, on the held-out tasks of a run.

  python -m experiments.search --workdir=runs/ppo --calls=112 --tasks=64
  python -m experiments.search --workdir=runs/ppo --searchers=best_of_n,mcts \
    --evaluator=outcome,likelihood

Every searcher may ask the newest policy for as many messages at each task and,
but for `sample` and the votes, which need no values, stops at a known success.
Prints success and malformed turns with intervals, and what it took: calls,
tokens, turns of environments, turns that they replayed because they cannot
fork. Trees are logged for the viewer below <workdir>/evaluations, or --out.
"""

from agentrl import cli
from agentrl.domain import COUNT, SEED, Path, Real, Text, Whole
from agentrl.runtime import storage

_WORKDIR = cli.workdir_flag('Run whose policy searches', bucket=True)
_SEARCHERS = cli.flag(
  'searchers',
  'sample,best_of_n,beam,lookahead,mcts,swe_search',
  Text(),
  'Searchers, with commas between',
)
_EVALUATOR = cli.flag(
  'evaluator',
  'truth',
  Text(),
  'Values, with commas between: truth of the environment, learned rewards'
  ' (learned_ends: of ends alone), outcome of ends, likelihood'
  ' (mean_likelihood: of a token), random',
)
_CALLS = cli.flag('calls', 112, COUNT, 'Messages for each task, at most')
_TASKS = cli.flag('tasks', 64, COUNT, 'Number of tasks')
_TOGETHER = cli.flag('together', 64, COUNT, 'Tasks at a time, in memory')
_WIDTH = cli.flag('width', 4, COUNT, 'Messages at a turn; beam: turns kept')
_C = cli.flag('c', 1.0, Real(0, 1e6), 'Weight of exploration')
_TEMPERATURE = cli.flag(
  'temperature', 1.0, Real(0, 100), 'Temperature of the sampling'
)
_LIMIT = cli.flag('limit', None, COUNT, 'Most turns; default: as trained')
_SEED = cli.flag('seed', 0, SEED, 'Seed of the sampling')
_LOGGED = cli.flag('logged', 4, Whole(0, 64), 'Trees of each that are logged')
_OUT = cli.flag('out', None, Path(empty=False), 'Folder of the trees')


def main() -> None:
  from agentrl.lab.search import command  # takes seconds

  run = storage.absolute(_WORKDIR.value)
  flags = dict(evaluator=_EVALUATOR, calls=_CALLS, tasks=_TASKS, width=_WIDTH)
  flags |= dict(c=_C, temperature=_TEMPERATURE, limit=_LIMIT, seed=_SEED)
  flags |= dict(logged=_LOGGED, out=_OUT, together=_TOGETHER)
  names = [x.strip() for x in _SEARCHERS.value.split(',')]
  values = {name: x.value for name, x in flags.items()}
  print(command.search_run(run, names, **values))


if __name__ == '__main__':
  cli.run(main)
