"""Whether two runs are the same: their rows, trajectories and states."""

from collections.abc import Iterator

import jax
import numpy as np

from agentrl.learner import update
from agentrl.log import descriptions, metrics, trajectories
from agentrl.run import build, weights
from agentrl.run import workdir as workdir_lib
from agentrl.runtime import storage

CLOCK = ('time/',)
SLOTS = (*CLOCK, 'rollout/engine/', 'rollout/host/')  # who waited for whom


def rows(run, but=CLOCK) -> list[dict]:
  """What a run measured, but what begins with one of these."""
  return [
    {k: v for k, v in row.items() if not k.startswith(but)}
    for row in metrics.read(storage.path(str(run)) / metrics.FILE)
  ]


def assert_rows(some, others, rtol=0.0, atol=0.0) -> None:
  """The same rows; NaN where nothing was counted."""
  for a, b in zip(some, others, strict=True):
    assert a.keys() == b.keys()
    for name, x in a.items():
      if isinstance(x, str):
        assert x == b[name]
      else:
        np.testing.assert_allclose(
          x, b[name], rtol=rtol, atol=atol, err_msg=name
        )


def said(log) -> list[tuple]:
  """Who said what in the trajectories of a run."""
  return [
    (
      *(x[name] for name in ('step', 'phase', 'task', 'member')),
      *(turn['said']['tokens'] for turn in x['turns']),
    )
    for x in log
  ]


def pairs(one, other) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """The arrays of two trees."""
  leaves = (map(np.asarray, jax.tree.leaves(x)) for x in (one, other))
  return zip(*leaves, strict=True)


def assert_same_run(one, other, *, steps: int, but=CLOCK, atol=0.0) -> None:
  """A row and trajectories of each step, and a state that was learned.

  Args:
    atol: between numbers; 0: equal in every bit, and in all that was logged
  """
  here, there = (rows(run, but) for run in (one, other))
  taken = [r['step'] for r in here if r['phase'] != 'eval']
  assert taken == [*range(1, steps + 1)]
  assert_rows(here, there, atol, atol)
  names = {x for r in here for x in r} - {'step', 'phase', 'stage'}
  assert [x for x in sorted(names) if not descriptions.describe(x)] == []
  logs = [trajectories.Log(run) for run in (one, other)]
  assert set(logs[0].heads['step']) - {0} == set(range(1, steps + 1))
  written = said if atol else list
  assert written(logs[0]) == written(logs[1])
  c = workdir_lib.read_config(one)
  s = build.experiment(c)
  (step, state), (at, twin) = (
    weights.load(c, s.shape, w) for w in (one, other)
  )
  assert step == at == steps
  fresh = update.init(s.algorithm, jax.random.key(c.seed))
  moved = [np.any(a != b) for a, b in pairs(fresh.params, state.params)]
  assert any(moved)  # else equal parameters say nothing
  kept = [(x.params, x.opt, x.memory) for x in (state, twin)]
  for a, b in pairs(*kept):
    np.testing.assert_allclose(a, b, rtol=atol, atol=atol)
