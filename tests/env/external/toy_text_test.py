"""Toy texts keep what every host family promises."""

import pytest

from tests.env.promises import Case, Promises, check_refusal


class TestToyText(Promises):
  cases = (
    Case('toy_text', 'gymnasium', 'games'),
    Case('toy_text', 'gymnasium', 'games', {'game': 'taxi'}),
    Case('toy_text', 'gymnasium', 'games', {'game': 'blackjack'}),
    Case('toy_text', 'gymnasium', 'games', {'game': 'cliff_walking'}),
    Case('toy_text', 'gymnasium', 'games', {'slippery': True}),
  )


@pytest.mark.parametrize(
  ('fields', 'words'),
  [({'game': 'go'}, 'game go'), ({'size': 1}, 'size 1')],
)
def test_bad_settings_are_one_sentence(fields, words):
  check_refusal('toy_text', fields, words)
