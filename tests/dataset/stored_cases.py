"""Random stored trajectories, ragged and empty ones among them."""

import numpy as np
from hypothesis import strategies as st

from agentrl.dataset.trajectory import SOURCES, StoredTrajectory, make_turn
from agentrl.types import Span, Status

TOKENS = (
  'context',
  'context_span',
  'context_weight',
  'message',
  'span',
  'weight',
  'logp',
  'version',
)
FIXED = ('context', 'context_span', 'message', 'span', 'logp', 'version')


def turn(r: np.random.Generator, read: int, wrote: int):
  names = [n for n in ('env', 'tokens', 'progress') if r.random() < 0.7]
  return make_turn(
    r.integers(0, 99, read),
    r.integers(0, 99, wrote),
    context_span=r.choice([0, Span.INFORMATION], read),
    context_weight=r.choice([0.0, 0.5], read),
    span=r.choice([*Span], wrote),
    weight=r.choice([0.0, 0.25, 1.0], wrote),
    logp=-r.random(wrote),
    version=r.integers(0, 9, wrote),
    entropy=r.random(),
    reward=r.normal(),
    action=r.integers(-1, 4),
    state=r.integers(0, 6),
    scored=r.random() < 0.8,
    terms={name: r.normal() for name in names},
  )


def story(
  seed: int = 0, turns: int | None = None, history: str = 'full', **fields
) -> StoredTrajectory:
  """A trajectory of 0 to 5 turns, whose pieces may be empty."""
  r = np.random.default_rng(seed)
  k = int(r.integers(0, 6)) if turns is None else turns
  made = StoredTrajectory(
    turns=tuple(turn(r, *r.integers(0, 5, 2)) for _ in range(k)),
    task=int(r.integers(0, 3)) if r.random() < 0.5 else f'Zwölf {seed % 3}',
    group=int(r.integers(0, 3)),
    outcome=float(np.float32(r.choice([0.0, 0.3, 1.0]))),
    status=Status(int(r.integers(0, 7))),
    source=str(r.choice(SOURCES[:3])),
    step=int(r.integers(-1, 9)),
    history=history,
    encoded=bool(r.random() < 0.3),
  )
  return made._replace(**fields)


def stories(history: str = 'full'):
  return st.integers(0, 10_000).map(lambda seed: story(seed, history=history))


def same_turn(a, b) -> bool:
  """Whether all fields are equal, bit for bit."""
  arrays = all(
    x.dtype == y.dtype and x.tobytes() == y.tobytes()
    for x, y in zip(a[:8], b[:8], strict=True)
  )
  return arrays and a[8:] == b[8:]


def same(a: StoredTrajectory, b: StoredTrajectory) -> bool:
  turns = len(a.turns) == len(b.turns) and all(map(same_turn, a.turns, b.turns))
  return turns and a[1:] == b[1:]


def pieces(x: StoredTrajectory) -> list[tuple]:
  """What no edit may change of a turn: its message, and who wrote it."""
  return [
    (*(t._asdict()[n].tobytes() for n in FIXED[2:]), t.entropy, t.reward)
    for t in x.turns
  ]
