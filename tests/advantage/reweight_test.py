"""Filters and weights of advantages, against plain loops over trajectories."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from agentrl import registry
from agentrl.advantage import chain
from agentrl.types import Span
from tests import batches

pytestmark = pytest.mark.usefixtures('float64')

STORY = batches.story(4, groups=3, members=4)
LAYOUTS = pytest.mark.parametrize('layout', batches.BY_DAY)


def _lay(layout='packed', **change):
  laid = jax.tree.map(jnp.asarray, batches.lay(STORY, layout, padding=1))
  turns = laid.batch.turns
  terms = {**turns.terms, 'tokens': jnp.exp(2 * turns.terms['judge'])}
  turns = turns.replace(terms=terms, **change)
  return laid._replace(batch=laid.batch.replace(turns=turns))


def _run(laid, *links):
  return batches.stream(batches.links(*links), laid.batch, laid.signals)


def _tokens(credit, laid):
  a = chain.token_advantage(credit, laid.batch.rows)
  return batches.flat(batches.read(a, STORY, laid))


def _spread(per_turn):
  """[trajectory][turn] numbers on every sampled token, flat."""
  return np.concatenate(
    [
      np.full(n, x)
      for sizes, xs in zip(STORY.size, per_turn, strict=True)
      for n, x in zip(sizes, xs, strict=True)
    ]
  )


SPANS = {
  'subgoal': (Span.SUBGOAL,),
  'call': (Span.CALL, Span.ARGUMENT),
  'argument': (Span.ARGUMENT,),
}


@LAYOUTS
@pytest.mark.parametrize('name', SPANS)
def test_on_span(name, layout):
  """A call has its arguments."""
  laid = _lay(layout)
  rows = laid.batch.rows
  span = np.random.default_rng(0).choice(Span, rows.span.shape)
  batch = laid.batch.replace(rows=rows.replace(span=span.astype(np.int8)))
  laid = laid._replace(batch=batch)
  credit, _ = _run(laid, 'turn_reward', ('on_span', {'name': name}))
  here = batches.flat(batches.read(np.isin(span, SPANS[name]), STORY, laid))
  want = np.where(here, _spread(STORY.reward), 0)
  np.testing.assert_array_equal(_tokens(credit, laid), want)
  assert 0 < here.sum() < here.size


def test_a_span_that_no_rollout_marks_is_refused():
  w = registry.MethodSpec(
    advantage=('a',), stream={'a': ('turn_reward', 'on_span')}
  )
  assert registry.needs(w, 'a', 'link', 'on_span') == ('span:call',)


@LAYOUTS
@pytest.mark.parametrize('limit', [1.5, 100.0])
def test_duration_weight(layout, limit):
  laid = _lay(layout)
  start = ('turn_reward', ('add_token_signal', {'name': 'implicit_prm.token'}))
  before, _ = _run(laid, *start)
  after, told = _run(laid, *start, ('duration_weight', {'limit': limit}))
  d = [[np.exp(2 * x) for x in xs] for xs in STORY.step]
  flat = np.concatenate(d)
  cut = [[min(x / flat.mean(), limit) for x in xs] for xs in d]
  mean = np.concatenate(cut).mean()
  want = [[x / mean for x in xs] for xs in cut]
  np.testing.assert_allclose(
    _tokens(after, laid), _tokens(before, laid) * _spread(want), rtol=1e-10
  )
  assert np.concatenate(want).mean() == pytest.approx(1)
  np.testing.assert_allclose(
    told['duration_weight'][0],
    np.max(flat.clip(max=limit * flat.mean()) / flat.mean() / mean),
  )


@pytest.mark.parametrize('seconds', [0.0, 3.0])
def test_equal_durations_change_nothing(seconds):
  laid = _lay()
  turns = laid.batch.turns
  terms = {'tokens': jnp.full(turns.valid.shape, seconds)}
  laid = laid._replace(
    batch=laid.batch.replace(turns=turns.replace(terms=terms))
  )
  credit, _ = _run(laid, 'turn_reward', 'duration_weight')
  np.testing.assert_allclose(_tokens(credit, laid), _spread(STORY.reward))


@LAYOUTS
def test_success_rate(layout):
  """Group 1 solved everything, the last trajectory is alone: no weight.

  An outcome of 0 is no success.
  """
  laid = _lay(layout)
  least = jnp.maximum(laid.batch.outcome, 0)
  laid = laid._replace(batch=laid.batch.replace(outcome=least))
  credit, _ = _run(laid, 'episode_outcome', ('success_rate', {'margin': 0.4}))
  n = len(STORY.group)
  good = [x > 0 for x in STORY.outcome]
  rate = [
    np.mean([good[j] for j in range(n) if STORY.group[j] == STORY.group[i]])
    for i in range(n)
  ]
  mixed = [
    0 < r < 1 and STORY.group.count(g) > 1
    for r, g in zip(rate, STORY.group, strict=True)
  ]

  def spread(xs):
    return _spread([[x] * len(s) for x, s in zip(xs, STORY.size, strict=True)])

  np.testing.assert_array_equal(_tokens(credit, laid), spread(good))
  weight = batches.flat(batches.read(credit.weight, STORY, laid))
  np.testing.assert_array_equal(weight, spread(mixed))
  got = batches.flat(batches.read(credit.target['rate'], STORY, laid))
  kept = spread(mixed) > 0
  want = np.clip(spread(rate), 0.4, 0.6)
  np.testing.assert_allclose(got[kept], want[kept])
  assert 0 < sum(mixed) < n
  assert set(rate) - {0.0, 0.5, 1.0}  # something the margin moved


# ---- conditions and limits of turns


@pytest.mark.parametrize('failed', [False, True])
def test_gate_in_plain_loops(failed):
  laid = _lay('history')
  mask = np.asarray(laid.batch.turns.valid).copy()
  if failed:
    mask[:, 0] &= np.arange(len(mask)) % 3 > 0
    laid = _lay('history', scored=jnp.asarray(mask))
  hp = {
    'terms': ('outcome', 'judge'),
    'scales': (1.0, -2.0),
    'thresholds': (0.0, -1.0),
    'otherwise': -0.7,
  }

  credit, _ = _run(laid, 'turn_reward', ('gate', hp))
  want, through = np.zeros(mask.shape), set()
  for i, xs in enumerate(STORY.reward):
    here = mask[i, : len(xs)]
    total = sum(np.array(STORY.step[i])[here])
    passes = STORY.outcome[i] >= 0 and -2 * total >= -1
    through.add(bool(passes))
    want[i, : len(xs)] = np.where(here, xs if passes else -0.7, 0)
  np.testing.assert_allclose(credit.turn, want, rtol=1e-12)
  assert through == {True, False}


def test_by_default_only_solutions_are_credited():
  laid = _lay('history')
  outcome = jnp.where(laid.batch.outcome > 0, 1.0, 0.3)
  laid = laid._replace(batch=laid.batch.replace(outcome=outcome))
  credit, _ = _run(laid, 'turn_reward', 'gate')
  plain, _ = _run(laid, 'turn_reward')
  want = np.where((outcome == 1)[:, None], plain.turn, 0)
  np.testing.assert_array_equal(credit.turn, want)


def test_clip_is_the_equation():
  laid = _lay('history')
  plain, _ = _run(laid, 'turn_reward')
  credit, _ = _run(laid, 'turn_reward', ('clip', {'most': 0.5}))
  want = np.clip(np.asarray(plain.turn), -0.5, 0.5)
  np.testing.assert_array_equal(credit.turn, want)
  assert (want == 0.5).any()
  assert (want == -0.5).any()


@LAYOUTS
def test_flip_below_mean(layout):
  """By returns of the group; constant groups and single ones stay."""
  laid, own = _lay(layout), ('to_tokens', 'kl_in_reward')
  before = _tokens(_run(laid, 'turn_reward', *own)[0], laid)
  stream = ('turn_reward', *own, 'flip_below_mean')
  credit, metrics = _run(laid, *stream)
  total = np.array([sum(x) for x in STORY.reward])
  group = np.array(STORY.group)
  mean = np.array([total[group == g].mean() for g in group])
  sign = np.where((total < mean) & (group != 1), -1.0, 1.0)
  assert {*sign[group == 0]} == {-1.0, 1.0}
  assert sign[-1] == 1
  want = _spread(
    [[x] * len(r) for x, r in zip(sign, STORY.reward, strict=True)]
  )
  np.testing.assert_allclose(_tokens(credit, laid), before * want)
  turns = np.array([len(r) for r in STORY.reward])
  told = turns[sign < 0].sum(), turns.sum()
  np.testing.assert_allclose(metrics['flipped'], told)
