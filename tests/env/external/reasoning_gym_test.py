"""Reasoning Gym keeps what every host family promises."""

import pytest

from tests.env.promises import Case, Promises, check_refusal


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


@pytest.mark.parametrize(
  ('fields', 'words'),
  [
    ({'settings': '[]'}, 'JSON'),
    ({'settings': '{"size": 3}'}, ''),
  ],
)
def test_bad_settings_are_one_sentence(fields, words):
  check_refusal('reasoning_gym', fields, words)
