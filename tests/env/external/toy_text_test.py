"""Toy texts keep what every host family promises."""

from tests.env.promises import Case, Promises


class TestToyText(Promises):
  cases = (
    Case('toy_text', 'gymnasium', 'games'),
    Case('toy_text', 'gymnasium', 'games', {'game': 'taxi'}),
    Case('toy_text', 'gymnasium', 'games', {'game': 'blackjack'}),
    Case('toy_text', 'gymnasium', 'games', {'game': 'cliff_walking'}),
    Case('toy_text', 'gymnasium', 'games', {'slippery': True}),
  )
  refused = (({'game': 'go'}, 'game go'), ({'size': 1}, 'size 1'))
