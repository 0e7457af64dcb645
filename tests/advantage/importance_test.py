"""Corrections for the sampler's own probabilities, against plain loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import chain, importance
from agentrl.types import LinkInputs
from tests import batches, errors

pytestmark = pytest.mark.usefixtures('float64')

UNITS = pytest.mark.parametrize('unit', importance.UNITS)
LAYOUTS = pytest.mark.parametrize('layout', batches.BY_DAY)


def _story():
  """token['entropy'] is the behaviour's log-prob, 0 where nobody sampled."""
  s = batches.story(seed=8, groups=2, members=2)
  r = np.random.default_rng(2)
  for i, sizes in enumerate(s.size):
    for k, n in enumerate(sizes):
      mu = s.token['old_logp'][i][k] + 0.5 * r.normal(size=n)
      s.token['entropy'][i][k] = np.where(r.random(n) < 0.2, 0.0, mu)
  return s


STORY = _story()


def _gaps():
  """[trajectory][turn] of log π_old − log μ, 0 where nobody sampled."""
  t = STORY.token
  return [
    [np.where(mu == 0, 0, p - mu) for p, mu in zip(*pair, strict=True)]
    for pair in zip(t['old_logp'], t['entropy'], strict=True)
  ]


def _ratios(unit, of=np.sum):
  out = []
  for turns in _gaps():
    if unit == 'token':
      out.append([np.exp(g) for g in turns])
    else:
      all_of = of(np.concatenate(turns))
      whole = [of(g) if unit == 'turn' else all_of for g in turns]
      out.append(
        [np.full(g.shape, np.exp(x)) for g, x in zip(turns, whole, strict=True)]
      )
  return out


def _run(layout, link, **hp):
  """Link, credit before and after; advantage k + 1 + own noise."""
  laid = jax.tree.map(jnp.asarray, batches.lay(STORY, layout, padding=1))
  rows = laid.batch.rows
  rows = rows.replace(logp=jnp.where(rows.sampled, laid.tokens['entropy'], 0))
  batch = laid.batch.replace(rows=rows)
  turn = jnp.broadcast_to(
    jnp.arange(batch.turns.valid.shape[1]) + 1.0, batch.turns.valid.shape
  )
  before = chain.zero(batch).replace(turn=turn, token=laid.tokens['prm'])
  run = jax.jit(registry.bind('link', link, hp))
  x = LinkInputs(batch=batch, credit=before, signals=laid.signals)
  after, told = run(x)
  return laid, before, after, told


def _read(x, laid):
  return batches.flat(batches.read(x, STORY, laid))


def _advantages(credit, laid):
  return _read(chain.token_advantage(credit, laid.batch.rows), laid)


@LAYOUTS
@UNITS
def test_truncated(unit, layout):
  laid, before, after, told = _run(layout, 'truncated_is', unit=unit, high=1.1)
  r = batches.flat(_ratios(unit))
  want = _advantages(before, laid) * np.minimum(r, 1.1)
  np.testing.assert_allclose(_advantages(after, laid), want, rtol=1e-10)
  np.testing.assert_array_equal(after.weight, before.weight)
  assert 0 < float(told['clip'][0]) == (r > 1.1).sum() < r.size
  np.testing.assert_allclose(told['ratio'], (r.sum(), r.size), rtol=1e-10)


@LAYOUTS
@UNITS
def test_masked(unit, layout):
  laid, before, after, told = _run(
    layout, 'masked_is', unit=unit, low=0.8, high=1.3
  )
  r = batches.flat(_ratios(unit))
  keep = (r >= 0.8) & (r <= 1.3)
  want = _advantages(before, laid) * np.where(keep, r, 0)
  np.testing.assert_allclose(_advantages(after, laid), want, rtol=1e-10)
  np.testing.assert_array_equal(after.weight, before.weight)
  assert 0 < float(told['mask'][0]) == (~keep).sum() < r.size


@LAYOUTS
@UNITS
def test_geometric_mask(unit, layout):
  laid, before, after, told = _run(
    layout, 'geometric_mask', unit=unit, low=0.9, high=1.1
  )
  r = batches.flat(_ratios(unit, np.mean))
  keep = (r >= 0.9) & (r <= 1.1)
  np.testing.assert_array_equal(_read(after.weight, laid), keep)
  np.testing.assert_array_equal(after.turn, before.turn)
  np.testing.assert_array_equal(after.token, before.token)
  assert 0 < float(told['mask'][0]) == (~keep).sum() < r.size


def _smallest(square, bound):
  """The most smallest values whose mean is within the bound, one by one."""
  keep, order = np.zeros(len(square), bool), np.argsort(square, kind='stable')
  for n in range(1, len(square) + 1):
    if square[order[:n]].mean() <= bound:
      keep[order[:n]] = True
  return keep


@LAYOUTS
@pytest.mark.parametrize('roles', [False, True])
def test_second_moment_mask(layout, roles, monkeypatch):
  writer = np.arange(len(STORY.size)) % 2
  if roles:
    lay = batches.lay

    def laid_by_role(*args, **more):
      made = lay(*args, **more)
      role = np.zeros(len(made.batch.outcome), np.int32)
      role[: len(writer)] = writer
      ids = {**made.batch.ids, 'role': role}
      return made._replace(batch=made.batch.replace(ids=ids))

    monkeypatch.setattr(batches, 'lay', laid_by_role)
  bound = 0.1
  laid, before, after, told = _run(layout, 'second_moment_mask', bound=bound)
  square = batches.flat(_gaps()) ** 2
  of = np.concatenate(
    [np.full(sum(map(len, t)), w) for t, w in zip(_gaps(), writer, strict=True)]
  )
  of = of if roles else np.zeros_like(of)
  keep = np.zeros(len(square), bool)
  for i in np.unique(of):
    keep[of == i] = _smallest(square[of == i], bound)
    assert square[(of == i) & keep].mean() <= bound
  np.testing.assert_array_equal(_read(after.weight, laid), keep)
  np.testing.assert_array_equal(after.turn, before.turn)
  assert 0 < float(told['mask'][0]) == (~keep).sum() < square.size
  np.testing.assert_allclose(told['second_moment'][0], square.sum(), rtol=1e-9)


@pytest.mark.parametrize(
  'link', ['truncated_is', 'masked_is', 'geometric_mask', 'second_moment_mask']
)
def test_where_learner_and_sampler_agree_nothing_happens(link):
  laid = jax.tree.map(jnp.asarray, batches.lay(STORY, 'packed'))
  before = chain.zero(laid.batch).replace(token=laid.tokens['prm'])
  x = LinkInputs(batch=laid.batch, credit=before, signals=laid.signals)
  hp = {} if link == 'second_moment_mask' else {'unit': 'trajectory'}
  run = registry.bind('link', link, hp)
  after, _ = run(x)  # rows.logp is old_logp
  np.testing.assert_array_equal(
    _advantages(after, laid), _advantages(before, laid)
  )
  np.testing.assert_array_equal(after.weight, before.weight)


def test_an_unknown_unit_is_named():
  with errors.raises(ValueError, 'unit row'):
    _run('turn', 'truncated_is', unit='row')
