"""Batches for tests of a method: ragged, in float64, in several layouts.

`story(seed)` is what happened, as lists over trajectories and turns; `lay`
writes it into a Batch and its token signals; `read` collects an [N, T] array
back into lists. A test computes on the lists in plain loops, and so does not
depend on the layout.
"""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from agentrl import registry, types
from agentrl.advantage import chain
from agentrl.loss import ppo

LAYOUTS = ('history', 'turn', 'packed')
TOKEN_FIELDS = ('logp', 'old_logp', 'ref_logp', 'value', 'prm', 'entropy')


class Story(NamedTuple):
  """Trajectories of groups; lists over [trajectory][turn] of arrays [n]."""

  group: list[int]
  reward: list[list[float]]
  state: list[list[int]]
  step: list[list[float]]  # a turn-level signal
  outcome: list[float]
  size: list[list[int]]  # sampled tokens of the turn
  answer: list[list[int]]  # tokens of the environment's answer
  token: dict[str, list[list[np.ndarray]]]


class Laid(NamedTuple):
  batch: types.Batch
  signals: dict[str, Any]
  tokens: dict[str, Any]  # every TOKEN_FIELDS entry, [N, T]


def story(seed=0, *, groups=3, members=4, turns=4, longest=5) -> Story:
  """Tells a story: group 1 is constant, the last trajectory alone in its group.

  Trajectory 0 has one turn, trajectory 1 all of them.
  """
  r = np.random.default_rng(seed)
  group = [g for g in range(groups) for _ in range(members)] + [groups]
  count = [int(r.integers(1, turns + 1)) for _ in group]
  count[0], count[1] = 1, turns
  size = [[int(r.integers(1, longest + 1)) for _ in range(n)] for n in count]
  reward = [[float(r.normal()) for _ in range(n)] for n in count]
  for i, g in enumerate(group):
    if g == 1:
      reward[i] = [0.0] * (count[i] - 1) + [0.7]
  token = {
    name: [[r.normal(size=n) for n in sizes] for sizes in size]
    for name in TOKEN_FIELDS
  }
  for near in ('old_logp', 'ref_logp'):  # ratios around one
    token[near] = [
      [x + 0.3 * r.normal(size=x.shape) for x in xs] for xs in token['logp']
    ]
  return Story(
    group=group,
    reward=reward,
    state=[[int(r.integers(0, 3)) for _ in range(n)] for n in count],
    step=[[float(r.normal()) for _ in range(n)] for n in count],
    outcome=[0.7 if g == 1 else float(r.normal()) for g in group],
    size=size,
    answer=[[int(r.integers(0, 3)) for _ in range(n)] for n in count],
    token=token,
  )


def lay(s: Story, layout='history', *, padding=0, seed=0, order=None) -> Laid:
  """Packs the story in rows.

  Args:
    layout: 'history' a row per trajectory, 'turn' a row per turn, 'packed'
      rows that hold turns of several trajectories after one another.
    padding: adds so many rows, tokens, trajectories and turns of nothing.
    order: permutation of the rows before padding.
  """
  rows = _rows(s, layout)
  if order is not None:
    rows = [rows[i] for i in order(len(rows))]
  n = len(rows) + padding
  n += n % 2  # meshes of the tests split rows in two
  t = max(len(row) for row in rows) + padding
  b, k = len(s.group) + padding, max(map(len, s.size)) + padding
  r = np.random.default_rng(seed)
  ids = np.full((4, n, t), -1, np.int32)  # seg, traj, turn, index in the turn
  for i, row in enumerate(rows):
    ids[:, i, : len(row)] = np.array(row, np.int32).T
  seg, traj, turn, index = ids
  sampled = index >= 0
  tokens = {
    name: _spread(s.token[name], traj, turn, index, r.normal(size=(n, t)))
    for name in TOKEN_FIELDS
  }
  rows = types.Rows(
    tokens=r.integers(0, 9, (n, t)).astype(np.int32),
    seg=seg,
    traj=traj,
    turn=turn,
    span=np.zeros((n, t), np.int8),
    sampled=sampled,
    weight=sampled.astype(np.float64),
    logp=np.where(sampled, tokens['old_logp'], 0.0),
    version=np.zeros((n, t), np.int32),
  )
  table = _table(b, k, r)
  turns = types.Turns(
    reward=table(s.reward, float),
    terms={'judge': table(s.step, float)},
    scored=np.ones((b, k), bool),
    valid=table([[1] * len(x) for x in s.size], bool),
    state=table(s.state, np.int32),
    node=np.arange(b * k, dtype=np.int32).reshape(b, k),
    agent=np.zeros((b, k), np.int32),
  )
  group = np.full(b, 99, np.int32)
  group[: len(s.group)] = s.group
  outcome = np.full(b, 5.0)
  outcome[: len(s.group)] = s.outcome
  batch = types.Batch(
    rows=rows,
    turns=turns,
    ids={'group': group},
    outcome=outcome,
    status=np.zeros(b, np.int32),
  )
  signals = {name: tokens[name] for name in ('old_logp', 'ref_logp', 'value')}
  signals['implicit_prm.token'] = tokens['prm']
  signals['implicit_prm.step'] = table(s.step, float)
  return Laid(batch, signals, tokens)


