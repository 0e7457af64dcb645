"""What a run's arrays are before there is anything in them."""

import functools
import types
from unittest import mock

import jax
import numpy as np
import pytest

from agentrl.configs import appo, base, dapo, grpo, spear
from agentrl.learner import update
from agentrl.rollout import actor
from agentrl.run import build
from agentrl.run.play import collect as collect_lib
from agentrl.task.base import make_attempts
from agentrl.types import CollectInputs
from tests import errors


@pytest.mark.parametrize('arg', ['frozen_lake', 'countdown'])
def test_memories_begin_empty_with_the_shapes_of_a_batch(tmp_path, arg):
  """Of environments inside jit and on the host; nothing is played."""
  c = spear.get_config(f'tiny,env={arg}')
  c.data = str(tmp_path)
  c.env.update(dict(train=8, test=4))
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  pool = collect_lib.init_memory(s, state).memory['replay']
  assert set(pool.born.tolist()) == {-1}
  n, k = len(pool.born), s.plan.turns
  assert pool.trajectories.turns.reward.shape == (n, k)
  rows = 1 if s.plan.history == 'full' else k
  assert pool.trajectories.rows.tokens.shape == (n, rows, s.capacity.row)


def test_an_rl_step_samples_groups_and_an_evaluation_single_attempts(tmp_path):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.data, c.rollout.group_size = str(tmp_path), 4
  c.rollout.null_observation = 'nothing'
  c.env.update(dict(train=8, test=4))
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(np.arange(8) // 4, 4, s.plan.turns, 1.0)
  args = state.params['policy'], attempts, jax.random.key(1)
  with mock.patch.object(actor, 'model', wraps=actor.model) as model:
    batch = jax.eval_shape(
      functools.partial(collect_lib.rollout_and_score, s), *args, 0
    )
    jax.eval_shape(functools.partial(collect_lib.play, s), *args)
  assert [call.kwargs['group'] for call in model.call_args_list] == [4, 1]
  assert s.plan.history == 'turn'
  assert set(batch.readings) == {'nulled'}


def test_a_collector_reads_a_part_of_a_batch_that_has_fewer_rows(tmp_path):
  """Half of it, which is half of a micro-batch; nothing is folded."""
  c = appo.get_config('tiny')
  c.data, c.model.attention = str(tmp_path), 'xla'
  c.env.update(dict(train=4, test=2))
  c.rollout.update(dict(batch=16, slots=16))
  c.micro_batch = c.sft.batch = 16
  s = build.experiment(c)
  state = update.init(s.algorithm, jax.random.key(0))
  attempts = make_attempts(np.arange(16) // 8, 8, s.plan.turns, 1.0)
  args = state.params['policy'], attempts, jax.random.key(1)
  batch = jax.eval_shape(
    functools.partial(collect_lib.rollout_and_score, s), *args, 0
  )
  assert batch.ids['branch_token'].shape == (16,)


def test_a_run_collects_by_its_own_numbers():
  """Three attempts for each one kept, which do not divide four."""
  c = dapo.get_config('tiny')
  base.hp(c, 'collect', 'dynamic_sampling', times=3)
  four = types.SimpleNamespace(outcome=np.zeros(4))
  collect = collect_lib.collector(base.wiring(c))
  with errors.raises(ValueError, 'times 3'):
    collect(
      CollectInputs(
        sample=lambda *_: four,
        score=lambda batch: batch,
        attempts=None,
        key=None,
      )
    )


def test_a_run_attempts_what_its_collect_piece_asks_for():
  assert (
    collect_lib.num_attempts(base.wiring(grpo.get_config('tiny')), 32) == 32
  )
  c = dapo.get_config('tiny')
  assert collect_lib.num_attempts(base.wiring(c), 32) == 64
  base.hp(c, 'collect', 'dynamic_sampling', times=3)
  assert collect_lib.num_attempts(base.wiring(c), 32) == 96
