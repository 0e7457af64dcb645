"""What an evaluation played is logged as it was played."""

import jax.numpy as jnp
import numpy as np
import pytest

from agentrl.configs import grpo
from agentrl.log import trajectories
from agentrl.rollout.record import Record
from agentrl.run import build, trajectory_log
from agentrl.task.base import make_attempts
from agentrl.types import Status


def record(s: build.Experiment, b: int, seed: int = 0) -> Record:
  """B trajectories of 1 to K turns with messages of random characters."""
  r = np.random.default_rng(seed)
  k, m, c = s.plan.turns, s.plan.message, 12
  turns = r.integers(1, k + 1, b)
  valid = np.arange(k) < turns[:, None]
  real = valid.astype(np.float32)
  return Record(
    context=r.integers(60, 90, (b, k, c), np.int32),
    context_len=r.integers(1, c + 1, (b, k), np.int32),
    message=r.integers(60, 90, (b, k, m), np.int32),
    message_len=r.integers(1, m + 1, (b, k), np.int32),
    span=np.zeros((b, k, m), np.int8),
    logp=-r.random((b, k, m), np.float32),
    entropy=real * r.random((b, k), np.float32),
    action=r.integers(-1, 4, (b, k), np.int32),
    reward=real * r.normal(size=(b, k)).astype(np.float32),
    columns={'progress': real},
    state=r.integers(0, 99, (b, k), np.int32),
    valid=valid,
    status=r.integers(0, 3, b, np.int32),
    outcome=r.random(b, np.float32),
  )


@pytest.mark.parametrize('history', ['turn', 'full'])
def test_an_evaluation_is_logged_as_it_was_played(tmp_path, history):
  c = grpo.get_config('tiny,env=frozen_lake')
  c.update_from_flattened_dict(
    {
      'data': str(tmp_path),
      'env.train': 4,
      'env.test': 2,
      'rollout.history': history,
    }
  )
  s = build.experiment(c)
  tasks = np.array([5, 4, 5, 1, 0])
  played, given = trajectory_log.first(
    3, record(s, 5), make_attempts(tasks, 1, 6, 1.0)
  )
  w = trajectories.TrajectoryWriter(tmp_path, resume_after=None)
  kept = trajectory_log.of_record(s)(played, given, jnp.int32(7))
  trajectory_log.write(s, w, 9, 'eval', kept)
  w.close()
  log, decode = trajectories.Log(tmp_path), s.tokenizer.decode
  assert log.heads['task'].tolist() == [5, 4, 5]
  for i, t in enumerate(log):
    assert (t['step'], t['phase'], t['member']) == (9, 'eval', i)
    assert t['status'] == Status(played.status[i]).name.lower()
    assert t['outcome'] == played.outcome[i]
    assert len(t['turns']) == played.valid[i].sum()
    for k, turn in enumerate(t['turns']):
      context = played.context[i, k, : played.context_len[i, k]].tolist()
      message = played.message[i, k, : played.message_len[i, k]].tolist()
      assert turn['read'] == {'text': decode(context), 'tokens': context}
      assert turn['said']['text'] == decode(message)
      assert turn['said']['who'] == 'policy'
      assert turn['version'] == 7
      assert turn['reward'] == played.reward[i, k]
      assert turn['terms']['entropy'] == played.entropy[i, k]
      np.testing.assert_array_equal(
        np.float32(turn['token']['logp']), played.logp[i, k, : len(message)]
      )
