"""The coin collector keeps what every host family promises."""

from tests.env.promises import Case, Promises


class TestCoinCollector(Promises):
  cases = (
    Case('textworld_coin', 'textworld', 'games'),
    Case('textworld_coin', 'textworld', 'games', {'brief': False}, slow=True),
  )
  refused = (
    ({'low': 0}, '0 TextWorld'),
    ({'low': 5, 'high': 3}, 'low 5 high 3'),
  )
