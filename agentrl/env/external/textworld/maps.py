"""Maps of TextWorld's coin collector: a way of rooms, and dead ends beside it.

They are drawn here, by the law of TextWorld's own challenge, so that a task is
its map and not a seed: two splits can then not share one.
"""

import dataclasses

import numpy as np

from agentrl.env import splits

SIDES = 'nesw'
WORDS = {'n': 'north', 'e': 'east', 's': 'south', 'w': 'west'}
MOST_ROOMS = 100  # what TextWorld 1.7 can compile
GAMMA = 0.9  # of the value behind the `progress` column, per command


@dataclasses.dataclass(frozen=True)
class CoinMap:
  """Rooms 0 .. L-1 from the start to the coin, then the dead ends.

  Dead end j lies at room j mod L. All rooms form a tree.
  """

  way: str  # the sides that lead to the coin, L - 1 of them
  ends: str  # the side of each dead end

  def exits(self) -> list[dict[str, int]]:
    """Lists, per room, the room behind each side that has one."""
    length = len(self.way) + 1
    rooms: list[dict[str, int]] = [{} for _ in range(length + len(self.ends))]
    links = [(i, side, i + 1) for i, side in enumerate(self.way)]
    links += [(j % length, s, length + j) for j, s in enumerate(self.ends)]
    for here, side, there in links:
      rooms[here][side] = there
      rooms[there][opposite(side)] = here
    return rooms

  def key(self) -> str:
    """Hashes a map, equally for its mirrored and turned forms."""
    forms = []
    for turn in range(4):
      turned = SIDES[turn:] + SIDES[:turn]
      for to in (turned, turned[::-1]):
        table = str.maketrans(SIDES, to)
        forms.append((self.way.translate(table), self.ends.translate(table)))
    return splits.content_key(repr(min(forms)).encode())


def opposite(side: str) -> str:
  """Returns the side one comes back from."""
  return SIDES[(SIDES.index(side) + 2) % 4]


def size(level: int) -> tuple[int, int]:
  """Returns rooms on the way, dead ends at each: what TextWorld calls a level.

  Raises:
    ValueError: no such level, or more rooms than TextWorld can compile.
  """
  length, dead = (level - 1) % 100 + 1, (level - 1) // 100
  if not 1 <= level <= 300 or length * (dead + 1) > MOST_ROOMS:
    raise ValueError(
      f'level {level} is none of TextWorld: use 100 d + l for l rooms on the'
      f' way and d in 0, 1, 2 dead ends at each, of at most {MOST_ROOMS} rooms'
    )
  return length, dead


def draw(level: int, rng: np.random.Generator) -> CoinMap:
  """Draws a map: each side is one of those still free, equally likely."""
  length, dead = size(level)
  free = [set(SIDES) for _ in range(length)]

  def open_side(room: int) -> str:
    side = str(rng.choice(sorted(free[room])))
    free[room].remove(side)
    return side

  way = ''
  for room in range(length - 1):
    way += open_side(room)
    free[room + 1].remove(opposite(way[-1]))
  ends = ''.join(open_side(j % length) for j in range(length * dead))
  return CoinMap(way, ends)


def to_coin(rooms: list[dict[str, int]], coin: int) -> list[int]:
  """Counts the moves from each room to the coin's."""
  far = {coin: 0}
  queue = [coin]
  for room in queue:
    for after in rooms[room].values():
      if after not in far:
        far[after] = far[room] + 1
        queue.append(after)
  return [far[room] for room in range(len(rooms))]


def marks(rooms: list[dict[str, int]], seen: set[int], here: int) -> str:
  """Returns marks of the four sides of a room: all an explorer must remember.

  '?' an exit not taken yet, '+' one taken behind which such exits are left,
  '.' one behind which all is known, '-' no exit; as 'n? e- s. w+'. Taking '?'
  before '+' until the coin is found visits every room of the tree.
  """

  def mark(side: str) -> str:
    if side not in rooms[here]:
      return '-'
    there = rooms[here][side]
    if there not in seen:
      return '?'
    return '+' if _new_behind(rooms, seen, there, here) else '.'

  return ' '.join(side + mark(side) for side in SIDES)


def _new_behind(
  rooms: list[dict[str, int]], seen: set[int], room: int, origin: int
) -> bool:
  """Returns True if an unseen room can be reached without turning back."""
  queue = [(room, origin)]
  for room, origin in queue:
    if room not in seen:
      return True
    queue += [(r, room) for r in rooms[room].values() if r != origin]
  return False
