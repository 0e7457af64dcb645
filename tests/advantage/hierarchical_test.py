"""HAE against loops over segments, and what it is without them."""

import numpy as np
import pytest

from agentrl.advantage import hierarchical
from agentrl.types import Span
from tests import batches
from tests.advantage import unscored
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=51, groups=2, members=3, turns=5)
HEADS = {'low': 'value', 'high': 'prm', 'switch': 'entropy'}  # any three
GAMMA, LAM, LAM_SEGMENT = 0.9, 0.8, 0.7


def _switches(seed=0):
  """Whether a turn says SWITCH, at random; the first one may say KEEP."""
  r = np.random.default_rng(seed)
  return [[int(r.integers(0, 2)) for _ in x] for x in STORY.size]


def _lay(switches, layout='history', padding=2):
  """Tokens of a message: a switch, subgoals, and the last one an action."""
  laid = batches.lay(STORY, layout, padding=padding)
  rows, turns = laid.batch.rows, laid.batch.turns
  term = np.random.default_rng(9).integers(0, 2, turns.valid.shape) * 1.0
  for i, row in enumerate(switches):
    term[i, : len(row)] = row  # noise elsewhere
  span = np.full(rows.span.shape, int(Span.CALL), np.int8)
  for i, sizes in enumerate(STORY.size):
    for k, n in enumerate(sizes):
      here = rows.sampled & (rows.traj == i) & (rows.turn == k)
      span[here] = _spans(n)
  batch = laid.batch.replace(
    rows=rows.replace(span=span), turns=turns.replace(terms={'switch': term})
  )
  signals = {name: laid.tokens[field] for name, field in HEADS.items()}
  return laid, batch, signals


def _spans(n):
  """[SWITCH, SUBGOAL, ..., CALL], cut to what there is room for."""
  middle = [int(Span.SUBGOAL)] * (n - 2)
  return [int(Span.SWITCH), *middle, int(Span.CALL)][-n:]


def _starts(switches, i):
  return [k for k in range(len(switches[i])) if k == 0 or switches[i][k]]


def _by_hand(switches, i):
  """Of one trajectory: (low, high, switch), (targets of the same)."""
  n = len(STORY.size[i])
  v = {
    name: [x[0] for x in STORY.token[field][i]] for name, field in HEADS.items()
  }
  r, starts = STORY.reward[i], _starts(switches, i)
  low, high, q = np.zeros(n), np.zeros(n), np.zeros(n)
  later = 0.0
  for b, e in reversed(list(zip(starts, [*starts[1:], n], strict=True))):
    after = v['high'][e] if e < n else 0.0
    values = [*v['low'][b:e], after]
    for k in range(b, e):
      low[k] = sum(
        (GAMMA * LAM) ** (j - k)
        * (r[j] + GAMMA * values[j - b + 1] - values[j - b])
        for j in range(k, e)
      )
      q[k] = sum(GAMMA ** (j - k) * r[j] for j in range(k, e))
      q[k] += GAMMA ** (e - k) * after
    delta = q[b] - v['high'][b]
    high[b] = later = delta + GAMMA ** (e - b) * LAM_SEGMENT * later
  advantages = low, high, q - np.array(v['switch'])
  return advantages, (low + v['low'], high + v['high'], q)


def _links():
  return [
    ('hae_low', {'gamma': GAMMA, 'lam': LAM}),
    ('hae_high', {'gamma': GAMMA, 'lam': LAM_SEGMENT}),
    ('hae_switch', {'gamma': GAMMA}),
  ]


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_three_advantages_three_spans_three_targets(layout):
  switches = _switches()
  laid, batch, signals = _lay(switches, layout)
  where = (Span.CALL, Span.SUBGOAL, Span.SWITCH)
  hand = [_by_hand(switches, i) for i in range(len(STORY.group))]
  for at, (link, span) in enumerate(zip(_links(), where, strict=True)):
    credit, _ = batches.stream(links('turn_reward', link), batch, signals)
    entries = [
      [at != 1 or k in _starts(switches, i) for k in range(len(STORY.size[i]))]
      for i in range(len(hand))
    ]
    pool = np.concatenate(
      [a[at][e] for (a, _), e in zip(hand, entries, strict=True)]
    )
    mean, std = np.mean(pool), np.sqrt(np.var(pool, ddof=1) + 1e-8)
    name = list(HEADS)[at]
    parts = credit.token, credit.target[name], credit.target[f'{name}.weight']
    a, goal, weight = (batches.read(x, STORY, laid) for x in parts)
    assert not np.any(credit.turn)
    for i, sizes in enumerate(STORY.size):
      for k, n in enumerate(sizes):
        on = np.array(_spans(n)) == int(span)
        white = (hand[i][0][at][k] - mean) / std if entries[i][k] else 0
        np.testing.assert_allclose(a[i][k], white * on, atol=1e-9)
        first = (np.arange(n) == 0) & entries[i][k]
        np.testing.assert_array_equal(weight[i][k], first)
        np.testing.assert_allclose(
          goal[i][k], hand[i][1][at][k] * first, atol=1e-9
        )
    assert not np.asarray(credit.token)[~batch.rows.sampled].any()


