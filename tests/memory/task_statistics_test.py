"""Statistics of tasks against a list of what was attempted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import domain, registry
from agentrl.memory import task_statistics
from agentrl.types import Status
from tests import batches

pytestmark = pytest.mark.usefixtures('float64')

N = 7
HP = {'discount': 0.8, 'fast': 0.5, 'slow': 0.1}


def batch(attempted):
  laid = batches.lay(batches.story(0), 'history').batch
  return jax.tree.map(jnp.asarray, laid.replace(attempted=attempted))


def visits(seed):
  """Attempts of a step; some do not count, and some tasks have none.

  Task 0 is never solved, task 1 always.
  """
  rng = np.random.default_rng(seed)
  size = 12
  task = rng.integers(0, N - 1, size).astype(np.int32)  # never the last
  outcome = rng.choice([0.0, 0.4, 1.0], size)
  outcome = np.select([task == 0, task == 1], [0.4, 1.0], outcome)
  return {
    'task': task,
    'outcome': outcome.astype(np.float32),
    'counts': rng.random(size) < 0.8,
  }


def reference(steps):
  """{task: statistics} in plain Python."""
  out = {
    i: dict(attempts=0, solved=0, tried=0.0, won=0.0, fast=0.0, slow=0.0)
    | dict(unsolved=0, last=-1)
    for i in range(N)
  }
  for step, made in steps:
    for i, x in out.items():
      x['tried'] *= HP['discount']
      x['won'] *= HP['discount']
      mine = [
        float(o) > 0.5
        for t, o, c in zip(*made.values(), strict=True)
        if t == i and c
      ]
      if not mine:
        continue
      g, s = len(mine), sum(mine)
      for name in ('fast', 'slow'):
        rate = 1.0 if x['last'] < 0 else HP[name]
        x[name] += rate * (s / g - x[name])
      x['attempts'] += g
      x['solved'] += s
      x['tried'] += g
      x['won'] += s
      x['unsolved'] = 0 if s else x['unsolved'] + 1
      x['last'] = step
  return out


def test_statistics_are_those_of_a_list():
  memory = registry.bind('memory', 'task_statistics', HP)()
  steps = [(step, visits(step)) for step in (130, 131, 135, 136, 137)]
  state = memory.init(batch(steps[0][1]), N)
  write = jax.jit(memory.write)
  for step, made in steps:
    state = write(state, batch(made), None, step)
  want = reference(steps)
  assert any(x['unsolved'] > 1 for x in want.values())
  assert want[N - 1]['last'] == -1
  for name in vars(state):
    got = np.asarray(vars(state)[name])
    np.testing.assert_allclose(
      got, [want[i][name] for i in range(N)], rtol=1e-6, err_msg=name
    )
  measured = {
    k: float(x) / float(n) for k, (x, n) in memory.measure(state).items()
  }
  assert min(measured.values()) > 0
  seen = [x for x in want.values() if x['attempts']]
  assert measured == pytest.approx(
    {
      'tasks/total': N,
      'tasks/attempted': len(seen),
      'tasks/attempts': np.mean([x['attempts'] for x in seen]),
      'tasks/attempts_max': max(x['attempts'] for x in seen),
      'tasks/never_solved': np.mean([x['solved'] == 0 for x in seen]),
      'tasks/always_solved': np.mean(
        [x['solved'] == x['attempts'] for x in seen]
      ),
    }
  )


def test_attempts_that_do_not_count_change_nothing():
  made = visits(3)
  without = {k: x[made['counts']] for k, x in made.items()}
  memory = registry.bind('memory', 'task_statistics', HP)()
  start = memory.init(batch(made), N)
  one, other = (memory.write(start, batch(x), None, 4) for x in (made, without))
  jax.tree.map(np.testing.assert_array_equal, one, other)
  none = {k: x[:0] for k, x in made.items()}
  same = memory.write(start, batch(none), None, 4)
  jax.tree.map(np.testing.assert_array_equal, same, start)


def test_replayed_and_curated_trajectories_are_neither_more_nor_less():
  """Only what was attempted is read, whatever became of the batch."""
  made, memory = visits(5), registry.bind('memory', 'task_statistics', HP)()
  whole = batch(made)
  start = memory.init(whole, N)
  less = whole.replace(
    turns=whole.turns.replace(scored=jnp.zeros_like(whole.turns.scored)),
    status=jnp.full_like(whole.status, Status.FAILED),
  )
  one, other = (memory.write(start, x, None, 1) for x in (whole, less))
  jax.tree.map(np.testing.assert_array_equal, one, other)


def test_batches_that_do_not_say_what_was_attempted_are_refused():
  with pytest.raises(ValueError):
    task_statistics.empty(batch({}), N)


@pytest.mark.parametrize('rate', [0.0, 1.5])
def test_a_rate_of_0_never_learns(rate):
  with pytest.raises(ValueError, match='rate'):
    domain.of(task_statistics.Rate).check('rate', rate)
