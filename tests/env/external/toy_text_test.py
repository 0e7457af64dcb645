"""Toy texts keep what every host family promises."""

from agentrl.env.external.toy_text import ToyText
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


def test_as_much_of_a_lake_is_frozen_as_was_asked():
  """Slippery lakes need no Gymnasium to be drawn."""
  family = ToyText(size=6, frozen=0.75, slippery=True)
  maps = [''.join(x.task['map']) for x in family.tasks('train', 60, seed=0)]
  assert all((x[0], x[-1]) == ('S', 'G') for x in maps)
  inner = ''.join(x[1:-1] for x in maps)
  assert set(inner) == {'F', 'H'}
  assert abs(inner.count('F') / len(inner) - 0.75) < 0.04  # 4.2 deviations
