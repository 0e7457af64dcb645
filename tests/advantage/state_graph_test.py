"""Values that pass through shared states, against plain loops in float64."""

import functools

import jax
import numpy as np
import pytest

from agentrl.advantage import chain
from agentrl.configs import base  # noqa: F401  registers every piece
from tests import batches
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=7, groups=3, members=5, turns=6)
GAMMA, SWEEPS = 0.9, 5
LINK = ('graph_return', {'gamma': GAMMA, 'sweeps': SWEEPS})
EPISODE = ('episode_return', 'center', 'scale')
Z_STEP = (LINK, ('center', {'unit': 'turn'}), ('scale', {'unit': 'turn'}))


def loops(s, gamma=GAMMA, sweeps=SWEEPS, out=(), node=None):
  """[trajectory][turn] -> credit, with dicts; `out` are left out.

  node: (trajectory, turn) -> id; turns of equal id count once together.
  """
  node = node or (lambda i, k: (i, k))
  turns = [
    (i, k)
    for i in range(len(s.group))
    if i not in out
    for k in range(len(s.size[i]))
  ]
  cell = {(i, k): (s.group[i], s.state[i][k]) for i, k in turns}
  copies = {}
  for t in turns:
    copies.setdefault((cell[t], node(*t)), []).append(t)

  def mean(x):
    """Mean over a cell's nodes of the mean over a node's copies."""
    nodes = {}
    for (c, _), ts in copies.items():
      nodes.setdefault(c, []).append(sum(x(*t) for t in ts) / len(ts))
    return {c: sum(xs) / len(xs) for c, xs in nodes.items()}

  def to_go(i, k):
    rest = s.reward[i][k:]
    return sum(gamma**j * r for j, r in enumerate(rest))

  def ahead(v, i, k):
    last = k + 1 == len(s.size[i])
    return s.reward[i][k] + (0.0 if last else gamma * v[cell[i, k + 1]])

  v = mean(to_go)
  for _ in range(sweeps):
    v = mean(functools.partial(ahead, v))
  return [
    [0.0 if i in out else ahead(v, i, k) - v[cell[i, k]] for k in range(len(x))]
    for i, x in enumerate(s.size)
  ]


def credit_of(laid, *names):
  credit, metrics = batches.stream(links(*names), laid.batch, laid.signals)
  return np.asarray(credit.turn), metrics


def same(turn, want, atol=1e-12):
  for i, row in enumerate(want):
    np.testing.assert_allclose(turn[i, : len(row)], row, atol=atol)
    assert not turn[i, len(row) :].any()
  assert not turn[len(want) :].any()


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_is_the_equation_in_every_layout(layout):
  turn, metrics = credit_of(batches.lay(STORY, layout, padding=2), LINK)
  want = loops(STORY)
  same(turn, want)
  assert max(abs(x) for row in want for x in row) > 0.5
  count = {}
  for g, states in zip(STORY.group, STORY.state, strict=True):
    for x in states:
      count[g, x] = count.get((g, x), 0) + 1
  shared = sum(n for n in count.values() if n > 1)
  assert [float(x) for x in metrics['shared']] == [shared, sum(count.values())]


@pytest.mark.parametrize(
  'hp', [{'gamma': 1.0, 'sweeps': 0}, {'gamma': 0.5}, {'sweeps': 3}], ids=str
)
def test_other_batches_discounts_and_sweeps(hp):
  s = batches.story(seed=0, groups=2, members=3, turns=6)
  got, _ = credit_of(batches.lay(s), ('graph_return', hp))
  same(got, loops(s, **({'gamma': 0.95, 'sweeps': 16} | hp)))


def test_on_a_mesh():
  laid = batches.lay(STORY, 'packed')

  def f(batch, signals):
    return chain.stream(links(LINK), batch, signals)[0].turn

  args = laid.batch, laid.signals
  shape = laid.batch.rows.tokens.shape
  same(batches.on_a_mesh(f, args, shape), loops(STORY))


def _alone(s):
  """The same story in which no state recurs."""
  fresh = iter(range(1000))
  return s._replace(state=[[next(fresh) for _ in x] for x in s.state])


def test_without_shared_states_it_is_grpo():
  laid = batches.lay(_alone(STORY))
  streams = {'episode': links(*EPISODE), 'step': links(*Z_STEP)}

  @jax.jit
  def f(batch, signals):
    both = chain.advantage(streams, {}, (), batch, signals)
    alone = chain.stream(links(*EPISODE), batch, signals)
    step = chain.stream(links(LINK), batch, signals)
    return both[0].turn, alone[0].turn, step[0].turn, step[1]['shared']

  both, grpo, step, shared = f(laid.batch, laid.signals)
  np.testing.assert_allclose(step, 0, atol=1e-14)
  np.testing.assert_allclose(both, grpo, atol=1e-7)
  assert np.any(grpo)
  assert not float(shared[0])


def test_who_does_not_count_moves_nothing():
  """An unjudged turn leaves its trajectory out, whatever it would say."""
  laid = batches.lay(STORY)
  scored = np.ones_like(laid.batch.turns.valid)
  scored[1, 2] = scored[7, 0] = False
  turns = laid.batch.turns
  reward = np.where(scored, turns.reward, 1e3)
  batch = laid.batch.replace(turns=turns.replace(scored=scored, reward=reward))
  turn, _ = credit_of(laid._replace(batch=batch), LINK)
  same(turn, loops(STORY, out=(1, 7)))


def test_a_turn_that_branches_share_counts_once():
  state = [row.copy() for row in STORY.state]
  for i in (1, 2, 3):
    state[i][0] = state[1][0]
  s = STORY._replace(state=state)
  laid = batches.lay(s)
  node = laid.batch.turns.node.copy()
  node[2, 0] = node[3, 0] = node[1, 0]
  batch = laid.batch.replace(turns=laid.batch.turns.replace(node=node))
  turn, _ = credit_of(laid._replace(batch=batch), LINK)
  want = loops(s, node=lambda i, k: node[i, k])
  same(turn, want)
  assert abs(want[0][0] - loops(s)[0][0]) + abs(want[1][0] - loops(s)[1][0])


def test_an_empty_batch_is_no_nan():
  laid = batches.lay(STORY)
  zero = np.zeros_like(laid.batch.turns.valid)
  turns = laid.batch.turns.replace(valid=zero)
  batch = laid.batch.replace(turns=turns)
  turn, _ = credit_of(laid._replace(batch=batch), LINK)
  assert not turn.any()
