"""Exploitability by OpenSpiel, for tests where there is none.

  python -m tests.env.jit.games.openspiel_numbers  # writes the .json beside it

needs `pip install -e '.[parity]'`, and neither JAX nor agentrl. Policies are
drawn by what a player knows, in words that both sides have.
"""

import hashlib
import importlib.metadata
import json
import pathlib
from collections.abc import Sequence

import numpy as np

FILE = pathlib.Path(__file__).with_suffix('.json')
GAMES = {'kuhn': 'kuhn_poker', 'leduc': 'leduc_poker'}
UNIFORM, RANDOM = 'uniform', ('random_1', 'random_2', 'random_3')


def drawn(
  policy: str, seat: int, cards: Sequence[int], moves: str, legal: Sequence[int]
) -> list[float]:
  """Probabilities of the legal moves where a player knows so much.

  Args:
    cards: ranks from 0 on: its own, and the public one once it is shown
    moves: digits of OpenSpiel's actions, without the deals
  """
  if policy == UNIFORM:
    return [1 / len(legal)] * len(legal)
  said = f'{policy} {seat} {",".join(map(str, cards))} {moves}'
  seed = int.from_bytes(hashlib.sha256(said.encode()).digest()[:8], 'big')
  return np.random.default_rng(seed).dirichlet(np.ones(len(legal))).tolist()


def made() -> dict:
  """What the file holds: exploitability by game and policy."""
  import pyspiel
  from open_spiel.python import policy as spiel_policy
  from open_spiel.python.algorithms import exploitability

  out = {'open_spiel': importlib.metadata.version('open_spiel')}
  for name, of in GAMES.items():
    game = pyspiel.load_game(of)
    out[name] = {}
    for which in (UNIFORM, *RANDOM):
      table = spiel_policy.TabularPolicy(game)
      for state in table.states:
        seat, legal = state.current_player(), state.legal_actions()
        row = table.policy_for_key(state.information_state_string(seat))
        row[:] = 0
        row[legal] = drawn(which, seat, *_known(name, state), legal)
      out[name][which] = exploitability.exploitability(game, table)
  return out


def _known(name: str, state) -> tuple[list[int], str]:
  """Returns the ranks that the player of a state knows, and all moves."""
  seat, ranks, moves = state.current_player(), [], ''
  for x in state.full_history():
    if x.player < 0:
      ranks.append(x.action if name == 'kuhn' else x.action // 2)
    else:
      moves += str(x.action)
  return [ranks[seat], *ranks[2:]], moves


if __name__ == '__main__':
  FILE.write_text(json.dumps(made(), indent=1) + '\n')
