"""One list of episodes, written into rows in every layout.

All of an episode before a turn is quoted in front of it (weight 0, turn -1)
wherever the turn starts a segment, so every layout has the same conditionals.
"""

from typing import NamedTuple

import numpy as np

from agentrl import types
from tests.model.rows import make

VOCAB = 12
N, T, K = 24, 64, 4  # capacities of every layout
LAYOUTS = ('history', 'turn', 'packed', 'memory')


class Story(NamedTuple):
  """Lists over [trajectory][turn]; equal nodes are the same turn."""

  group: list[int]
  prompt: list[list[int]]
  node: list[list[int]]
  message: list[list[list[int]]]
  answer: list[list[list[int]]]
  reward: list[list[float]]
  old: list[list[list[float]]]  # log-probs of the message's tokens

  def owner(self, i: int, k: int) -> int:
    """The trajectory of lowest index that has this turn."""
    return next(
      j for j, nodes in enumerate(self.node) if self.node[i][k] in nodes[k:][:1]
    )


class Token(NamedTuple):
  id: int
  traj: int
  turn: int = -1
  sampled: bool = False
  weight: float = 0.0
  old: float = 0.0


def episodes(seed: int = 0) -> Story:
  """Two groups of four trajectories that share nothing."""
  lengths = [3, 2, 1, 4, 2, 4, 3, 1]
  start = np.cumsum([0, *lengths])
  node = [[int(start[i]) + k for k in range(n)] for i, n in enumerate(lengths)]
  return _story(node, seed)


def tree(seed: int = 1) -> Story:
  """Two trees of four leaves, which branch after one turn and after two."""
  node = [[10 * (i // 4), 100 + i // 2, 1000 + i] for i in range(8)]
  return _story(node, seed)


def _story(node: list[list[int]], seed: int) -> Story:
  r = np.random.default_rng(seed)
  say = lambda low, high: r.integers(1, VOCAB, r.integers(low, high)).tolist()  # noqa: E731
  made = {
    n: (say(2, 5), say(0, 3), r.normal())
    for n in sorted({n for nodes in node for n in nodes})
  }
  old = {
    n: (-2.5 + 0.3 * r.normal(size=len(made[n][0]))).tolist() for n in made
  }
  prompts = [say(2, 4) for _ in range(2)]
  table = lambda at: [[made[n][at] for n in nodes] for nodes in node]  # noqa: E731
  return Story(
    group=[i // 4 for i in range(8)],
    prompt=[prompts[i // 4] for i in range(8)],
    node=node,
    message=table(0),
    answer=table(1),
    reward=table(2),
    old=[[old[n] for n in nodes] for nodes in node],
  )


def quote(s: Story, i: int, k: int) -> list[Token]:
  """All that trajectory i saw and said before turn k."""
  ids = list(s.prompt[i])
  for j in range(k):
    ids += s.message[i][j] + s.answer[i][j]
  return [Token(x, i) for x in ids]


def turn(s: Story, i: int, k: int) -> list[Token]:
  """Turn k of trajectory i; a turn that another one owns has weight 0."""
  weight = float(s.owner(i, k) == i)
  said = zip(s.message[i][k], s.old[i][k], strict=True)
  message = [Token(x, i, k, True, weight, old) for x, old in said]
  return message + [Token(x, i, k) for x in s.answer[i][k]]


def segments(s: Story, cuts) -> list[list[Token]]:
  """A segment for each stretch of turns; `cuts(i, k)`: turn k starts one."""
  out = []
  for i, nodes in enumerate(s.node):
    for k in range(len(nodes)):
      if k == 0 or cuts(i, k):
        out.append(quote(s, i, k))
      out[-1] += turn(s, i, k)
  return [x for x in out if any(token.weight for token in x)]


def rows_of(s: Story, layout: str) -> list[list[list[Token]]]:
  """Rows of segments of tokens."""
  if layout == 'history':
    return [[x] for x in segments(s, lambda i, k: False)]
  if layout == 'memory':
    return [[x] for x in segments(s, lambda i, k: (i + k) % 2 == 0)]
  each = segments(s, lambda i, k: True)
  if layout == 'turn':
    return [[x] for x in each]
  return [each[j::8] for j in range(min(8, len(each)))]


def lay(s: Story, layout: str, *, dtype=np.float32, separate: bool = True):
  """The story as a Batch, and its `old_logp` [N, T].

  Args:
    separate: False is wrong on purpose: segments of a row see each other.
  """
  rows = rows_of(s, layout)
  assert len(rows) <= N
  seg = np.full((N, T), -1, np.int32)
  field = {
    'id': np.zeros((N, T), np.int32),
    'traj': np.full((N, T), -1, np.int32),
    'turn': np.full((N, T), -1, np.int32),
    'sampled': np.zeros((N, T), bool),
    'weight': np.zeros((N, T), dtype),
    'old': np.zeros((N, T), dtype),
  }
  for n, row in enumerate(rows):
    flat = [(j, token) for j, x in enumerate(row) for token in x]
    assert len(flat) <= T
    for t, (j, token) in enumerate(flat):
      seg[n, t] = j if separate else 0
      for name in field:
        field[name][n, t] = token._asdict()[name]
  batch = types.Batch(
    rows=make(
      field['id'],
      field['sampled'],
      seg,
      traj=field['traj'],
      turn=field['turn'],
      weight=field['weight'],
      logp=field['old'],
    ),
    turns=_turns(s, dtype),
    ids={'group': np.array(s.group, np.int32)},
    outcome=np.array([sum(r) for r in s.reward], dtype),
    status=np.zeros(len(s.group), np.int32),
  )
  return batch, field['old']


def _turns(s: Story, dtype) -> types.Turns:
  b = len(s.group)
  valid, reward = np.zeros((b, K), bool), np.zeros((b, K), dtype)
  node = np.full((b, K), -1, np.int32)
  for i, nodes in enumerate(s.node):
    valid[i, : len(nodes)], node[i, : len(nodes)] = True, nodes
    reward[i, : len(nodes)] = s.reward[i]
  return types.Turns(
    reward=reward,
    terms={},
    scored=valid,
    valid=valid,
    state=node,
    node=node,
    agent=np.zeros((b, K), np.int32),
  )
