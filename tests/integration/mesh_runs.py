"""Whole runs on 2 x 4 simulated devices: what each of their stages changes."""

import collections
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl import loop
from agentrl.configs import stages as stage_list
from agentrl.log import metrics as metrics_lib
from agentrl.run import runner
from agentrl.run.stage import stages
from tests.integration import same

SIZES = {'mesh.fsdp': 2, 'mesh.tensor': 4}
# As small as 2 x 4 devices allow.
MODEL = {
  'model.width': 16,
  'model.layers': 1,
  'model.heads': 4,
  'model.kv_heads': 4,
  'model.head_dim': 4,
  'model.mlp': 16,
  'model.attention': 'xla',  # it folds no rows: less to compile
}


class Played(NamedTuple):
  """What a stage did."""

  plan: stage_list.StagePlan
  before: Any  # parameters by role, once it has begun
  after: Any
  rows: list[dict[str, float | None]]  # metrics of its steps
  agents: list[set[int]]  # who speaks, by batch


def played(c, folder, monkeypatch) -> dict[str, Played]:
  """Runs all stages of a config, in order; evaluations are left out."""
  plans = {x.name: x for x in stage_list.plans(c)}
  out: dict[str, Played] = {}
  whole = loop.iterate

  def iterate(alg, stage, state, **fields):
    before, rows, agents = jax.device_get(state.params), [], []

    class Watched:
      task = staticmethod(stage.task)

      @staticmethod
      def collect(*args):
        batch, measured = stage.collect(*args)
        agent, valid = jax.device_get((batch.turns.agent, batch.turns.valid))
        agents.append({*agent[valid].tolist()})
        return batch, measured

    steps = whole(alg, Watched, state, **fields)
    for step, state, metrics in steps:
      read = metrics_lib.DelayedFetch()
      read.push(step, metrics)
      rows.append(read.drain()[1])
      after = jax.device_get(state.params)
      out[stage.name] = Played(plans[stage.name], before, after, rows, agents)
      yield step, state, metrics

  monkeypatch.setattr(loop, 'iterate', iterate)
  nothing = lambda *_: lambda state, step: {}  # noqa: E731
  monkeypatch.setattr(stages, 'evaluations', nothing)
  with runner.open_run([c], [str(folder)]) as (_, _, steps):
    assert dict(jax.sharding.get_mesh().shape).get('tensor') == 4
    collections.deque(steps, maxlen=0)
  assert [*out] == [*plans]
  return out


def moved(stage: Played) -> set[str]:
  """Roles of which anything is not as it was, bit for bit."""
  assert stage.before.keys() == stage.after.keys()
  return {
    role
    for role, params in stage.before.items()
    if not all(
      np.array_equal(a, b) for a, b in same.pairs(params, stage.after[role])
    )
  }


def check_numbers(stage: Played, learns: set[str]) -> None:
  """Losses and gradients are finite, and there was something to learn from.

  Advantages in steps of reinforcement learning, pairs where pairs are learned
  from, by the policy or by a reward model, and else tokens to imitate: in the
  last two steps, since values that are learned begin at 0.
  """
  assert len(stage.rows) == stage.plan.steps >= 2
  for params in stage.after.values():
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(params))
  of_pairs = '/pairs', '/pair_accuracy'
  for row in stage.rows:
    for name, x in row.items():
      if name.startswith('loss/') or name.endswith('/grad_norm'):
        assert np.isfinite(x), name
      if name.endswith('/nonfinite_skips'):
        assert x == 0, name
  for row in stage.rows[-2:]:
    own = {k: x for k, x in row.items() if not k.startswith('rollout/')}
    pairs = [x for k, x in own.items() if k.endswith(of_pairs)]
    assert None not in pairs
    if 'policy' in learns:
      assert row['loss/total'] != 0
      assert row['policy/grad_norm'] > 0
      if stage.plan.kind == 'rl' and not pairs:
        assert row['advantage/post/abs_mean'] > 0
    elif learns:
      assert pairs
    assert all(x > 0 for k, x in own.items() if k.endswith('/pairs'))
