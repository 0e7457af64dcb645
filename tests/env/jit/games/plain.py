"""Rules of the games in plain Python, apart from those inside jit.

A state is (deal, moves so far). `turn` says who moves and what is legal, or
what everybody has got; `private` is what a seat knows beside public moves.
"""

import itertools

KUHN_DEALS = tuple(itertools.permutations(range(3), 2))
LEDUC_DEALS = tuple(itertools.permutations(range(6), 3))


def kuhn(deal, moves):
  """-> (seat, legal moves), or the returns of both seats."""
  cards, line = KUHN_DEALS[deal], ''.join('pb'[a] for a in moves)
  better = 1 if cards[0] > cards[1] else -1
  won = {'pp': better, 'bb': 2 * better, 'pbb': 2 * better, 'bp': 1, 'pbp': -1}
  if line in won:
    return won[line], -won[line]
  return len(line) % 2, [0, 1]


def leduc(deal, moves):
  """-> (seat, legal moves), or the returns of both seats."""
  first, second, public = (card // 2 for card in LEDUC_DEALS[deal])
  paid, seat, stage, raises, calls = [1, 1], 0, 0, 0, 0
  for move in moves:
    if move == 0:
      lost = paid[seat]
      return (lost, -lost) if seat == 1 else (-lost, lost)
    if move == 2:
      paid[seat] = max(paid) + (2, 4)[stage]
      raises, calls = raises + 1, 0
    else:
      paid[seat] = max(paid)
      calls += 1
    seat = 1 - seat
    if move == 1 and (calls == 2 or raises):  # a round ends by a call
      stage, raises, calls, seat = stage + 1, 0, 0, 0
  if stage == 2:
    pair = (second == public) - (first == public)
    better = -pair if pair else (first > second) - (first < second)
    return better * paid[0], -better * paid[0]
  legal = [0] * (paid[1 - seat] > paid[seat]) + [1] + [2] * (raises < 2)
  return seat, legal


def leduc_seen(deal, moves, seat):
  """What a seat knows, as OpenSpiel's histories are grouped."""
  cards = [card // 2 for card in LEDUC_DEALS[deal]]
  shown = cards[2] if stage_of(moves) else None
  return cards[seat], shown, tuple(moves)


def stage_of(moves):
  """Rounds of Leduc that have ended."""
  stage = calls = raises = 0
  for move in moves:
    raises += move == 2
    calls = 0 if move == 2 else calls + 1
    if move == 1 and (calls == 2 or raises):
      stage, calls, raises = stage + 1, 0, 0
  return stage


def best_and_played(rules, deals, seen, policy):
  """What each seat gets by a best response, and by the policy, in float64.

  Args:
    policy: (what is seen, seat, legal) -> probabilities of the legal moves
  """

  def walk(deal, moves, chance, seat, response):
    """The value of the seat, `chance` being that of the others' moves."""
    at = rules(deal, moves)
    if not isinstance(at[1], list):
      return at[seat]
    mover, legal = at
    known = seen(deal, moves, mover)
    if mover == seat and response is not None:
      p = response[known]
    else:
      p = policy(known, mover, legal)
    return sum(
      q * walk(deal, (*moves, a), chance * q, seat, response)
      for q, a in zip(p, legal, strict=True)
      if q
    )

  def played(seat):
    n = range(len(deals))
    return sum(walk(d, (), 1.0, seat, None) for d in n) / len(deals)

  def responded(seat):
    """Goes through information sets, the longest histories first."""
    sets = {}

    def visit(deal, moves, chance):
      at = rules(deal, moves)
      if not isinstance(at[1], list):
        return
      mover, legal = at
      known = seen(deal, moves, mover)
      p = policy(known, mover, legal)
      if mover == seat:
        sets.setdefault(known, []).append((deal, moves, chance, legal))
        p = [1.0] * len(legal)
      for q, a in zip(p, legal, strict=True):
        visit(deal, (*moves, a), chance * q)

    for d in range(len(deals)):
      visit(d, (), 1.0)
    response = {}
    for known, nodes in sorted(sets.items(), key=lambda x: -len(x[1][0][1])):
      legal = nodes[0][3]
      worth = [
        sum(
          chance * walk(d, (*m, a), chance, seat, response)
          for d, m, chance, _ in nodes
        )
        for a in legal
      ]
      best = worth.index(max(worth))
      response[known] = [float(i == best) for i in range(len(legal))]
    n = range(len(deals))
    return sum(walk(d, (), 1.0, seat, response) for d in n) / len(deals)

  return [(responded(seat), played(seat)) for seat in (0, 1)]


def paid(rules, deals, seen, mine, others):
  """What a policy gets against another's, mean over the seats, in float64.

  Args:
    mine, others: (what is seen, seat, legal) -> probabilities of legal moves
  """

  def walk(deal, moves, seat):
    at = rules(deal, moves)
    if not isinstance(at[1], list):
      return at[seat]
    mover, legal = at
    policy = mine if mover == seat else others
    p = policy(seen(deal, moves, mover), mover, legal)
    return sum(
      q * walk(deal, (*moves, a), seat) for q, a in zip(p, legal, strict=True)
    )

  n = len(deals)
  return sum(walk(d, (), s) for d in range(n) for s in (0, 1)) / (2 * n)


def _alike(known, seat, legal):
  return [1 / len(legal)] * len(legal)


def _one(choose):
  """Plays the move that choose(known, legal) returns."""
  return lambda known, seat, legal: [
    float(a == choose(known, legal)) for a in legal
  ]


# Kuhn: 0 passes, 1 bets. Leduc: 0 folds, 1 calls, 2 raises.
OPPONENTS = {
  'kuhn': {
    'uniform': _alike,
    'passes': _one(lambda known, legal: 0),
    'bets': _one(lambda known, legal: 1),
    'king': _one(lambda known, legal: int(known[0] == 2)),
    # Kuhn (1950), the first seat's free number at 1/3.
    'equilibrium': lambda known, seat, legal: [
      1 - EQUILIBRIUM[known[1]][known[0]],
      EQUILIBRIUM[known[1]][known[0]],
    ],
  },
  'leduc': {
    'uniform': _alike,
    'folds': _one(lambda known, legal: min(legal)),
    'calls': _one(lambda known, legal: 1),
    'raises': _one(lambda known, legal: max(legal)),
  },
}
# By moves so far: chance to bet or to call with J, Q and K.
EQUILIBRIUM = {
  (): (1 / 3, 0, 1),
  (0,): (1 / 3, 0, 1),
  (1,): (0, 1 / 3, 1),
  (0, 1): (0, 2 / 3, 1),
}
