"""CPR norms as its config wires it: seats' rows, ablations, refusals."""

import jax
import numpy as np
import pytest

from agentrl.configs import cpr_norms
from agentrl.run import build
from agentrl.run.play import host_env, sampler
from tests import errors
from tests.env.worlds import refereed


def config(folder, **env):
  c = cpr_norms.get_config('tiny')
  c.data = str(folder / 'data')
  c.model.update(
    dict(width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp=32)
  )
  c.rollout.update(dict(batch=16, slots=8))
  c.env.update(dict(train=6, test=4) | env)
  c.micro_batch = c.sft.batch = 8
  return c


def test_rows_hold_what_a_seat_heard_and_said_and_what_it_is_paid(tmp_path):
  s = build.experiment(config(tmp_path, selfish=2))
  family = s.world.family
  with sampler.open_sampler(s) as playing:
    demos = playing.demos(np.arange(16) // 4)
    batch = playing.replay(demos, jax.random.key(0))
  tokens, traj = np.asarray(batch.rows.tokens), np.asarray(batch.rows.traj)
  sampled = np.asarray(batch.rows.sampled)
  reward = np.asarray(batch.turns.terms['env']).sum(axis=1)
  solved = family.tasks('train', 6, s.config.env.seed)
  tasks = [(x.task, x.demonstration) for x in solved]
  for match in range(4):
    task = s.train.tasks[match]
    said = next(said for other, said in tasks if other == task)
    read, earned, _ = refereed.play(family, task, refereed.by_script(said))
    for seat, name in enumerate(family.seat_names):
      b = 4 * match + seat
      own = tokens[(traj == b) & ~sampled]
      held = s.tokenizer.decode(own.tolist())
      for text in read[name]:
        assert text in held
      assert held.count('take?') == len(read[name][::2])
      assert reward[b] == pytest.approx(earned[name], abs=1e-6)
  assert len({*np.round(reward, 4)}) > 2


@pytest.mark.parametrize(
  'gone', [('punish',), ('social',), ('vote',), ('punish', 'social', 'vote')]
)
def test_ablations_are_flags(tmp_path, gone):
  c = config(tmp_path)
  for name in gone:
    c.env[name] = False
  assert build.experiment(c).seats == 4


def test_mistakes_are_told_before_anything_is_played(tmp_path):
  with errors.raises(ValueError, 'env.selfish 5 players'):
    build.experiment(config(tmp_path, selfish=5))
  s = build.experiment(config(tmp_path, rounds=6))
  with errors.raises(ValueError, 'rollout.max_turns=6 12'):
    demos = s.train.demonstration
    host_env.messages(s.config, s.tokenizer, demos, seats=s.seats)
  c = config(tmp_path)
  c.rollout.group_size = 4
  with errors.raises(ValueError, 'rollout.group_size 8 4'):
    build.experiment(c)