def _table(rows):
  return np.array(rows, np.float64)


def test_golden():
  """Five turns, segments {0, 1} and {2, 3, 4}."""
  s = hierarchical.Segments(
    has=np.ones((1, 5), bool),
    start=_table([[1, 0, 1, 0, 0]]) > 0,
    end=_table([[0, 1, 0, 0, 0]]) > 0,
  )
  r = _table([[0, 0, 0, 0, 1]])
  v_low = _table([[0.2, 0.3, 0.4, 0.5, 0.6]])
  v_high = _table([[0.25, 9, 0.45, 9, 9]])  # read at the starts only
  low = hierarchical.low(r, v_low, v_high, s, 1.0, 1.0)
  np.testing.assert_allclose(low, [[0.25, 0.15, 0.6, 0.5, 0.4]])
  high = hierarchical.high(r, v_high, s, 1.0, 0.95)
  np.testing.assert_allclose(high, [[0.7225, 0, 0.55, 0, 0]])


def test_golden_gain_of_a_switch():
  """V_high - V_low = 0.2: chosen at 0.8 or 0.1; not chosen at 0.4 or 1."""
  a = hierarchical.switch_gain(
    _table([[1, 1, 0, 0]]) > 0,
    _table([[0.8, 0.1, 0.6, 0.0]]),
    np.full((1, 4), 0.2),
  )
  np.testing.assert_allclose(a, [[0.04, 0.18, -0.08, -0.2]])


@pytest.mark.parametrize('layout', batches.BY_DAY)
def test_gain_of_a_switch_on_its_token(layout):
  switches = _switches()
  laid, batch, signals = _lay(switches, layout)
  logp = -np.abs(laid.tokens['old_logp'])
  signals = signals | {'old_logp': logp}
  credit, _ = batches.stream(links('hae_switch_gain'), batch, signals)
  hand, decided = [], []
  for i, sizes in enumerate(STORY.size):
    hand.append(np.zeros(len(sizes)))
    decided.append(np.arange(len(sizes)) > 0)
    for k, n in enumerate(sizes):
      on = np.array(_spans(n)) == int(Span.SWITCH)
      p = np.exp(-np.abs(STORY.token['old_logp'][i][k][on]).sum())
      beta = p if switches[i][k] else 1 - p
      gap = np.subtract(
        *(STORY.token[HEADS[v]][i][k][0] for v in ('high', 'low'))
      )
      hand[i][k] = (switches[i][k] - beta) * gap
  pool = np.concatenate([a[d] for a, d in zip(hand, decided, strict=True)])
  mean, std = np.mean(pool), np.sqrt(np.var(pool, ddof=1) + 1e-8)
  got = batches.read(credit.token, STORY, laid)
  for i, sizes in enumerate(STORY.size):
    for k, n in enumerate(sizes):
      on = np.array(_spans(n)) == int(Span.SWITCH)
      want = (hand[i][k] - mean) / std if k else 0
      np.testing.assert_allclose(got[i][k], want * on, atol=1e-9)
  assert not credit.target


def test_equal_advantages_are_exactly_zero():
  _, batch, signals = _lay([[0] * len(x) for x in STORY.size])
  zero = {name: np.zeros_like(x) for name, x in signals.items()}
  reward = np.where(batch.turns.valid, 0.1, 0)
  last = np.cumsum(batch.turns.valid, 1) == batch.turns.valid.sum(1)[:, None]
  reward = np.where(last, reward, 0)
  batch = batch.replace(turns=batch.turns.replace(reward=reward))
  credit, _ = batches.stream(links('turn_reward', 'hae_switch'), batch, zero)
  assert not np.any(credit.token)
  np.testing.assert_allclose(credit.target['switch'].max(), 0.1)


@pytest.mark.parametrize('link', ['hae_low', 'hae_high', 'hae_switch'])
def test_a_failed_judge_teaches_nothing(link):
  """Neither credit nor target for its trajectory."""
  laid, batch, signals = _lay(_switches())
  batch = unscored.turns(batch, (1, 0))
  credit, _ = batches.stream(links('turn_reward', link), batch, signals)
  name = link.removeprefix('hae_')
  for x in (credit.token, credit.target[f'{name}.weight']):
    told = batches.read(x, STORY, laid)
    assert not any(np.any(y) for y in told[1])
    assert any(np.any(y) for turns in told for y in turns)
