"""Which trajectories stay, and what their group's statistics are then."""

import functools

import jax
import numpy as np
import pytest

import agentrl.advantage
import agentrl.curate  # noqa: F401  both register their pieces
from agentrl import registry
from agentrl.advantage import chain
from tests import batches
from tests.advantage import unscored
from tests.advantage.estimators import mates, total, zscore
from tests.batches import links

pytestmark = pytest.mark.usefixtures('float64')

BIND = {
  'correct_and_clean_calls': {'share': 0.5},
  'most_varied': {'share': 0.5},
  'correct_and_clean': {'share': 0.5},
}


def _story():
  """Groups 0 to 4 of eight members, 5 of one; 1 is constant, 3 all solved."""
  s = batches.story(seed=6, groups=5, members=8, turns=3, longest=2)
  r = np.random.default_rng(0)
  won = [float(r.random() < (0.3, 0.0, 0.7, 1.0, 0.9, 1.0)[g]) for g in s.group]
  return s._replace(outcome=won)


STORY = _story()
WRONG = [
  [float(x > 0.3) for x in np.random.default_rng(7 + i).normal(size=len(sizes))]
  for i, sizes in enumerate(STORY.size)
]


def _facts(name):
  """Numbers of calls, faults and answers of each turn; some never call."""
  r = np.random.default_rng(11)
  calls = [
    r.integers(0, 3, len(x)) * (i % 5 > 0) for i, x in enumerate(STORY.size)
  ]
  found = {'calls': calls, 'faults': [r.integers(0, x + 1) for x in calls]}
  found['answers'] = [r.integers(0, 3, len(x)) for x in STORY.size]
  return found[name]


FACTS = {name: _facts(name) for name in ('calls', 'faults', 'answers')}


def _lay(padding=3):
  laid = batches.lay(STORY, 'packed', padding=padding)
  b, k = laid.batch.turns.valid.shape
  terms = {}
  for name, rows in {'invalid': WRONG, **FACTS}.items():
    terms[name] = np.full((b, k), 0.5)
    for i, x in enumerate(rows):
      terms[name][i, : len(x)] = x
  turns = laid.batch.turns.replace(terms=terms)
  return laid._replace(batch=laid.batch.replace(turns=turns))


def most_varied(s):
  std = {
    g: np.std(
      [total(s, i) for i in range(len(s.group)) if s.group[i] == g], ddof=1
    )
    if s.group.count(g) > 1
    else 0.0
    for g in set(s.group)
  }
  best = sorted(std, key=lambda g: -std[g])[: round(0.5 * len(std))]
  return [g in best for g in s.group]


def wrong(i):
  return np.mean(WRONG[i])


def failed_and_spare(i):
  calls, faults, answers = (
    sum(FACTS[name][i]) for name in ('calls', 'faults', 'answers')
  )
  error = faults / calls if calls else 0.5
  return error + (min((answers - 1) / len(STORY.size[i]), 1) if answers else 1)


def on_correct(s, penalty):
  kept = []
  for i in range(len(s.group)):
    js = mates(s, i)
    won = [j for j in js if s.outcome[j] > 0.5]
    lost = [j for j in js if j not in won]
    if not won or not lost:
      kept.append(False)
      continue
    n = round(len(js) / 2)
    fails = max(round(len(lost) / 2), min(2, len(lost)))
    fails = min(fails, n - min(2, len(won)))
    won.sort(key=penalty)
    kept.append(i in lost[:fails] + won[: n - fails])
  return kept


WANT = {
  'most_varied': most_varied,
  'correct_and_clean': functools.partial(on_correct, penalty=wrong),
  'correct_and_clean_calls': functools.partial(
    on_correct, penalty=failed_and_spare
  ),
}


def _run(batch):
  """Everything kept, and z-scores of what is."""
  out = {}
  chained = links('episode_return', 'center', 'scale')
  for name, hp in BIND.items():
    kept = registry.bind('curate', name, hp)(batch)
    credit, _ = chain.advantage({'a': chained}, {}, (), kept, {})
    out[name] = kept, credit.turn
  return out


