"""Calls are timed in turn; a ratio is of medians, its range of pairs."""

from agentrl.lab.bench import timing


def test_calls_take_turns():
  order = []
  calls = {x: lambda x=x: order.append(x) for x in 'ab'}
  took = timing.interleaved(calls, 2, warm=1)
  assert order == ['a', 'b', 'a', 'b', 'a', 'b']
  assert {name: len(x) for name, x in took.items()} == {'a': 2, 'b': 2}


def test_a_ratio_is_of_medians_and_its_range_of_pairs():
  ratio = timing.ratio([5.0, 5.0, 30.0], [10.0, 20.0, 40.0])
  assert ratio == (0.25, 0.25, 0.75)