def read(x, s: Story, laid: Laid) -> list[list[np.ndarray]]:
  """Reads x [N, T] at sampled tokens: lists over [trajectory][turn] of [n]."""
  x, rows = np.asarray(x), laid.batch.rows
  out = []
  for i, sizes in enumerate(s.size):
    here = [
      rows.sampled & (rows.traj == i) & (rows.turn == k)
      for k in range(len(sizes))
    ]
    out.append([x[mask] for mask in here])
  return out


def flat(xs: list[list[np.ndarray]]) -> np.ndarray:
  return np.concatenate([np.ravel(x) for turns in xs for x in turns])


def _rows(s: Story, layout: str):
  """Returns lists of (seg, traj, turn, index) of tokens, one list per row."""
  rows, prompt = [], [(-1, -1)] * 2
  for i, sizes in enumerate(s.size):
    start = [(i, *p) for p in prompt]
    # The message of a turn, then the answer to it, where nothing is sampled.
    turns = [
      [(i, k, j) for j in range(n)] + [(i, k, -1)] * s.answer[i][k]
      for k, n in enumerate(sizes)
    ]
    if layout == 'history':
      rows.append(start + [token for turn in turns for token in turn])
    else:
      rows += [start + turn for turn in turns]
  rows = [[(0, *token) for token in row] for row in rows]
  return _pack(rows) if layout == 'packed' else rows


def _pack(rows, capacity=24):
  """Packs rows one after another, each a segment; neighbours from far apart."""
  rows = rows[::2] + rows[1::2]
  out: list[list] = [[]]
  for row in rows:
    if out[-1] and len(out[-1]) + len(row) > capacity:
      out.append([])
    seg = out[-1][-1][0] + 1 if out[-1] else 0
    out[-1] += [(seg, *token[1:]) for token in row]
  return out


def _spread(values, traj, turn, index, noise):
  """Spreads values to their tokens; noise where nothing was sampled."""
  out = noise.copy()
  for n, t in zip(*np.nonzero(index >= 0), strict=True):
    out[n, t] = values[traj[n, t]][turn[n, t]][index[n, t]]
  return out


def _table(b, k, r):
  """Returns a maker of [B, K] arrays; non-turns hold noise (bool: False)."""

  def make(values, dtype):
    out = 3 * r.normal(size=(b, k))
    out = np.zeros((b, k)) if dtype is bool else out
    for i, row in enumerate(values):
      out[i, : len(row)] = row
    return out.astype(dtype)

  return make


def loss(name, inputs, key=0, **hp):
  """Returns value, weight and metrics of a registered loss.

  Args:
    inputs: outputs, batch, credit, signals
  """
  outputs, batch, credit, signals = inputs
  x = types.LossInputs(
    outputs=outputs,
    batch=batch,
    credit=credit,
    signals=signals,
    key=jax.random.key(key),
  )
  value, metrics = registry.bind('loss', name, hp)(x)
  return value, ppo.weights(name, x), metrics


def stream(links, batch, signals):
  """Returns the credit of a chain, compiled as one."""
  return jax.jit(functools.partial(chain.stream, links))(batch, signals)


def links(*names):
  """Binds links from names or (name, hyper-parameters)."""
  pairs = [(x, {}) if isinstance(x, str) else x for x in names]
  return [registry.bind('link', name, hp) for name, hp in pairs]
