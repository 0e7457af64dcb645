"""What a run's arrays are before there is anything in them."""

import jax
import pytest

from agentrl import learner
from configs import spear
from experiments import build, rollouts


@pytest.mark.parametrize('arg', ['frozen_lake', 'countdown'])
def test_memories_begin_empty_with_the_shapes_of_a_batch(tmp_path, arg):
  """Of environments inside jit and on the host; nothing is played."""
  c = spear.get_config(f'tiny,env={arg}')
  c.data = str(tmp_path)
  c.env.update(dict(train=8, test=4))
  s = build.setup(c)
  state = learner.init(s.learner, jax.random.key(0))
  pool = rollouts.forget(s, state).memory['replay']
  assert set(pool.born.tolist()) == {-1}
  n, k = len(pool.born), s.plan.turns
  assert pool.kept.turns.reward.shape == (n, k)
  rows = 1 if s.plan.history == 'full' else k
  assert pool.kept.rows.tokens.shape == (n, rows, s.capacity.row)
