"""The coin collector keeps what every host family promises."""

import pytest

from tests.env.promises import Case, Promises, check_refusal


class TestCoinCollector(Promises):
  cases = (
    Case('textworld_coin', 'textworld', 'games'),
    Case('textworld_coin', 'textworld', 'games', {'brief': False}, slow=True),
  )


@pytest.mark.parametrize(
  ('fields', 'words'),
  [
    ({'low': 0}, '0 TextWorld'),
    ({'low': 5, 'high': 3}, 'low 5 high 3'),
  ],
)
def test_bad_settings_are_one_sentence(fields, words):
  check_refusal('textworld_coin', fields, words)
