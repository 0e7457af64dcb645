"""Table of searchers at one budget of calls, and their trees for the viewer."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from agentrl.lab.search.run import Searched
from agentrl.lab.search.tree import Tree
from agentrl.log import trajectories
from agentrl.rollout.forks import COUNTS, Forks
from agentrl.run import trajectory_log
from agentrl.run.experiment import Experiment
from agentrl.stats import intervals, reward_quality
from agentrl.task.base import make_attempts

AGAINST = ('best_of_n', 'sample')  # the first that is there
PAIRS = ['right pairs', 'right pairs that share a turn']
NAMES = {
  'calls': 'calls',
  'tokens': 'tokens sampled',
  'read': 'tokens read',
  'reused': 'tokens reused',
  'env_steps': 'turns played',
  'replayed': 'turns replayed',
}


def table(found: Mapping[str, Searched]) -> str:
  """Formats success and malformed turns, with 95% intervals, and the costs.

  found: by searcher; against the first of AGAINST that is among them,
    differences are over tasks; by several evaluators against that of the first.
  """
  rivals = (x for name in AGAINST for x in found if x.split(' ')[0] == name)
  rival = next(rivals, AGAINST[0])
  against = found.get(rival)
  more = [f'more than {rival}'] if against else []
  heads = ['searcher', 'success', *more, 'in the tree', 'malformed turns']
  heads += [*PAIRS, *(NAMES[name] for name in COUNTS)]
  lines = [_line(heads), '|' + '---|' * len(heads)]
  for name, x in found.items():
    n, wins = len(x.solved), int(x.solved.sum())
    low, high = intervals.wilson(wins, n)
    cells = [name, f'{wins / n:.1%} [{low:.1%}, {high:.1%}]']
    if against:
      same = x is against
      cells += ['' if same else _difference(x.solved, against.solved)]
    cells += [f'{x.reached.mean():.1%}', _malformed(x)]
    cells += [_pairs(x.trees, shared) for shared in (False, True)]
    cells += [f'{x.counts[count] / n:.1f}' for count in COUNTS]
    lines.append(_line(cells))
  return '\n'.join(lines)


def _malformed(x: Searched) -> str:
  """Formats the share of the answers' turns; turns of a task are a cluster."""
  bad, task = x.malformed
  if not bad.size:
    return ''
  low, high = intervals.clustered(bad.tolist(), task.tolist())
  return f'{bad.mean():.1%} [{low:.1%}, {high:.1%}]'


def _pairs(trees: Sequence[Tree], shared: bool) -> str:
  """Formats the mean over tasks of `right_pairs`; '' where none has a pair."""
  each = [right_pairs(tree, shared=shared) for tree in trees]
  known = [x for x in each if x is not None]
  if len(known) < 2:
    return f'{known[0]:.1%} of 1 task' if known else ''
  low, high = intervals.mean_interval(known)
  interval = f'[{max(low, 0):.1%}, {min(high, 1):.1%}]'
  return f'{np.mean(known):.1%} {interval} of {len(known)} tasks'


def right_pairs(tree: Tree, *, shared: bool = False) -> float | None:
  """Returns the share of pairs of ends whose values are as their scores.

  A success and a failure at one task; equal values count half. None: no pair.

  Args:
    shared: pairs that have their first turn in common
  """
  ends = [
    (tree.score[x] > 0.5, value, tree.path(x)[1])
    for x in range(len(tree))
    if tree.ended[x] and (value := tree.value[x]) is not None
  ]
  pairs = [
    (win, lose)
    for good, win, first in ends
    for bad, lose, other in ends
    if good and not bad and (first == other or not shared)
  ]
  if not pairs:
    return None
  return reward_quality.pair_accuracy(*zip(*pairs, strict=True))


def _difference(a: np.ndarray, b: np.ndarray) -> str:
  gap = a.astype(float) - b
  if len(gap) < 2:
    return f'{100 * gap.mean():+.1f}'
  low, high = intervals.mean_interval(gap)
  return f'{100 * gap.mean():+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]'


def _line(cells: Sequence[str]) -> str:
  return f'| {" | ".join(cells)} |'


def leaves(tree: Tree) -> list[int]:
  """Lists the nodes that nothing goes on from: a trajectory each."""
  return [i for i in range(len(tree)) if not tree.children[i] and i]


def write(
  s: Experiment,
  forks: Forks,
  trees: Sequence[Tree],
  tasks: Sequence[int],
  folder: str,
  step: int,
) -> None:
  """Logs every leaf of some trees as a trajectory; shared turns are one node.

  Args:
    forks: that hold their places still
    tasks: of the trees
  """
  ends = [(t, i) for t, tree in enumerate(trees) for i in leaves(tree)]
  if not ends:
    return
  record = forks.record([trees[t].place[i] for t, i in ends])
  attempts = make_attempts(
    np.array([tasks[t] for t, _ in ends]), 1, s.plan.turns, 1.0
  ).replace(group=np.array([t for t, _ in ends], np.int32))
  first = np.cumsum([0, *(len(tree) for tree in trees)])
  node = np.full(record.valid.shape, -1, np.int32)
  for b, (t, i) in enumerate(ends):
    way = np.array(trees[t].path(i)[1:]) + first[t]
    node[b, : len(way)] = way
  some = jax.device_get(
    trajectory_log.of_record(s)(record, attempts, jnp.int32(step))
  )
  nodes = node[np.minimum(some.member, len(ends) - 1)]
  some = some.replace(turns=some.turns.replace(node=nodes))
  log = trajectories.TrajectoryWriter(folder, resume_after=None)
  trajectory_log.write(s, log, step, 'eval', some)
  log.close()
