"""The benchmark of stores measures a store that is there."""

from agentrl.dataset import trajectory_store
from agentrl.lab.bench import trajectory_store as bench


def test_a_small_store_is_built_and_timed(tmp_path):
  numbers = bench.measure(40, str(tmp_path), reads=20)
  store = trajectory_store.open_store(tmp_path, 'bench')
  assert len(store) == 40
  size = bench.TURNS * bench.MESSAGE
  assert {x.tokens for x in store} == {size}
  assert all(x > 0 for x in numbers.values())
