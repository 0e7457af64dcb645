"""Times of sweeps apart and together: pairs of repeats, and caches by name."""

from agentrl.lab.bench import multi_seed
from tests import errors


def test_a_ratio_is_of_medians_and_its_range_of_pairs():
  lines = multi_seed.table('cold', {1: [10.0, 20.0, 40.0], 5: [5.0, 5.0, 30.0]})
  assert lines[0] == 'cache cold: ratio 0.25 [0.25, 0.75]'
  assert '20.0 s  (10.0 20.0 40.0)' in lines[1]


def test_sweeps_take_turns_and_a_warm_cache_is_filled_first(
  monkeypatch, tmp_path
):
  calls = []

  def sweep(what, place, cache, together):
    calls.append(together)

  monkeypatch.setattr(multi_seed, 'sweep', sweep)
  what = multi_seed.Sweep(seeds=3, repeats=2)
  times = multi_seed.compare(what, str(tmp_path), 'none')
  assert calls == [1, 3, 1, 3]
  assert {together: len(x) for together, x in times.items()} == {1: 2, 3: 2}
  calls.clear()
  multi_seed.compare(what, str(tmp_path), 'warm')
  assert calls == [1, 3] * 3


def test_an_unknown_cache_is_one_sentence():
  with errors.raises(ValueError, '--caches hot'):
    multi_seed.run(multi_seed.Sweep(), ['none', 'hot'], None)
