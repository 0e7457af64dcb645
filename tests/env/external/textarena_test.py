"""TextArena keeps what every host family promises."""

import pytest

from agentrl.env.external import textarena
from tests.env.promises import Case, Promises, check_refusal


class TestTextArena(Promises):
  cases = tuple(
    Case(
      name='textarena',
      package='textarena',
      extra='games',
      fields={'id': f'{game}-v0'},
      slow=True,  # takes seconds to import
    )
    for game in sorted((*textarena.ALONE, *textarena.MOVES))
  )


@pytest.mark.parametrize(
  ('fields', 'words'),
  [
    ({'id': 'Wordle-v0'}, ''),
    ({'id': 'Halma-v0'}, ''),
  ],
)
def test_bad_settings_are_one_sentence(fields, words):
  check_refusal('textarena', fields, words)