@pytest.fixture(scope='module')
def found():
  laid = _lay()
  with jax.enable_x64(True):
    plain = jax.device_get(jax.jit(_run)(laid.batch))
    shape = laid.batch.rows.tokens.shape
    return laid, (plain, batches.on_a_mesh(_run, (laid.batch,), shape))


@pytest.mark.parametrize('name', BIND)
def test_keeps_what_it_says(name, found):
  laid, results = found
  want = WANT[name](STORY)
  assert 0 < sum(want) < len(want)
  b = len(STORY.group)
  for result in results:
    kept = result[name][0]
    weight, traj = kept.rows.weight, laid.batch.rows.traj
    for i in range(b):
      here = laid.batch.rows.sampled & (traj == i)
      assert np.all(weight[here] == want[i])
    scored = kept.turns.scored[:b]
    np.testing.assert_array_equal(
      scored, np.broadcast_to(np.array(want)[:, None], scored.shape)
    )
    assert not kept.turns.scored[b:].any()
    np.testing.assert_array_equal(kept.turns.reward, laid.batch.turns.reward)


def test_the_two_orders_of_solutions_differ():
  """So that neither piece passes for the other."""
  names = 'correct_and_clean', 'correct_and_clean_calls'
  one, two = (WANT[name](STORY) for name in names)
  assert one != two


@pytest.mark.parametrize('name', BIND)
def test_statistics_are_those_of_what_is_kept(name, found):
  kept = WANT[name](STORY)
  for result in found[1]:
    turn = result[name][1]
    for i, sizes in enumerate(STORY.size):
      pool = [total(STORY, j) for j in mates(STORY, i) if kept[j]]
      want = zscore(total(STORY, i), pool) if kept[i] else 0.0
      np.testing.assert_allclose(turn[i, : len(sizes)], want, atol=1e-9)


@pytest.mark.parametrize('layout', ['history', 'turn'])
@pytest.mark.parametrize('share', [0.25, 0.5, 1.0])
def test_contrastive_keeps_good_and_short_and_bad_and_long(layout, share):
  """Returns of three values, so that length decides; 3 is not scored."""
  reward = [
    [float((7 * i) % 3 - 1)] + [0.0] * (len(x) - 1)
    for i, x in enumerate(STORY.reward)
  ]
  reward[8:16] = [[0.5] + [0.0] * (len(x) - 1) for x in STORY.reward[8:16]]
  s = STORY._replace(reward=reward)
  batch = batches.lay(s, layout, padding=1).batch
  # A thought, a call, an argument, an answer, or none of these.
  r = np.random.default_rng(3)
  span = r.choice([0, 1, 2, 7, 8], batch.rows.span.shape).astype(np.int8)
  batch = unscored.turns(batch.replace(rows=batch.rows.replace(span=span)), 3)
  rows, kept = batch.rows, set()
  thought = rows.sampled & np.isin(span, [0, 1])
  length = [thought[rows.traj == i].sum() for i in range(len(s.group))]
  for g in set(s.group):
    members = [j for j, h in enumerate(s.group) if h == g and j != 3]
    totals = [sum(reward[j]) for j in members]
    if max(totals) == min(totals):
      continue
    order = sorted(members, key=lambda j: (-sum(reward[j]), length[j]))
    n = round(share * len(members))
    top = -(-n // 2)
    kept |= set(order[:top]) | set(order[len(order) - (n - top) :])
  hp = {'share': share}
  got = jax.jit(registry.bind('curate', 'contrastive', hp))(batch)
  some = np.asarray(got.turns.scored & batch.turns.valid).any(1)
  assert set(np.flatnonzero(some)) == kept
  assert not any(8 <= j < 16 for j in kept)
  assert kept
  weight = np.where(np.isin(rows.traj, list(kept)), rows.weight, 0)
  np.testing.assert_array_equal(got.rows.weight, weight)
