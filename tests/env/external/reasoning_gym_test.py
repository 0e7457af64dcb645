"""Reasoning Gym keeps what every host family promises."""

from tests.env.promises import Case, Promises


class TestReasoningGym(Promises):
  cases = tuple(
    Case(
      name='reasoning_gym',
      package='reasoning_gym',
      extra='games',
      fields={'dataset': dataset},
      slow=True,  # takes seconds to import
    )
    for dataset in ('chain_sum', 'countdown', 'rush_hour', 'sudoku')
  )
  refused = (
    ({'settings': '[]'}, 'JSON'),
    ({'settings': '{"size": 3}'}, ''),
  )
