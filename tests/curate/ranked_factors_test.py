"""The comparison tree of ranked factors, against one by loops in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import agentrl.curate  # noqa: F401  registers its components
from agentrl import registry
from agentrl.configs import base, dpo, heron
from tests import batches, errors
from tests.advantage import unscored

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(seed=4, groups=3, members=6, turns=3)
OUT = 3  # a trajectory whose judge failed
FACTORS = {'harm': -1, 'gain': 1, 'cost': -1}  # and which side is better


def factors(seed=0):
  """Whole numbers of each turn, so that there are ties: {name: [B][K]}."""
  r = np.random.default_rng(seed)
  high = {'harm': 2, 'gain': 4, 'cost': 9}
  return {
    name: [r.integers(0, high[name], len(x)).tolist() for x in STORY.reward]
    for name in FACTORS
  }


def make_batch(values, scale=None):
  """The story with these factors, in other units where scale says so."""
  laid = batches.lay(STORY, padding=2)
  b, k = laid.batch.turns.valid.shape
  terms = {}
  for name, rows in values.items():
    x = np.full((b, k), 77.0)  # padding holds anything
    for i, row in enumerate(rows):
      x[i, : len(row)] = row
    terms[name] = x * (scale or {}).get(name, 1.0)
  batch = unscored.turns(laid.batch, OUT)
  batch = batch.replace(turns=batch.turns.replace(terms=terms))
  return jax.tree.map(jnp.asarray, batch)


def compared(batch, **hp):
  """(win, lose) of the pairs that count."""
  hp = {
    'factors': tuple(FACTORS),
    'fewer': ('harm', 'cost'),
    'most': 50,
    **hp,
  }
  pairs = jax.jit(registry.bind('curate', 'ranked_factors', hp))(batch).pairs
  on = np.asarray(pairs.weight) > 0
  assert set(np.asarray(pairs.weight)) <= {0.0, 1.0}
  assert np.all(np.asarray(pairs.win)[:, 1] == -1)
  halves = [np.asarray(x)[on, 0].tolist() for x in (pairs.win, pairs.lose)]
  got = list(zip(*halves, strict=True))
  assert len(got) == len(set(got))
  return set(got)


def by_hand(values, margin=1.0, first=0.0):
  """{(win, lose): level that decides}, one comparison after the other."""
  live = [i for i in range(len(STORY.group)) if i != OUT]
  total = {
    name: {i: side * float(sum(values[name][i])) for i in live}
    for name, side in FACTORS.items()
  }
  delta = {}
  for m, name in enumerate(FACTORS):
    x = np.array([*total[name].values()])
    delta[name] = (margin if m else first) * np.sqrt(
      np.mean((x - x.mean()) ** 2)
    )
  out = {}
  for i in live:
    for j in live:
      if STORY.group[i] != STORY.group[j]:
        continue
      for m, name in enumerate(FACTORS):
        gap = total[name][i] - total[name][j]
        if abs(gap) > max(delta[name], 1e-9):
          if gap > 0:
            out[i, j] = m
          break
  return out


@pytest.mark.parametrize(
  ('margin', 'first'), [(1.0, 0.0), (0.0, 0.0), (0.5, 2.0)]
)
def test_the_tree_is_that_of_loops(margin, first):
  want = by_hand(factors(), margin, first)
  assert compared(make_batch(factors()), margin=margin, first=first) == set(
    want
  )
  assert len(set(want.values())) > 1  # more than one factor decides
  assert all((j, i) not in want for i, j in want)


def test_units_do_not_matter_and_a_sum_with_weights_is_another():
  """HERON's claim: pairs are the same, whatever a factor is measured in."""
  values = factors()
  want = compared(make_batch(values))

  def summed(scale):
    """Pairs by Σ ± factor, as a return of `every_pair`."""
    batch = make_batch(values, scale)
    reward = sum(s * batch.turns.terms[n] for n, s in FACTORS.items())
    reward = jnp.where(batch.turns.valid, reward, 0)
    turns = batch.turns.replace(reward=reward)
    pairs = registry.bind('curate', 'every_pair', {'most': 50})(
      batch.replace(turns=turns)
    ).pairs
    on = np.asarray(pairs.weight) > 0
    return {
      (int(w), int(x))
      for w, x in zip(pairs.win[on, 0], pairs.lose[on, 0], strict=True)
    }

  plain = summed({})
  for scale in ({'gain': 200.0}, {'gain': 1e-3}, {'harm': 0.02, 'cost': 30.0}):
    assert compared(make_batch(values, scale)) == want
    assert summed(scale) != plain
  assert summed({}) != want


def test_all_tie_and_nothing_is_paired():
  """Equal sums, which rounding leaves apart: no factor has a side."""
  parts = {1: [[0.6]], 2: [[0.2, 0.4]], 3: [[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]}
  rows = [
    parts[len(x)][i % len(parts[len(x)])] for i, x in enumerate(STORY.reward)
  ]
  sums = np.asarray(jax.jit(lambda x: jnp.sum(x, 1))(jnp.asarray(parts[3])))
  assert 0 < abs(sums[0] - sums[1]) < 1e-15
  values = dict.fromkeys(FACTORS, rows)
  for margin in (0.0, 1.0):
    assert compared(make_batch(values), margin=margin) == set()


def test_an_earlier_factor_goes_before_where_few_are_taken():
  want = by_hand(factors())
  got = compared(make_batch(factors()), most=1)
  assert len(got) == len({i for i, _ in got})
  for i, j in got:
    assert want[i, j] == min(m for (a, _), m in want.items() if a == i)


def test_its_order_is_what_decides():
  """Without the hierarchy, factors in another order, other pairs."""
  batch = make_batch(factors())
  turned = compared(batch, factors=('cost', 'gain', 'harm'))
  assert turned != compared(batch)


def test_fewer_is_of_factors():
  c = dpo.get_config('tiny')
  c.curate, c.hp.curate = ('ranked_factors',), {}
  base.fill(c)
  c.hp.curate.ranked_factors.fewer = ('tokens',)
  with errors.raises(ValueError, 'ranked_factors.fewer factors tokens'):
    registry.check(base.wiring(c), c)


@pytest.mark.parametrize('arg', ['tiny', 'tiny,env=frozen_lake'])
def test_the_config_fits_together(arg):
  c = heron.get_config(arg)
  registry.check(base.wiring(c), c)
