"""The benchmark of checkpoints measures saves that are there."""

from agentrl.lab.bench import checkpoint_cost
from agentrl.runtime import checkpoint


def test_a_small_state_is_saved_and_timed(tmp_path):
  times = checkpoint_cost.measure(0.001, str(tmp_path))
  assert len(times) == checkpoint_cost.SAVES
  for t in times:
    assert 0 < t['save'] <= t['blocked']
    assert t['save'] < t['sealed']
  saves = checkpoint.Checkpoints(tmp_path / 'checkpoints')
  assert saves._steps() == [checkpoint_cost.SAVES - 1]
