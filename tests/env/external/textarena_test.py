"""TextArena keeps what every host family promises."""

from agentrl.env.external import textarena
from tests.env.promises import Case, Promises


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
  refused = (({'id': 'Wordle-v0'}, ''), ({'id': 'Halma-v0'}, ''))
